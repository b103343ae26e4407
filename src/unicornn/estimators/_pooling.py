"""The numbers in which what was read off a series' windows is pooled; its kernel is in ``_pooling_kernels``."""

from __future__ import annotations

import numpy as np
import torch

from unicornn._ops.cpu import launch
from unicornn.estimators._oscillators import Oscillators
from unicornn.estimators._series import Series

ENDS = ("mean", "max", "min")


def names(layer: Oscillators, quantiles: list[float]) -> list[str]:
    """Of the features, in their order, as "moves_logE0_mean"."""
    more = ["deviation", *(f"above{q:g}" for q in quantiles)]
    more += ([] if layer.middle is None else ["crossings"]) + (["trend"] if layer.part.trend else [])
    all_of_it = [f"{name}_{pool}" for pool in ENDS for name in layer.names]
    return all_of_it + [f"{name}_{pool}" for pool in more for name in layer.names[layer.phases :]]


def pooled(series: Series, layer: Oscillators) -> np.ndarray:
    """Over a series' windows: mean, largest and smallest; of energies also the deviation, the share above each of the
    levels, the share of neighbours on different sides of the middle, and how much they grow along the series.

    Returns (n, len(names)). Windows are taken a portion at a time, so that memory does not grow with the length.
    """
    n, F, q = len(series), len(layer.names), len(layer.levels)
    begins = [layer.part.begins(len(x)) for x in series]
    sums = np.zeros((n, 3, F))  # of the numbers, of their squares, and of their products with the windows' numbers
    ends = np.full((n, 2, F), -np.inf, np.float32)  # of the numbers and of their opposites
    counts = np.zeros((n, q + 1, F), np.float32)
    side = np.full((n, F), -1.0, np.float32)  # of the middle on which the last window was: 0 or 1, and -1 before any
    seen = np.zeros(n, np.int64)  # windows
    middle = np.zeros(F, np.float32) if layer.middle is None else layer.middle
    levels = np.concatenate([layer.levels.reshape(q, F), middle[None]])
    kernel = launch.kernel("unicornn.estimators._pooling_kernels", "pool")
    for rows, held, states in layer.portions(series, begins):
        cuts = np.concatenate([[0], np.cumsum(held)])
        launch.share_out(
            kernel, torch.float32, len(rows), min(torch.get_num_threads(), len(rows)), states.contiguous().numpy(),
            np.array(rows), cuts, levels, sums, ends, counts, side, seen,
        )  # fmt: skip
    windows = np.array([len(own) for own in begins], dtype=np.float64)[:, None]
    mean, square = sums[:, 0] / windows, sums[:, 1] / windows
    variance = square - mean**2
    deviation = np.sqrt(np.where(variance > 1e-10 * square, variance, 0))  # else it is rounding
    own = slice(layer.phases, None)
    shares = (counts[:, :q, own] / windows[:, :, None]).reshape(n, -1)
    found: list[np.ndarray] = [mean, ends[:, 0], -ends[:, 1], deviation[:, own], shares]
    if layer.middle is not None:
        found.append(counts[:, q, own] / np.maximum(windows - 1, 1))
    if layer.part.trend:  # the covariance with the window's number, whose deviation is taken for one
        slope = (sums[:, 2] / windows - mean * (windows - 1) / 2) / np.sqrt(np.maximum(windows**2 - 1, 1) / 12)
        found.append(np.where(deviation > 0, slope, 0)[:, own])
    return np.concatenate(found, 1, dtype=np.float32)
