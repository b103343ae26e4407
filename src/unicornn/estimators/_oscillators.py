"""Layers of untrained oscillators that run over windows of a series."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unicornn import functional
from unicornn._ops.reference import energy
from unicornn.estimators._series import Scaling, Series

ALPHA = 1.0
FASTEST = 1.6  # largest effective time step a; symplectic Euler is stable for a²·α < 4
SLOWEST = math.pi  # smallest a, times the window length: half a period per window
INPUT_SCALE = (0.25, 1.5)  # range of the rows of V: from nearly linear to saturating the tanh
ENERGY_EPSILON = 1e-3  # added to energies before the logarithm
MAX_NUMBERS = 1 << 20  # in memory at a time, however many and long the series are; more would leave the cache
SCALING_SERIES = 512  # maximum number of series from which a view's input is scaled
MAX_STEPS = 64  # of a window, unless it uses every step
FULL_RATE_OVERLAP = 2  # of the windows that use every step

QUANTITIES = {
    "level": ("y", "logE"),
    "shape": ("logE",),
    "increments": ("y", "logE"),
    "scaled_increments": ("logE",),
}
"""Quantities read from the oscillators, by kind of view. y, a phase, is used where the sign of a series may matter."""

PAIR_QUANTITIES = ("lead", "in_phase")
"""Quantities read from two equal oscillators driven by two channels: their angular momentum, whose sign tells which
channel leads, and their inner product. Both are relative to the sum of the two energies."""


class View(NamedTuple):
    """Windows of W samples, one every ``hop`` samples, where a sample is the average over ``pace`` steps.

    ``kind`` is the oscillators' input: "level", the series itself; "shape", the deviation from the window's mean;
    "increments"; or "scaled_increments", those of the series standardised by its own deviation, for signals whose
    amplitude is meaningless. With ``pairs``, two equal oscillators receive one channel each.
    """

    kind: str
    W: int
    pace: int
    hop: int
    pairs: bool = False

    @property
    def steps(self) -> int:
        """Length of a window in steps of the series."""
        return self.W * self.pace

    def prepare(self, x: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        """The input (samples, d) in float32 from a standardised series (N, d), in units of ``deviation`` (d,)."""
        if self.kind == "scaled_increments":
            x = (x - x.mean(0)) / (x.std(0) + 1e-6)
        if self.pace > 1:
            end = len(x) // self.pace * self.pace
            x = x[:end].reshape(-1, self.pace, x.shape[1]).mean(1) if end else x.mean(0, keepdims=True)
        if self.kind in ("increments", "scaled_increments"):
            x = np.diff(x, axis=0, prepend=x[:1])
        return (x / deviation).astype(np.float32)

    def starts(self, N: int) -> np.ndarray:
        """First samples of the windows of a series of N steps."""
        return _window_starts(max(1, N // self.pace), self.W, self.hop)


def views(longest: int, smallest_window: int, overlap: int, pairs: bool, live: bool = False) -> list[View]:
    """Views of all octaves, from ``smallest_window`` steps to the longest series; those of pairs come last.

    Long windows are averaged to at most 64 samples, because shorter windows cover their fast oscillations. They are
    cheap then and can overlap a lot, so that an event is found wherever it is. "scaled_increments" uses every step; it
    depends on the whole series and is left out with ``live``.
    """
    octaves = smallest_window * 2 ** np.arange(64.0)
    single = []
    for W in [*(int(W) for W in octaves[octaves < longest]), longest]:
        pace = 1 << max(0, math.ceil(math.log2(W / MAX_STEPS)))
        samples = min(-(-W // pace), max(1, longest // pace))
        hop = max(1, samples // overlap) if pace > 1 else max(min(2, W), 2 * W // overlap)
        single += [View(kind, samples, pace, hop) for kind in ("level", "shape", "increments")]
        if not live:
            single.append(View("scaled_increments", W, 1, max(1, W // FULL_RATE_OVERLAP)))
    paired = [view._replace(pairs=True) for view in single if view.kind in ("shape", "increments")]
    return single + paired if pairs else single


class Oscillators(NamedTuple):
    """A layer of m oscillators for one view: w, b, c (m,) and V (m, d); the deviation (d,) of its input.

    ``levels`` (q, F) and ``middle`` (F,) are quantiles and medians, over the training set, of the F ``names``.
    """

    view: View
    w: Tensor
    V: Tensor
    b: Tensor
    c: Tensor
    deviation: np.ndarray
    levels: np.ndarray = np.zeros((0, 0), np.float32)
    middle: np.ndarray = np.zeros(0, np.float32)

    @property
    def names(self) -> list[str]:
        """Names of the F quantities read at the end of a window, such as "y0"."""
        quantities = PAIR_QUANTITIES if self.view.pairs else QUANTITIES[self.view.kind]
        count = len(self.w) // 2 if self.view.pairs else len(self.w)
        return [f"{quantity}{i}" for quantity in quantities for i in range(count)]

    @property
    def n_phases(self) -> int:
        """Number of leading quantities that are phases, of which only mean, maximum and minimum are pooled."""
        return 0 if self.view.pairs else len(self.names) - len(self.w)

    @classmethod
    def draw(cls, view: View, m: int, series: Series, random: np.random.RandomState) -> Oscillators:
        """Draws a log-uniform from π/W to 1.6, w ~ U(0, 1), b ~ U(-1, 1), and rows of V of different scales.

        Each oscillator receives only some channels, from one to all, uniformly on a logarithmic scale: the sum of many
        channels would say little about any of them.
        """
        d = series[0].shape[1]
        some = series[:: -(-len(series) // SCALING_SERIES)]
        deviation = Scaling.fit([view.prepare(x, np.ones(d)) for x in some]).deviation
        slowest = min(SLOWEST / view.W, FASTEST / 2)
        a = np.exp(np.linspace(math.log(slowest), math.log(FASTEST), m))
        n_inputs = np.floor(2 ** random.uniform(0, np.log2(d + 1), m)).clip(1, d)
        rank = random.uniform(size=(m, d)).argsort(1).argsort(1)
        scale = _log_uniform(INPUT_SCALE, m, random) / np.sqrt(n_inputs)
        V = random.normal(size=(m, d)) * (rank < n_inputs[:, None]) * scale[:, None]
        share = a / (2 * FASTEST)
        numbers = random.uniform(0, 1, m), V, random.uniform(-1, 1, m), np.log(share / (1 - share))
        w, V, b, c = (torch.as_tensor(t, dtype=torch.float32) for t in numbers)
        return cls(view, w, V, b, c, deviation)

    @classmethod
    def draw_pairs(
        cls, view: View, m: int, series: Series, channels: np.ndarray, random: np.random.RandomState
    ) -> Oscillators:
        """Draws m / 2 pairs of equal oscillators without bias, driven equally strongly by two different channels."""
        k = max(1, m // 2)
        single = cls.draw(view, k, series, random)
        inputs = np.stack([random.permutation(channels)[:2] for _ in range(k)])  # (k, 2)
        scale = _log_uniform(INPUT_SCALE, k, random)
        V = np.zeros((2, k, series[0].shape[1]), np.float32)
        for i in range(2):
            V[i, np.arange(k), inputs[:, i]] = scale
        return single._replace(
            w=single.w.repeat(2), V=torch.from_numpy(V.reshape(2 * k, -1)), b=torch.zeros(2 * k), c=single.c.repeat(2)
        )

    def with_levels(
        self, series: Series, quantiles: Sequence[float], most: int, random: np.random.RandomState
    ) -> Oscillators:
        """With the quantiles and medians of at most ``most`` windows drawn from all series.

        They are shifted slightly: whether a value that lies on a level is above it would depend on rounding.
        """
        starts = [self.view.starts(len(x)) for x in series]
        owner = np.repeat(np.arange(len(series)), [len(each) for each in starts])
        flat = np.concatenate(starts)
        chosen = np.sort(random.permutation(len(flat))[:most])
        cuts = np.searchsorted(owner[chosen], np.arange(len(series) + 1))
        sampled = [flat[chosen[a:b]] for a, b in itertools.pairwise(cuts)]
        values = np.concatenate([values.numpy() for _, _, values in self.run(series, sampled)])
        levels = np.quantile(values, np.asarray([*quantiles, 0.5], dtype=np.float64), axis=0) + 1e-4 * values.std(0)
        levels = levels.astype(np.float32)
        return self._replace(levels=levels[:-1], middle=levels[-1])

    def run(self, series: Series, starts: Sequence[np.ndarray]) -> Iterator[tuple[list[int], list[int], Tensor]]:
        """Runs over the given windows of each series, some at a time.

        Yields the indices of the series, the number of windows of each, and the quantities at their ends (k, F).
        """
        at_once = max(1, MAX_NUMBERS // (self.view.W * series[0].shape[1] + 4 * len(self.names)))
        for batch in _batches(starts, at_once):
            inputs = [self.view.prepare(series[i], self.deviation) for i, _ in batch]
            u, lengths = _windows(inputs, [each for _, each in batch], self.view.W)
            yield [i for i, _ in batch], [len(each) for _, each in batch], self._final(u, lengths)

    def _final(self, u: Tensor, lengths: Tensor | None) -> Tensor:
        """The quantities at the ends of windows u (W, k, d): (k, F). Energies are those of Eq. (4) without input."""
        if self.view.kind == "shape":
            u = _centred(u, lengths)
        with torch.no_grad():
            weights = functional.Weights([self.w], [self.V], [self.b], [self.c])
            _, (y, z) = functional.unicornn(u, weights, dt=2 * FASTEST, alpha=ALPHA, lengths=lengths, output="last")
            y, z = y[0], z[0]
            E = energy(y, z, self.w, ALPHA)
            if self.view.pairs:
                return _pair_quantities(y, z, E, (ALPHA + self.w).sqrt())
            logE = E.add_(ENERGY_EPSILON).log_()
            return torch.cat([y, logE], 1) if self.n_phases else logE


def _log_uniform(limits: tuple[float, float], size: int, random: np.random.RandomState) -> np.ndarray:
    return np.exp(random.uniform(math.log(limits[0]), math.log(limits[1]), size))


def _pair_quantities(y: Tensor, z: Tensor, E: Tensor, frequency: Tensor) -> Tensor:
    """PAIR_QUANTITIES of oscillators (k, 2p), the second of each pair p columns after the first: (k, 2p)."""
    (y0, y1), (z0, z1), (E0, E1) = (t.chunk(2, 1) for t in (y, z, E))
    omega = frequency[: y0.shape[1]]
    total = (E0 + E1 + ENERGY_EPSILON).repeat(1, 2)
    return torch.cat([omega * (y0 * z1 - y1 * z0), z0 * z1 + omega**2 * y0 * y1], 1) / total


def _centred(u: Tensor, lengths: Tensor | None) -> Tensor:
    """Windows (W, k, d) minus their means."""
    if lengths is None:
        return u - u.mean(0)
    inside = (torch.arange(len(u))[:, None] < lengths)[:, :, None]
    return torch.where(inside, u - (u * inside).sum(0) / lengths[:, None], 0.0)


@lru_cache(maxsize=256)
def _window_starts(N: int, W: int, hop: int) -> np.ndarray:
    """Starts of windows every ``hop`` samples, plus one that ends with the series; only 0 if N <= W."""
    if N <= W:
        return np.zeros(1, np.int64)
    starts = np.arange(0, N - W + 1, hop)
    return starts if starts[-1] == N - W else np.append(starts, N - W)


def _windows(inputs: Series, starts: Sequence[np.ndarray], W: int) -> tuple[Tensor, Tensor | None]:
    """Windows (W, k, d) of each series in turn, and their lengths if any is shorter than W."""
    sizes = [max(len(x), W) for x in inputs]
    offsets = np.cumsum(sizes) - sizes
    joined = np.zeros((sum(sizes), inputs[0].shape[1]), inputs[0].dtype)
    for offset, x in zip(offsets, inputs, strict=True):
        joined[offset : offset + len(x)] = x
    rows = np.concatenate([offset + each for offset, each in zip(offsets, starts, strict=True)])
    windows = np.lib.stride_tricks.sliding_window_view(joined, W, axis=0)[rows]  # (k, d, W)
    lengths = np.repeat([min(len(x), W) for x in inputs], [len(each) for each in starts])
    u = torch.from_numpy(np.ascontiguousarray(windows.transpose(2, 0, 1)))
    return u, None if (lengths == W).all() else torch.from_numpy(lengths)


def _batches(starts: Sequence[np.ndarray], most: int) -> Iterator[list[tuple[int, np.ndarray]]]:
    """Windows of all series in batches of at most ``most``: pairs of a series' index and window starts.

    A series occurs at most once in a batch.
    """
    batch: list[tuple[int, np.ndarray]] = []
    count = 0
    for i, each in enumerate(starts):
        for start in range(0, len(each), most):
            some = each[start : start + most]
            if count + len(some) > most:
                yield batch
                batch, count = [], 0
            batch.append((i, some))
            count += len(some)
    if batch:
        yield batch
