"""Random splits into training, validation and test, and stratified folds.

Published results depend on them, so they are drawn by a fixed recipe: those of scikit-learn would be other splits.
"""

from __future__ import annotations

import numpy as np

from unicornn.errors import BadValue


def random_split(n: int, sizes: tuple[int, ...], seed: int) -> list[np.ndarray]:
    """The indices 0 ... n-1 at random: the remaining ones first, then one array for each of the sizes; each sorted."""
    if sum(sizes) >= n:
        raise BadValue(f"sizes: expected fewer than {n} in total, got {' + '.join(map(str, sizes))}")
    order = np.random.default_rng(seed).permutation(n)
    return [np.sort(split) for split in np.split(order, np.cumsum([n - sum(sizes), *sizes])[:-1])]


def split_70_15_15(n: int, seed: int) -> list[np.ndarray]:
    """Training, validation and test: 70/15/15 %, as in the paper."""
    size = max(1, round(0.15 * n))
    return random_split(n, (size, size), seed)


def split_groups_70_15_15(groups: np.ndarray, seed: int) -> list[np.ndarray]:
    """70/15/15 % of the groups: all members of a group (n,) are in the same split."""
    names, member = np.unique(groups, return_inverse=True)
    return [np.flatnonzero(np.isin(member, split)) for split in split_70_15_15(len(names), seed)]


def stratified_folds(labels: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Fold of each sequence (n,): sequences, and those of each class, are divided as evenly as possible."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]  # in random order within each class
    fold = np.empty(len(labels), np.int64)
    fold[by_class] = np.arange(len(labels)) % folds
    return fold
