"""Which sequences are for training, validation and test: by chance, but always by the same one."""

from __future__ import annotations

import numpy as np

from unicornn.errors import BadValue


def held_out(n: int, sizes: tuple[int, ...], seed: int) -> list[np.ndarray]:
    """The numbers 0 ... n-1 dealt out at random: first those that are left, then as many as each size says.

    Example:
        >>> from unicornn.lab.data._splits import held_out
        >>> [len(split) for split in held_out(60_000, (3_000,), seed=0)]
        [57000, 3000]
    """
    if sum(sizes) >= n:
        raise BadValue(f"sizes: expected fewer than the {n} there are, got {' + '.join(map(str, sizes))}")
    order = np.random.default_rng(seed).permutation(n)
    left = n - sum(sizes)
    return [np.sort(split) for split in np.split(order, np.cumsum([left, *sizes])[:-1])]


def fifteen_percent(n: int, seed: int) -> list[np.ndarray]:
    """Training, validation and test: 70/15/15 %, as in the paper.

    Example:
        >>> from unicornn.lab.data._splits import fifteen_percent
        >>> [len(split) for split in fifteen_percent(259, seed=0)]
        [181, 39, 39]
    """
    size = max(1, round(0.15 * n))
    return held_out(n, (size, size), seed)


def by_group(groups: np.ndarray, seed: int) -> list[np.ndarray]:
    """70/15/15 % of the groups: members of a group (n,) are never in two splits.

    Example:
        >>> import numpy as np
        >>> from unicornn.lab.data._splits import by_group
        >>> [len(split) for split in by_group(np.arange(100) // 10, seed=0)]
        [60, 20, 20]
    """
    names, member = np.unique(groups, return_inverse=True)
    return [np.flatnonzero(np.isin(member, split)) for split in fifteen_percent(len(names), seed)]


def stratified_folds(labels: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """The fold of each sequence (n,): every class, and the whole, spread over the folds as evenly as can be.

    Example:
        >>> import numpy as np
        >>> from unicornn.lab.data._splits import stratified_folds
        >>> np.bincount(stratified_folds(np.arange(44) % 5, folds=5, seed=0))
        array([9, 9, 9, 9, 8])
    """
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    dealt = shuffled[np.argsort(labels[shuffled], kind="stable")]  # class after class, in random order within each
    fold = np.empty(len(labels), np.int64)
    fold[dealt] = np.arange(len(labels)) % folds
    return fold
