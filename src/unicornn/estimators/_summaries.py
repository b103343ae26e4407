"""Summary statistics of a series. They complement the oscillators' features, above all for very short series."""

from __future__ import annotations

import numpy as np

from unicornn.estimators._series import Series

NAMES = (
    "mean", "deviation", "min", "lower_quartile", "median", "upper_quartile", "max", "first", "last", "trend",
    "mean_increment", "min_at", "max_at",
)  # fmt: skip
"""Statistics of each channel; "min_at" and "max_at" are positions as fractions of the length."""


def summaries(series: Series) -> np.ndarray:
    """The statistics ``NAMES`` of every channel of series (N_i, d): (n, 13 d) in float32.

    Example:
        >>> import numpy as np
        >>> from unicornn.estimators._summaries import NAMES, summaries
        >>> dict(zip(NAMES, summaries([np.array([[1.0], [2.0], [6.0]])])[0].tolist()))["mean"]
        3.0
    """
    return np.stack([_summary(x.astype(np.float64)).ravel() for x in series]).astype(np.float32)


def _summary(x: np.ndarray) -> np.ndarray:
    """(N, d) to (13, d)."""
    N = len(x)
    time = np.arange(N) / max(N - 1, 1)
    mean = x.mean(0)
    increment = np.abs(np.diff(x, axis=0)).mean(0) if N > 1 else np.zeros(x.shape[1])
    trend = (time - time.mean()) @ (x - mean) / N
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75], axis=0)
    positions = time[x.argmin(0)], time[x.argmax(0)]
    return np.stack([mean, x.std(0), x.min(0), low, middle, high, x.max(0), x[0], x[-1], trend, increment, *positions])
