"""The features of a series: the quantities at the ends of its windows, pooled, and summary statistics.

The kernel is in ``_pooling_kernels``.
"""

from __future__ import annotations

import numpy as np
import torch

from unicornn._ops.cpu import launch
from unicornn.estimators._oscillators import Oscillators
from unicornn.estimators._series import Series

NAMES = (
    "mean", "deviation", "min", "lower_quartile", "median", "upper_quartile", "max", "first", "last", "trend",
    "mean_increment", "min_at", "max_at",
)  # fmt: skip
"""Summary statistics of each channel, above all for very short series; positions are fractions of the length."""


def pooled_names(layer: Oscillators, quantiles: list[float]) -> list[str]:
    """Names of the pooled features, in order, such as "logE0_mean"."""
    of_energies = ["deviation", *(f"above{q:g}" for q in quantiles), "crossings"]
    of_energies += [] if layer.view.pairs else ["trend"]
    names = [f"{name}_{pool}" for pool in ("mean", "max", "min") for name in layer.names]
    return names + [f"{name}_{pool}" for pool in of_energies for name in layer.names[layer.n_phases :]]


def pooled(series: Series, layer: Oscillators) -> np.ndarray:
    """Features (n, len(pooled_names)) in float32.

    Mean, maximum and minimum over a series' windows. For energies also the deviation, the fraction above each level,
    the fraction of consecutive windows on different sides of the median, and the trend along the series. Windows are
    processed in batches, so that memory does not grow with the length.
    """
    n, F, q = len(series), len(layer.names), len(layer.levels)
    starts = [layer.view.starts(len(x)) for x in series]
    sums = np.zeros((n, 3, F))  # of the values, their squares, and their products with the window's index
    extremes = np.full((n, 2, F), -np.inf, np.float32)  # maxima of the values and of their negatives
    counts = np.zeros((n, q + 1, F), np.float32)  # windows above each level; crossings of the median
    side = np.full((n, F), -1.0, np.float32)  # whether the previous window was above the median; -1 before the first
    seen = np.zeros(n, np.int64)  # windows so far
    levels = np.concatenate([layer.levels.reshape(q, F), layer.middle[None]])
    kernel = launch.kernel("unicornn.estimators._pooling_kernels", "pool")
    for rows, sizes, values in layer.run(series, starts):
        cuts = np.concatenate([[0], np.cumsum(sizes)])
        launch.share_out(
            kernel, torch.float32, len(rows), min(torch.get_num_threads(), len(rows)), values.contiguous().numpy(),
            np.array(rows), cuts, levels, sums, extremes, counts, side, seen,
        )  # fmt: skip
    windows = np.array([len(each) for each in starts], dtype=np.float64)[:, None]
    mean, square = sums[:, 0] / windows, sums[:, 1] / windows
    variance = square - mean**2
    deviation = np.sqrt(np.where(variance > 1e-10 * square, variance, 0))  # smaller ones are rounding errors
    energies = slice(layer.n_phases, None)
    above = (counts[:, :q, energies] / windows[:, :, None]).reshape(n, -1)
    crossings = counts[:, q, energies] / np.maximum(windows - 1, 1)
    features: list[np.ndarray] = [
        mean, extremes[:, 0], -extremes[:, 1], deviation[:, energies], above, crossings,
    ]  # fmt: skip
    if not layer.view.pairs:  # covariance with the window's index, scaled to unit deviation
        slope = (sums[:, 2] / windows - mean * (windows - 1) / 2) / np.sqrt(np.maximum(windows**2 - 1, 1) / 12)
        features.append(np.where(deviation > 0, slope, 0)[:, energies])
    return np.concatenate(features, 1, dtype=np.float32)


def summaries(series: Series) -> np.ndarray:
    """The statistics ``NAMES`` of every channel of series (N_i, d): (n, 13 d) in float32.

    Example:
        >>> import numpy as np
        >>> from unicornn.estimators._pooling import NAMES, summaries
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
