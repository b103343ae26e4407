"""Checks of the arguments of ``fit``, and the split that it validates on."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import _check_sample_weight

from unicornn.errors import BadValue
from unicornn.estimators._series import naming_errors


def inner_split(target: np.ndarray, groups: Any, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows to validate on; the latter are empty if there are too few series.

    Splits by groups if given; otherwise stratified by class if there are enough members of each class.
    """
    n = len(target)
    everything = np.arange(n), np.array([], dtype=np.int64)
    n_valid = round(fraction * n)
    if n_valid < 1 or n < 4 or (groups is not None and len(np.unique(groups)) < 2):
        return everything
    if groups is not None:
        return next(GroupShuffleSplit(1, test_size=fraction, random_state=seed).split(target, groups=groups))
    counts = np.unique(target, return_counts=True)[1] if target.ndim == 1 else np.array([0])
    stratify = counts.min() >= 2 and len(counts) <= n_valid <= n - len(counts)
    splitter = (StratifiedShuffleSplit if stratify else ShuffleSplit)(1, test_size=n_valid, random_state=seed)
    return next(splitter.split(target, target))


def seed_from(random_state: Any) -> int:
    """A seed drawn from scikit-learn's ``random_state``: None, an integer or a generator."""
    with naming_errors("random_state"):
        return int(check_random_state(random_state).randint(2**31 - 1))


def check_weights(sample_weight: Any, n: int) -> np.ndarray:
    """Weights of the series (n,), scaled to a maximum of 1."""
    with naming_errors("sample_weight"):
        weights = np.asarray(_check_sample_weight(sample_weight, np.zeros((n, 1)), dtype=np.float64))
    if not ((weights >= 0) & (weights < np.inf)).all() or not weights.any():
        raise BadValue("sample_weight: expected finite numbers >= 0, not all of them 0")
    return weights / weights.max()


def check_count(name: str, values: Any, n: int) -> None:
    count = len(values) if hasattr(values, "__len__") and getattr(values, "ndim", None) != 0 else None
    if count is not None and count != n:
        raise BadValue(f"{name}: expected one for each of the {n} series, got {count}")


def check_no_missing_targets(y: Any) -> None:
    """Raises an error that names the first series whose target is NaN, None or pandas' NA."""
    values = np.asarray(y)
    if values.dtype.kind not in "fO":
        return
    import pandas as pd

    missing = pd.isna(values)
    if missing.any():
        i = int(np.argwhere(missing)[0, 0])
        raise BadValue(f"y: expected a target for every series, got none (NaN) for series {i}")


def check_groups(groups: Any, n: int) -> np.ndarray:
    """Group labels of the series, (n,)."""
    check_count("groups", groups, n)
    with naming_errors("groups"):
        labels = column_or_1d(groups)
        np.unique(labels)  # fails if labels cannot be compared
        return labels
