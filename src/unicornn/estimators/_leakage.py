"""Warns of near-duplicates on both sides of a split, such as overlapping windows of one recording.

Scores are then too high for new recordings. How near the nearest series is doesn't tell: classes may be narrow. But
windows of one recording form a cluster: the distances from one of them to the series of its class (of a regression: to
all series) have a gap, between those of its own recording and the rest.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from unicornn.estimators._ridge import CLIP, Ridge
from unicornn.estimators._series import Series

GAP = 1.2  # ratio of consecutive distances, in half of the series; at most 1.17 on the splits of 28 datasets
NEAR = 0.65  # mean distance within the gap, relative to the median distance
CLUSTER = 1 / 3  # of a class at most lies before the gap
FEWEST = 6  # members of a class
MOST = 1024  # series on either side are compared
EQUAL = 0.01  # share of equal series from which on there is a warning


class Clusters(NamedTuple):
    """Medians over new series: the ratio of distances at the largest gap, and the relative distance before it.

    Example:
        >>> from unicornn.estimators._leakage import Clusters
        >>> Clusters(gap=1.5, near=0.3).tight
        True
    """

    gap: float
    near: float

    @property
    def tight(self) -> bool:
        """Whether new series form tight clusters with known ones."""
        return bool(self.gap >= GAP and self.near <= NEAR)


def clusters(ridge: Ridge, known: np.ndarray, new: np.ndarray, comparable: np.ndarray) -> Clusters:
    """Compares features (k, p) of new series with those of known ones, (n, p).

    Args:
        ridge: Fitted to the known series; its moments scale the features.
        comparable: Whether a known series counts for a new one, (k, n): it has the same class, and is another series.
    """
    random = np.random.RandomState(0)
    rows, columns = (np.sort(random.permutation(size)[:MOST]) for size in comparable.shape)
    A, B = (_standardised(ridge, F) for F in (new[rows], known[columns]))
    squares = (A**2).sum(1)[:, None] + (B**2).sum(1) - 2 * A @ B.T
    found = []
    for each, others in zip(np.sqrt(np.maximum(squares, 0)), comparable[np.ix_(rows, columns)], strict=True):
        distances = np.sort(each[others])
        if len(distances) >= FEWEST:
            nearest = np.maximum(distances[: int(CLUSTER * len(distances)) + 1], 1e-3 * distances[-1])
            last = int(np.argmax(nearest[1:] / np.maximum(nearest[:-1], 1e-9)))
            gap = nearest[last + 1] / max(nearest[last], 1e-9)
            found.append((gap, nearest[: last + 1].mean() / max(np.median(distances), 1e-9)))
    return Clusters(*np.median(found, 0).tolist()) if found else Clusters(1.0, 1.0)


def _standardised(ridge: Ridge, F: np.ndarray) -> np.ndarray:
    return np.asarray(((F - ridge.mean) / ridge.deviation).clip(-CLIP, CLIP).astype(np.float32))


def same_class(target: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Whether pairs of series have the same class, (k, n); numbers are all alike."""
    return np.ones((len(target), len(known)), bool) if target.ndim > 1 else target[:, None] == known


def count_equal(known: Series, new: Series) -> int:
    """Number of new series that are also among the known ones, in float32."""
    contents = {np.ascontiguousarray(x, np.float32).tobytes() for x in known}
    return sum(np.ascontiguousarray(x, np.float32).tobytes() in contents for x in new)


def warn_of_leakage(equal: int, count: int, found: Clusters | None) -> None:
    """Warns if validation series equal training series (1 % of them at least), or form tight clusters with them."""
    if equal >= EQUAL * count:
        problem = f"{equal:,} of the {count:,} series equal training series"
    elif found is not None and found.tight:
        problem = "its series form tight clusters with training series, like overlapping windows of one recording"
    else:
        return
    warnings.warn(
        f"validation_data: {problem}, so scores on them say little about new series; split by recording, patient or "
        "machine",
        stacklevel=4,
    )
