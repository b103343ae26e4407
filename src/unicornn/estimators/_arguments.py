"""What ``fit`` is given beside the series: weights, groups, random numbers, and the split that it validates on."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from unicornn.errors import BadType, BadValue
from unicornn.estimators._series import naming


def inner_split(target: np.ndarray, groups: Any, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows to validate on: by groups where given, else with the same share of every class where
    there are enough of each; no rows to validate on where there are too few."""
    n = len(target)
    everything = np.arange(n), np.array([], dtype=np.int64)
    held = round(fraction * n)
    if held < 1 or n < 4:
        return everything
    splitter: Any
    if groups is not None:
        if len(np.unique(groups)) < 2:
            return everything
        splitter = GroupShuffleSplit(1, test_size=fraction, random_state=seed)
        return next(splitter.split(target, groups=groups))
    counts = np.unique(target, return_counts=True)[1] if target.ndim == 1 else np.array([0])
    if counts.min() >= 2 and held >= len(counts) and n - held >= len(counts):
        splitter = StratifiedShuffleSplit(1, test_size=held, random_state=seed)
        return next(splitter.split(target, target))
    splitter = ShuffleSplit(1, test_size=held, random_state=seed)
    return next(splitter.split(target))


def seed(random_state: Any) -> int:
    """A number drawn from it, or made of it."""
    with naming("random_state"):
        return int(check_random_state(random_state).randint(2**31 - 1))


def weights(sample_weight: Any, n: int) -> np.ndarray:
    """Of the series, from 0 to 1."""
    with naming("sample_weight"):
        found = np.asarray(_check_sample_weight(sample_weight, np.zeros((n, 1)), dtype=np.float64))
    if not ((found >= 0) & (found < np.inf)).all() or not found.any():
        raise BadValue("sample_weight: expected finite numbers >= 0, not all of them 0")
    return found / found.max()


def same_count(name: str, y: Any, n: int) -> None:
    """Refuses targets that are not as many as the series."""
    count = len(y) if hasattr(y, "__len__") and getattr(y, "ndim", None) != 0 else None
    if count is not None and count != n:
        raise BadValue(f"{name}: expected one target for each of the {n} series, got {count}")


def every_target(y: Any) -> None:
    """Refuses targets some of which are missing, and names the first."""
    found = np.asarray(y)
    if found.dtype.kind == "f":
        gone = np.isnan(found)
    elif found.dtype.kind == "O":
        gone = np.array([_missing(value) for value in found.ravel()], dtype=bool).reshape(found.shape)
    else:
        return
    if gone.any():
        i = int(np.argwhere(gone)[0, 0])
        raise BadValue(f"y: expected a target for every series, got none (NaN) for series {i}")


def _missing(value: Any) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def groups(values: Any, n: int) -> np.ndarray:
    """One for each series."""
    try:
        found = np.asarray(values)
        np.unique(found)  # which are to be told apart
    except (TypeError, ValueError) as error:
        raise BadType(f"groups: expected names or numbers that can be sorted, got others: {error}") from error
    if found.shape != (n,):
        raise BadValue(f"groups: expected one for each of the {n} series, got shape {found.shape}")
    return found
