"""Divides the ridge's score of an ``OscillatorBank``'s features among windows, samples and channels, exactly.

The score is a sum over features, each of which counts by its difference from a reference. A pooled feature is a sum of
parts, one for each window; a summary statistic is a sum of parts, one for each sample:

    mean, trend, mean_increment    the terms of the sum
    deviation                      in proportion to the squared deviations from the mean
    above                          1 / windows for each window above the level
    crossings                      half of each crossing for either window
    max, min, first, last, …       the whole value, for the window or sample that has it

The difference from the reference is divided among the parts that push the feature in its direction, in proportion to
how far they lie beyond the reference's equal share: so nothing cancels, and the sum is exact. The contribution of a
window is divided among the channels in proportion to the power with which each one drives the oscillator, and then
among its samples in proportion to their power.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from unicornn.estimators._bank import OscillatorBank
from unicornn.estimators._oscillators import Oscillators
from unicornn.estimators._pooling import pooled_names
from unicornn.estimators._ridge import CLIP, Ridge
from unicornn.estimators._series import Series

AT_ONCE = 1 << 22  # numbers processed at a time, to save memory
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
    """The ridge's score of each series (N_i, d), compared with that of a series that is constant at the mean."""
    layers = bank._layers
    sizes = [len(pooled_names(layer, list(bank.quantiles))) for layer in layers]
    cuts = np.cumsum(sizes)
    references: dict[int, np.ndarray] = {}
    for F, x in zip(bank._features(series).astype(np.float64), series, strict=True):
        if len(x) not in references:
            constant = np.tile(bank._scaling.mean, (len(x), 1))
            references[len(x)] = bank._features([constant])[0].astype(np.float64)
        reference = references[len(x)]
        base, gain = _linearised(ridge, F, reference)
        *pooled, summary = zip(*(np.split(v, cuts) for v in (F - reference, reference, gain)), strict=True)
        u = bank._scaling(x)
        samples = _attribute_summaries(u, bank._summary_names, *summary)
        others = {"statistics": samples.sum((0, 1))}
        windows = []
        for layer, numbers in zip(layers, pooled, strict=True):
            found, part = _attribute_layer(layer, u, *numbers)
            octave = min(bank.windows_, key=lambda W: abs(W - found.length))  # long windows may be rounded to samples
            windows.append(found._replace(length=octave))
            samples += part
        yield Attribution(base, samples, windows, others)


def _linearised(ridge: Ridge, F: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The score of the reference (k,), and the gain (p, k) of each feature: score = base + (F - reference) @ gain."""
    z, z0 = ((v - ridge.mean) / ridge.deviation for v in (F, reference))
    clipped, base = np.clip(z, -CLIP, CLIP), np.clip(z0, -CLIP, CLIP)
    cut = ((clipped != z) | (base != z0)) & (z != z0)
    slope = np.divide(clipped - base, z - z0, out=np.ones_like(z), where=cut)
    return base @ ridge.coefficients + ridge.intercept, (slope / ridge.deviation)[:, None] * ridge.coefficients


def _shares(parts: np.ndarray, excess: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Shares (F, n), nonnegative and with sum 1, of the parts of features in their ``excess`` over a reference (F,)."""
    n = parts.shape[1]
    beyond = np.maximum((parts - reference[:, None] / n) * np.sign(excess)[:, None], 0)
    total = beyond.sum(1, keepdims=True)
    return np.divide(beyond, total, out=np.full_like(beyond, 1 / n), where=total > 0)


def _attribute_layer(
    layer: Oscillators, x: np.ndarray, excess: np.ndarray, reference: np.ndarray, gain: np.ndarray
) -> tuple[Windows, np.ndarray]:
    """Contributions of a layer's windows over a scaled series (N, d), and of its samples (N, d, k).

    ``excess``, ``reference`` (p,) and ``gain`` (p, k) are those of the layer's pooled features.
    """
    view, starts = layer.view, layer.view.starts(len(x))
    values = np.concatenate([each.numpy() for _, _, each in layer.run([x], [starts])]).T
    power = _Power(layer, x, starts)
    density = np.zeros((len(starts), x.shape[1], gain.shape[1]))
    at_once = max(1, AT_ONCE // len(starts))
    for first in range(0, len(values), at_once):
        some = np.arange(first, min(first + at_once, len(values)))
        v = values[some].astype(np.float64)
        for i, index in enumerate((v.argmax(1), v.argmin(1))):
            columns = (i + 1) * len(values) + some
            shares = (np.arange(len(starts)) == index[:, None]).astype(np.float64)
            density += power.density(some, shares, excess[columns, None] * gain[columns])
        for rows, columns, parts in _pool_parts(layer, some, v):
            shares = _shares(parts, excess[columns], reference[columns])
            density += power.density(rows, shares, excess[columns, None] * gain[columns])
    windows = Windows(
        view.kind + ("_pairs" if view.pairs else ""), view.steps, starts * view.pace,
        np.einsum("wc,wck->wk", power.of_windows, density),
    )  # fmt: skip
    return windows, _as_steps(power.spread(density), view.pace, len(x))


def _pool_parts(
    layer: Oscillators, rows: np.ndarray, values: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The parts (F, n) of pooled features that are sums, for some quantities with values (F, n) over the windows.

    Yields the rows of the quantities, the columns of the features in the order of ``pooled_names``, and the parts.
    """
    (F, n), E = (len(layer.names), values.shape[1]), len(layer.names) - layer.n_phases
    yield rows, rows, values / n
    energies = rows >= layer.n_phases
    rows, values = rows[energies], values[energies]
    columns = iter(range(3 * F, 3 * F + E * (len(layer.levels) + 3), E))
    own = rows - layer.n_phases
    centred = values - values.mean(1, keepdims=True)
    yield rows, next(columns) + own, _deviation_parts(centred)
    for level in layer.levels:
        yield rows, next(columns) + own, (values > level[rows, None]) / n
    above = values > layer.middle[rows, None]
    crossings = np.pad((above[:, 1:] != above[:, :-1]) / (2 * max(n - 1, 1)), ((0, 0), (1, 1)))
    yield rows, next(columns) + own, crossings[:, 1:] + crossings[:, :-1]
    if not layer.view.pairs:
        index = np.arange(n) - (n - 1) / 2
        yield rows, next(columns) + own, centred * index / (n * np.sqrt(max(n**2 - 1, 1) / 12))


def _deviation_parts(centred: np.ndarray) -> np.ndarray:
    """Parts (F, n) of the standard deviation, in proportion to the squares."""
    squares = centred**2
    deviation = np.sqrt(squares.mean(1, keepdims=True))
    return np.divide(squares, len(centred[0]) * deviation, out=np.zeros_like(squares), where=deviation > 0)


class _Power:
    """The power of samples and windows: by it, a window's contribution is divided among channels and samples.

    Contributions are kept as densities, contribution / power (windows, d, k). The power of a sample is that of the
    oscillators' input, plus 1, the mean over the training set, so that silence has a share as well.
    """

    def __init__(self, layer: Oscillators, x: np.ndarray, starts: np.ndarray) -> None:
        view = layer.view
        self.input = view.prepare(x, layer.deviation).astype(np.float64)  # (n, d)
        n, d = self.input.shape
        self.starts, self.ends = starts, np.minimum(starts + view.W, n)
        size = (self.ends - starts)[:, None]
        self.centre = self._over_windows(self.input) / size if view.kind == "shape" else np.zeros((len(starts), d))
        self.of_windows = np.maximum(self._over_windows(self.input**2) - size * self.centre**2, 0) + size
        gains = layer.V.numpy().astype(np.float64) ** 2
        if view.pairs:
            gains = gains[: len(gains) // 2] + gains[len(gains) // 2 :]
        self.gains = np.tile(gains, (len(layer.names) // len(gains), 1))  # of channels, by quantity: (F, d)

    def density(self, rows: np.ndarray, shares: np.ndarray, totals: np.ndarray) -> np.ndarray:
        """Densities of the features of the quantities ``rows``: shares of windows (F, n), contributions (F, k)."""
        gains, k = self.gains[rows], totals.shape[1]
        parts = shares.T / (self.of_windows @ gains.T)  # (n, F)
        return (parts @ (gains[:, :, None] * totals[:, None]).reshape(len(rows), -1)).reshape(len(parts), -1, k)

    def spread(self, density: np.ndarray) -> np.ndarray:
        """Contributions of the samples, (n, d, k)."""
        u, centre = self.input[:, :, None], self.centre[:, :, None]
        found = self._over_samples(density) * (u**2 + 1)
        if centre.any():
            found += self._over_samples(density * centre**2) - 2 * u * self._over_samples(density * centre)
        return found

    def _over_windows(self, v: np.ndarray) -> np.ndarray:
        """Sums over the samples of each window."""
        total = np.concatenate([np.zeros_like(v[:1]), v.cumsum(0)])
        return total[self.ends] - total[self.starts]

    def _over_samples(self, v: np.ndarray) -> np.ndarray:
        """Sums over the windows that contain each sample."""
        total, n = np.concatenate([np.zeros_like(v[:1]), v.cumsum(0)]), np.arange(len(self.input))
        return total[self.starts.searchsorted(n, "right")] - total[self.ends.searchsorted(n, "right")]


def _as_steps(samples: np.ndarray, pace: int, N: int) -> np.ndarray:
    """Samples (n, d, k), averages over ``pace`` steps, as steps (N, d, k); steps left over at the end get nothing."""
    steps = np.zeros((N, *samples.shape[1:]))
    covered = min(pace, N)
    steps[: len(samples) * covered] = np.repeat(samples / covered, covered, 0)
    return steps


def _attribute_summaries(
    x: np.ndarray, names: tuple[str, ...], excess: np.ndarray, reference: np.ndarray, gain: np.ndarray
) -> np.ndarray:
    """Contributions (N, d, k) of the samples of a scaled series (N, d) to the statistics ``names`` of its channels."""
    d, k = x.shape[1], gain.shape[1]
    excess, reference, gain = excess.reshape(-1, d), reference.reshape(-1, d), gain.reshape(-1, d, k)
    samples = np.zeros((len(x), d, k))
    for c, v in enumerate(x.T.astype(np.float64)):
        shares = _single_samples(v)
        for name, parts in _summary_parts(v).items():
            i = names.index(name)
            shares[name] = _shares(parts[None], excess[i, c, None], reference[i, c, None])[0]
        samples[:, c] = np.stack([shares[name] for name in names], 1) @ (excess[:, c, None] * gain[:, c])
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
