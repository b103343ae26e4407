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
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from unicornn._ops.cpu import launch
from unicornn.estimators._bank import OscillatorBank
from unicornn.estimators._oscillators import Joined, Oscillators
from unicornn.estimators._pooling import pooled_names
from unicornn.estimators._ridge import CLIP, Ridge
from unicornn.estimators._series import Series

KERNELS = "unicornn.estimators._attribution_kernels"
AT_ONCE = 1 << 17  # weights computed at a time, which fit into a processor's cache
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


def attribute_bank(bank: OscillatorBank, ridge: Ridge, series: Series, features: np.ndarray) -> Iterator[Attribution]:
    """The ridge's scores of each series (N_i, d) with these features, compared with the training set's mean."""
    cuts = np.cumsum([len(pooled_names(layer, list(bank.quantiles))) for layer in bank._layers])
    means = np.split(ridge.mean, cuts)
    for F, x in zip(features.astype(np.float64), series, strict=True):
        z = np.clip((F - ridge.mean) / ridge.deviation, -CLIP, CLIP)
        parts, own = np.split(z[:, None] * ridge.coefficients, cuts), np.split(F, cuts)  # of the scores, by feature
        u = bank._scaling(x)
        samples = _attribute_summaries(u, bank._summary_names, parts[-1], own[-1], means[-1])
        others, windows = {"statistics": samples.sum((0, 1))}, []
        changes = np.zeros((len(x) + 1, *samples.shape[1:]))
        for layer, *numbers in zip(bank._layers, parts, own, means, strict=False):
            found = _attribute_layer(layer, u, changes, *numbers)
            octave = min(bank.windows_, key=lambda W: abs(W - found.length))  # long windows may be rounded to samples
            windows.append(found._replace(length=octave))
        samples += changes.cumsum(0)[:-1]
        yield Attribution(ridge.intercept, samples, windows, others)


def _attribute_layer(
    layer: Oscillators, x: np.ndarray, changes: np.ndarray, totals: np.ndarray, features: np.ndarray, mean: np.ndarray
) -> Windows:
    """Contributions of a layer's windows over a scaled series (N, d).

    Those of the steps are added to ``changes`` (N + 1, d, k), as differences between neighbours. ``totals`` (p, k) of
    the layer's pooled ``features`` (p,), whose ``mean`` over the training set is given, are divided.
    """
    view, starts, (N, d) = layer.view, layer.view.starts(len(x)), x.shape
    joined = Joined.from_series([x])
    values = layer.values(joined, [starts])
    n, F = values.shape
    power, gains = np.ones((n, 1)), np.ones((F, 1))
    if d > 1:
        power, gains = _window_power(layer, joined, starts), _channel_gains(layer)
    contributions = np.zeros((n, d, totals.shape[1]))
    for i, index in enumerate((values.argmax(0), values.argmin(0)), 1):
        by_channel = gains / (power[index] * gains).sum(1, keepdims=True)  # (F, d)
        np.add.at(contributions, index, by_channel[:, :, None] * totals[i * F : (i + 1) * F, None])

    sums = np.r_[:F, 3 * F : len(mean)]  # features that are sums, and the quantities that they pool
    quantity = np.r_[:F, layer.n_phases + np.arange(len(sums) - F) % (F - layer.n_phases)]
    sign = np.sign(features - mean)[sums]
    weigh = partial(_weights, layer, values, features)
    least, total = sign * mean[sums] / n, np.zeros(len(sums))
    for _, weights in weigh(sign, least):
        total += np.ones(len(weights), np.float32) @ weights
    even = total == 0
    sign[even], least[even], total[even] = 0, -1, n
    units = gains[quantity][:, :, None] * (totals[sums] / total[:, None])[:, None]
    units = units.reshape(len(sums), -1).astype(np.float32)
    for rows, weights in weigh(sign, least):
        if d > 1:
            weights /= (power[rows] @ gains.T)[:, quantity]
        contributions[rows] += (weights @ units).reshape(-1, *contributions.shape[1:])
    contributions *= power[:, :, None]
    begin, end = starts * view.pace, np.minimum((starts + view.W) * view.pace, N)
    rate = contributions / (end - begin)[:, None, None]
    np.add.at(changes, begin, rate)
    np.subtract.at(changes, end, rate)
    name = view.kind + ("_pairs" if view.pairs else "")
    return Windows(name, view.steps, begin, contributions.sum(1))


def _weights(
    layer: Oscillators, values: np.ndarray, features: np.ndarray, sign: np.ndarray, least: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
    """Some windows at a time, and the weights max(sign · part - least, 0) of their parts, (·, P).

    values: (n, F), of the layer's quantities. sign, least: (P,), of the features that are sums.
    """
    n, F, E = *values.shape, values.shape[1] - layer.n_phases
    mean, deviation = features[F - E : F], features[3 * F : 3 * F + E]
    inverse = np.divide(1, n * deviation, out=np.zeros_like(deviation), where=deviation > 0)
    numbers = [each.astype(np.float32) for each in (mean, inverse, sign, least)]
    kernel, levels = launch.kernel(KERNELS, "weigh_windows"), layer.all_levels
    rows = max(1, AT_ONCE // len(sign))
    for k in range(0, n, rows):
        weights = np.empty((min(rows, n - k), len(sign)), np.float32)
        launch.call(kernel, torch.float32, values, k, levels, *numbers, weights)
        yield slice(k, k + rows), weights


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


def _attribute_summaries(
    x: np.ndarray, names: tuple[str, ...], totals: np.ndarray, features: np.ndarray, mean: np.ndarray
) -> np.ndarray:
    """Contributions (N, d, k) of the samples of a scaled series (N, d) to the statistics ``names`` of its channels."""
    d, k = x.shape[1], totals.shape[1]
    totals, features, mean = totals.reshape(-1, d, k), features.reshape(-1, d), mean.reshape(-1, d)
    samples = np.zeros((len(x), d, k))
    for c, v in enumerate(x.T.astype(np.float64)):
        shares = _single_samples(v)
        for name, parts in _summary_parts(v).items():
            i = names.index(name)
            weights = np.maximum(np.sign(features[i, c] - mean[i, c]) * (parts - mean[i, c] / len(x)), 0)
            total = weights.sum()
            shares[name] = weights / total if total > 0 else np.full(len(x), 1 / len(x))
        samples[:, c] = np.stack([shares[name] for name in names], 1) @ totals[:, c]
    return samples


def _summary_parts(x: np.ndarray) -> dict[str, np.ndarray]:
    """Parts (N,) of the summary statistics of a channel (N,) that are sums."""
    N, time = len(x), np.arange(len(x)) / max(len(x) - 1, 1)
    centred, increments = x - x.mean(), np.pad(np.abs(np.diff(x)) / (2 * max(N - 1, 1)), 1)
    return {
        "mean": x / N,
        "deviation": centred**2 / (N * (x.std() or 1)),
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
