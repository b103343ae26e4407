"""The features of a series: the quantities at the ends of its windows, pooled, and summary statistics.

The kernels are in ``_pooling_kernels`` and ``_oscillator_kernels``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from unicornn._ops.cpu import launch
from unicornn.estimators._oscillators import Joined, Oscillators
from unicornn.estimators._series import Series

NAMES = (
    "mean", "deviation", "min", "lower_quartile", "median", "upper_quartile", "max", "first", "last", "trend",
    "mean_increment", "min_at", "max_at",
)  # fmt: skip
"""Summary statistics of each channel, above all for very short series; positions are fractions of the length."""

LIVE_NAMES = tuple(name for name in NAMES if name not in ("lower_quartile", "median", "upper_quartile"))
"""Those that can be updated sample by sample."""


def pooled_names(layer: Oscillators, quantiles: list[float]) -> list[str]:
    """Names of the pooled features, in order, such as "logE0_mean"."""
    of_energies = ["deviation", *(f"above{q:g}" for q in quantiles), "crossings"]
    of_energies += [] if layer.view.pairs else ["trend"]
    of_energies += ["wins", "losses", "won"] if layer.competes else []
    names = [f"{name}_{pool}" for pool in ("mean", "max", "min") for name in layer.names]
    return names + [f"{name}_{pool}" for pool in of_energies for name in layer.names[layer.n_phases :]]


SUMMARY_STEPS = 1 << 18  # of series that are summarised together


class Pools(NamedTuple):
    """Running statistics of a layer's F quantities, of which the last E are energies, over the windows of n series.

    totals: (n, F), sums of the values. extremes: (n, 2, F), maxima of the values and of their negatives. moments:
    (n, 2, E), sums of the squares and of the products with the window's index. counts: (n, q + 1, E), windows above
    each level; crossings of the median. contests: (n, 3, E), windows in which each is the largest of its group, and the
    smallest, and the sum of the values with which it won; (n, 3, 0) if none compete. side: (n, E), whether the previous
    window was above the median; -1 before the first. seen: (n,), windows.
    """

    totals: np.ndarray
    extremes: np.ndarray
    moments: np.ndarray
    counts: np.ndarray
    contests: np.ndarray
    side: np.ndarray
    seen: np.ndarray

    @classmethod
    def empty(cls, n: int, layer: Oscillators) -> Pools:
        F, q = len(layer.names), len(layer.levels)
        E = F - layer.n_phases
        return cls(
            np.zeros((n, F)), np.full((n, 2, F), -np.inf, np.float32), np.zeros((n, 2, E)),
            np.zeros((n, q + 1, E), np.float32), np.zeros((n, 3, E if layer.competes else 0)),
            np.full((n, E), -1.0, np.float32), np.zeros(n, np.int64),
        )  # fmt: skip

    def add(self, layer: Oscillators, rows: Sequence[int] | np.ndarray, sizes: Any, values: np.ndarray) -> None:
        """Adds the quantities (k, F) of windows; each of the series ``rows`` has ``sizes`` consecutive ones."""
        kernel = launch.kernel("unicornn.estimators._pooling_kernels", "pool")
        cuts = np.concatenate([[0], np.cumsum(sizes)])
        launch.call(kernel, torch.float32, values, np.asarray(rows), cuts, layer.all_levels, self)

    def features(self, layer: Oscillators) -> np.ndarray:
        """Features (n, len(pooled_names)) in float32."""
        n, q, windows = len(self.seen), len(layer.levels), self.seen.astype(np.float64)[:, None]
        means = self.totals / windows
        mean, square = means[:, layer.n_phases :], self.moments[:, 0] / windows
        variance = square - mean**2
        deviation = np.sqrt(np.where(variance > 1e-10 * square, variance, 0))  # smaller ones are rounding errors
        above = self.counts[:, :q].reshape(n, -1) / windows
        crossings = self.counts[:, q] / np.maximum(windows - 1, 1)
        features = [means, self.extremes[:, 0], -self.extremes[:, 1], deviation, above, crossings]
        if not layer.view.pairs:  # covariance with the window's index, scaled to unit deviation
            spread = np.sqrt(np.maximum(windows**2 - 1, 1) / 12)
            slope = (self.moments[:, 1] / windows - mean * (windows - 1) / 2) / spread
            features.append(np.where(deviation > 0, slope, 0))
        features.append(self.contests.reshape(n, -1) / windows)
        return np.concatenate(features, 1, dtype=np.float32)


def pooled(series: Joined, layer: Oscillators) -> np.ndarray:
    """Features (n, len(pooled_names)) in float32.

    Mean, maximum and minimum over a series' windows. For energies also the deviation, the fraction above each level,
    the fraction of consecutive windows on different sides of the median, and the trend along the series. In each
    window the standardised energies of neighbouring oscillators compete: the fraction of windows in which each wins and
    loses, and the mean of its winning values. A kernel gathers, runs and pools a few windows at a time.
    """
    pools = Pools.empty(len(series.cuts) - 1, layer)
    kernel = launch.kernel("unicornn.estimators._oscillator_kernels", "pool_series")
    launch.call(kernel, torch.float32, *series, *layer.for_kernels(), layer.all_levels, pools)
    return pools.features(layer)


def summaries(series: Series, names: Sequence[str] = NAMES) -> np.ndarray:
    """The named statistics of every channel of series (N_i, d): (n, len(names) · d) in float32.

    Example:
        >>> import numpy as np
        >>> from unicornn.estimators._pooling import NAMES, summaries
        >>> dict(zip(NAMES, summaries([np.array([[1.0], [2.0], [6.0]])])[0].tolist()))["mean"]
        3.0
    """
    rows, lengths = [NAMES.index(name) for name in names], np.array([len(x) for x in series])
    found = np.empty((len(series), len(names) * series[0].shape[1]), np.float32)
    for N in np.unique(lengths):
        same = np.flatnonzero(lengths == N)
        for some in np.array_split(same, min(len(same), -(-len(same) * N // SUMMARY_STEPS))):
            x = np.stack([series[i] for i in some], 1).astype(np.float64)
            found[some] = _summary(x)[rows].swapaxes(0, 1).reshape(len(some), -1)
    return found


def _summary(x: np.ndarray) -> np.ndarray:
    """(N, n, d) to (13, n, d)."""
    N = len(x)
    time = np.arange(N) / max(N - 1, 1)
    mean = x.mean(0)
    increment = np.abs(np.diff(x, axis=0)).mean(0) if N > 1 else np.zeros(mean.shape)
    trend = np.tensordot(time - time.mean(), x - mean, 1) / N
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75], axis=0)
    positions = time[x.argmin(0)], time[x.argmax(0)]
    return np.stack([mean, x.std(0), x.min(0), low, middle, high, x.max(0), x[0], x[-1], trend, increment, *positions])
