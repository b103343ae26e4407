"""Divides the ridge's score of an ``OscillatorBank``'s features among windows, samples and channels, exactly.

The score is a sum over features, each of which counts by its difference from the mean of the training set. A pooled
feature is a sum of parts, one for each window; a summary statistic is a sum of parts, one for each sample:

    mean, trend, won, increment    the terms of the sum
    deviation                      in proportion to the squared deviations from the mean
    above, wins, losses            1 / windows for each window in which this is so
    crossings                      half of each crossing for either window
    max, min, first, last, …       the whole value, in the window or sample that has it

The difference is divided among the parts that push the feature in its direction, in proportion to how far they are from
an equal share of the training set's mean: so nothing cancels, and the sum is exact. The contribution of a window is
divided among the channels in proportion to the power with which they drive the oscillator, and evenly among its steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from unicornn.estimators._bank import OscillatorBank
from unicornn.estimators._oscillators import Joined, Oscillators
from unicornn.estimators._pooling import pooled_names
from unicornn.estimators._ridge import CLIP, Ridge
from unicornn.estimators._series import Series

AT_ONCE = 1 << 22  # numbers processed at a time, to save memory
GROUP, TIE = 8, 1e-3  # energies that compete, and differences that count as none, as in ``_pooling_kernels``
QUARTILES = {"lower_quartile": 0.25, "median": 0.5, "upper_quartile": 0.75}


class Windows(NamedTuple):
    """The windows of one view of one series, and their contributions to each output.

    Attributes:
        view: Input of the oscillators: "level", "shape", "increments" or "scaled_increments"; see ``OscillatorBank``.
            Pairs of oscillators have "_pairs" at the end.
        length: Length of the windows in steps.
        begin: First step of each window, (windows,).
        contributions: Shape (windows, k).
    """

    view: str
    length: int
    begin: np.ndarray
    contributions: np.ndarray


class Attribution(NamedTuple):
    """The scores of one series as a sum: ``base`` (k,) plus ``samples`` (N, d, k).

    The contributions in ``samples`` are grouped by ``windows``, and by name (k,) in ``others``.
    """

    base: np.ndarray
    samples: np.ndarray
    windows: list[Windows]
    others: dict[str, np.ndarray]

    def mapped(self, matrix: np.ndarray) -> Attribution:
        """Contributions to other outputs, ``matrix`` (k', k) times these; the base is unchanged."""
        windows = [each._replace(contributions=each.contributions @ matrix.T) for each in self.windows]
        others = {name: matrix @ each for name, each in self.others.items()}
        return Attribution(self.base, self.samples @ matrix.T, windows, others)


def attribute_bank(bank: OscillatorBank, ridge: Ridge, series: Series) -> Iterator[Attribution]:
    """The ridge's scores of each series (N_i, d), compared with those of the training set's mean features."""
    cuts = np.cumsum([len(pooled_names(layer, list(bank.quantiles))) for layer in bank._layers])
    means = np.split(ridge.mean, cuts)
    for F, x in zip(bank._features(series).astype(np.float64), series, strict=True):
        z = (F - ridge.mean) / ridge.deviation
        parts = np.split(np.clip(z, -CLIP, CLIP)[:, None] * ridge.coefficients, cuts)  # of the scores, by feature
        excess = np.split(z, cuts)
        u = bank._scaling(x)
        samples = _attribute_summaries(u, bank._summary_names, parts[-1], excess[-1], means[-1])
        others = {"statistics": samples.sum((0, 1))}
        windows = []
        for layer, *numbers in zip(bank._layers, parts, excess, means, strict=False):
            found, own = _attribute_layer(layer, u, *numbers)
            octave = min(bank.windows_, key=lambda W: abs(W - found.length))  # long windows may be rounded to samples
            windows.append(found._replace(length=octave))
            samples += own
        yield Attribution(ridge.intercept, samples, windows, others)


def _weights(parts: np.ndarray, excess: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (F, n) >= 0 and their sums (F,), by which the ``excess`` of features over the mean (F,) is divided.

    Changes parts (F, n) in place.
    """
    sign = np.sign(excess).astype(parts.dtype)[:, None]
    parts *= sign
    parts -= sign * (mean[:, None] / parts.shape[1]).astype(parts.dtype)
    np.maximum(parts, 0, out=parts)
    total = parts.sum(1, dtype=np.float64)
    parts[total == 0] = 1
    return parts, np.where(total > 0, total, parts.shape[1])


def _attribute_layer(
    layer: Oscillators, x: np.ndarray, totals: np.ndarray, excess: np.ndarray, mean: np.ndarray
) -> tuple[Windows, np.ndarray]:
    """Contributions of a layer's windows over a scaled series (N, d), and of its samples (N, d, k).

    ``totals`` (p, k), ``excess`` and ``mean`` (p,) are those of the layer's pooled features.
    """
    view, starts, d = layer.view, layer.view.starts(len(x)), x.shape[1]
    joined = Joined.from_series([x])
    values = layer.values(joined, [starts]).T
    power = _window_power(layer, joined, starts)
    gains = _channel_gains(layer)
    contributions = np.zeros((len(starts), d, totals.shape[1]))

    for rows in _blocks(layer, len(starts)):
        v = values[rows]
        for i, index in enumerate((v.argmax(1), v.argmin(1))):
            by_channel = gains[rows] / (power[index] * gains[rows]).sum(1, keepdims=True)  # (F, d)
            np.add.at(contributions, index, by_channel[:, :, None] * totals[(i + 1) * len(values) + rows][:, None])
        for columns, parts in _pool_parts(layer, rows, v):
            weights, total = _weights(parts, excess[columns], mean[columns])
            units = totals[columns] / total[:, None]
            if d == 1:
                contributions[:, 0] += (units.T.astype(weights.dtype) @ weights).T / power
            else:
                by_channel = gains[rows][:, :, None] * units[:, None]  # (F, d, k)
                products = (weights.T / (power @ gains[rows].T)) @ by_channel.reshape(len(rows), -1)
                contributions += products.reshape(contributions.shape)
    contributions *= power[:, :, None]
    name = view.kind + ("_pairs" if view.pairs else "")
    begin = np.minimum(starts * view.pace, len(x) - 1)
    end = np.minimum((starts + view.W) * view.pace, len(x))
    windows = Windows(name, view.steps, begin, contributions.sum(1))
    return windows, _spread(contributions / (end - begin)[:, None, None], begin, end, len(x))


def _pool_parts(layer: Oscillators, rows: np.ndarray, values: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The parts (F, n) of pooled features that are sums, for some quantities with values (F, n) over the windows.

    Yields the columns of the features in the order of ``pooled_names``, and the parts in float32.
    """
    (F, n), E = (len(layer.names), values.shape[1]), len(layer.names) - layer.n_phases
    yield rows, values / np.float32(n)
    if rows[0] < layer.n_phases:
        return
    columns = iter(range(3 * F, 3 * F + E * (len(layer.levels) + 6), E))
    own, one = rows - layer.n_phases, np.float32(1 / n)
    centred = values - values.mean(1, keepdims=True, dtype=np.float64).astype(np.float32)
    yield next(columns) + own, _deviation_parts(centred)
    for level in layer.levels:
        yield next(columns) + own, (values > level[rows, None]) * one
    above = values > layer.middle[rows, None]
    crossings = np.pad((above[:, 1:] != above[:, :-1]) * np.float32(0.5 / max(n - 1, 1)), ((0, 0), (1, 1)))
    yield next(columns) + own, crossings[:, 1:] + crossings[:, :-1]
    if not layer.view.pairs:
        index = (np.arange(n) - (n - 1) / 2) / (n * np.sqrt(max(n**2 - 1, 1) / 12))
        yield next(columns) + own, centred * index.astype(np.float32)
    if layer.competes:
        for parts in _contest_parts((values - layer.middle[rows, None]) * layer.unit[rows, None]):
            yield next(columns) + own, parts


def _blocks(layer: Oscillators, n: int) -> Iterator[np.ndarray]:
    """Rows of quantities to process together, with n windows: phases or whole groups of competing energies."""
    at_once = max(1, AT_ONCE // (n * GROUP)) * GROUP
    for begin, end in ((0, layer.n_phases), (layer.n_phases, len(layer.names))):
        for first in range(begin, end, at_once):
            yield np.arange(first, min(first + at_once, end))


def _contest_parts(values: np.ndarray) -> np.ndarray:
    """Parts (3, E, n) of the pools of competing energies, with standardised values (E, n): wins, losses, values won."""
    parts, window = np.zeros((3, *values.shape), np.float32), np.arange(values.shape[1])
    for first in range(0, len(values), GROUP):
        group = values[first : first + GROUP]
        highest, lowest = group.max(0), group.min(0)
        high, low = first + (group >= highest - TIE).argmax(0), first + (group <= lowest + TIE).argmax(0)
        parts[0, high, window] = parts[1, low, window] = 1 / len(window)
        parts[2, high, window] = highest / len(window)
    return parts


def _deviation_parts(centred: np.ndarray) -> np.ndarray:
    """Parts (F, n) of the standard deviation, in proportion to the squares."""
    squares = centred**2
    deviation = np.sqrt(squares.mean(1, keepdims=True))
    return np.divide(squares, len(centred[0]) * deviation, out=np.zeros_like(squares), where=deviation > 0)


def _channel_gains(layer: Oscillators) -> np.ndarray:
    """The squared weights of the channels in the input of each quantity's oscillators, (F, d)."""
    gains = layer.V.numpy().astype(np.float64) ** 2
    if layer.view.pairs:
        gains = gains[: len(gains) // 2] + gains[len(gains) // 2 :]
    return np.tile(gains, (len(layer.names) // len(gains), 1))


def _window_power(layer: Oscillators, x: Joined, starts: np.ndarray) -> np.ndarray:
    """Mean power of the channels in each window (windows, d), plus 1, which is that of the training set."""
    u = layer.view.prepare(x, layer.deviation).astype(np.float64)
    ends = np.minimum(starts + layer.view.W, len(u))
    mean, square = ((total[ends] - total[starts]) / (ends - starts)[:, None] for total in map(_running_sum, (u, u**2)))
    return 1 + np.maximum(square - mean**2 if layer.view.kind == "shape" else square, 0)


def _running_sum(v: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros_like(v[:1]), v.cumsum(0)])


def _spread(rate: np.ndarray, begin: np.ndarray, end: np.ndarray, N: int) -> np.ndarray:
    """Sums (N, d, k) over the windows that contain each step of their contributions per step (windows, d, k)."""
    total, n = _running_sum(rate), np.arange(N)
    return total[begin.searchsorted(n, "right")] - total[end.searchsorted(n, "right")]


def _attribute_summaries(
    x: np.ndarray, names: tuple[str, ...], totals: np.ndarray, excess: np.ndarray, mean: np.ndarray
) -> np.ndarray:
    """Contributions (N, d, k) of the samples of a scaled series (N, d) to the statistics ``names`` of its channels."""
    d, k = x.shape[1], totals.shape[1]
    totals, excess, mean = totals.reshape(-1, d, k), excess.reshape(-1, d), mean.reshape(-1, d)
    samples = np.zeros((len(x), d, k))
    for c, v in enumerate(x.T.astype(np.float64)):
        shares = _single_samples(v)
        for name, parts in _summary_parts(v).items():
            i = names.index(name)
            weights, total = _weights(parts[None].copy(), excess[i, c, None], mean[i, c, None])
            shares[name] = weights[0] / total
        samples[:, c] = np.stack([shares[name] for name in names], 1) @ totals[:, c]
    return samples


def _summary_parts(x: np.ndarray) -> dict[str, np.ndarray]:
    """Parts (N,) of the summary statistics of a channel (N,) that are sums."""
    N, time = len(x), np.arange(len(x)) / max(len(x) - 1, 1)
    centred, increments = x - x.mean(), np.pad(np.abs(np.diff(x)) / (2 * max(N - 1, 1)), 1)
    return {
        "mean": x / N,
        "deviation": _deviation_parts(centred[None])[0],
        "trend": (time - time.mean()) * centred / N,
        "mean_increment": increments[1:] + increments[:-1],
    }


def _single_samples(x: np.ndarray) -> dict[str, np.ndarray]:
    """Shares (N,) of the samples in the summary statistics of a channel (N,) that one or two samples have."""
    order, last = x.argsort(kind="stable"), len(x) - 1
    low, high = [(order[0], 1.0)], [(x.argmax(), 1.0)]
    single = {"min": low, "min_at": low, "max": high, "max_at": high, "first": [(0, 1.0)], "last": [(last, 1.0)]}
    for name, fraction in QUARTILES.items():  # interpolated between two samples
        i, share = divmod(fraction * last, 1)
        single[name] = [(order[int(i)], 1 - share), (order[min(int(i) + 1, last)], share)]
    shares = {name: np.zeros(len(x)) for name in single}
    for name, entries in single.items():
        for at, share in entries:
            shares[name][at] += share
    return shares
