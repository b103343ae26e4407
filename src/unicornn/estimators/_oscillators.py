"""Layers of untrained oscillators that run over windows of a series."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unicornn._ops.cpu import launch
from unicornn.estimators._series import Scaling, Series

KERNELS = "unicornn.estimators._oscillator_kernels"
ALPHA = 1.0
FASTEST = 1.6  # largest effective time step a; symplectic Euler is stable for a²·α < 4
SLOWEST = math.pi  # smallest a, times the window length: half a period per window
INPUT_SCALE = (0.25, 1.5)  # range of the rows of V: from nearly linear to saturating the tanh
SCALING_SERIES = 512  # maximum number of series from which a view's input is scaled
MAX_STEPS = 64  # of a window, unless it uses every step
STRIDES = 1.2207440846057596 ** -np.arange(1.0, 4.0)  # of a sequence whose points (w, b, scale of V) cover a cube
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


class Joined(NamedTuple):
    """Several series one after the other: x (sum of N · d,), boundaries (n + 1,) in steps, number of channels."""

    x: np.ndarray
    cuts: np.ndarray
    d: int

    @classmethod
    def from_series(cls, series: Series) -> Joined:
        """Joins series (N_i, d) in float32."""
        cuts = np.cumsum([0, *map(len, series)])
        return cls(np.concatenate([x.ravel() for x in series]), cuts, series[0].shape[1])


class View(NamedTuple):
    """Windows of W samples, one every ``hop`` samples, where a sample is the average over ``pace`` steps.

    ``kind`` is the oscillators' input: "level", the series itself; "shape", the deviation from the window's mean;
    "increments"; or "scaled_increments", those of the series standardised by its own deviation, for signals whose
    amplitude is meaningless. With ``pairs``, two equal oscillators receive one channel each. With ``aligned``, one more
    window ends with the series.
    """

    kind: str
    W: int
    pace: int
    hop: int
    pairs: bool = False
    aligned: bool = True

    @property
    def steps(self) -> int:
        """Length of a window in steps of the series."""
        return self.W * self.pace

    def prepare(self, series: Joined, deviation: np.ndarray) -> np.ndarray:
        """The inputs (samples, d) of all series in turn, standardised ones of float32, in units of ``deviation``."""
        u = np.empty_like(series.x)
        kernel = launch.kernel(KERNELS, "prepare_series")
        samples = launch.call(kernel, torch.float32, *series, self.for_kernels(deviation), u)
        return u.reshape(-1, series.d)[:samples]

    def for_kernels(self, deviation: np.ndarray) -> Any:
        """``Windows`` of ``_oscillator_kernels``."""
        Windows = launch.kernel(KERNELS, "Windows")
        differ = self.kind in ("increments", "scaled_increments")
        flags = self.kind == "shape", differ, self.kind == "scaled_increments", self.aligned
        return Windows(self.W, self.pace, self.hop, *flags, deviation)

    def starts(self, N: int) -> np.ndarray:
        """First samples of the windows of a series of N steps."""
        return _window_starts(max(1, N // self.pace), self.W, self.hop, self.aligned)


def views(longest: int, smallest_window: int, overlap: int, pairs: bool, live: bool = False) -> list[View]:
    """Views of all octaves, from ``smallest_window`` steps to the longest series; those of pairs come last.

    Long windows are averaged to at most 64 samples, because shorter windows cover their fast oscillations. They are
    cheap then and can overlap a lot, so that an event is found wherever it is. "scaled_increments" uses every step; it
    depends on the whole series and is left out with ``live``, as are windows that end with the series.
    """
    octaves = smallest_window * 2 ** np.arange(64.0)
    single = []
    for W in [*(int(W) for W in octaves[octaves < longest]), longest]:
        pace = 1 << max(0, math.ceil(math.log2(W / MAX_STEPS)))
        samples = min(-(-W // pace), max(1, longest // pace))
        hop = max(1, samples // overlap) if pace > 1 else max(min(2, W), 2 * W // overlap)
        single += [View(kind, samples, pace, hop, aligned=not live) for kind in ("level", "shape", "increments")]
        if not live:
            single.append(View("scaled_increments", W, 1, max(1, W // FULL_RATE_OVERLAP)))
    paired = [view._replace(pairs=True) for view in single if view.kind in ("shape", "increments")]
    return single + paired if pairs else single


class Oscillators(NamedTuple):
    """A layer of m oscillators for one view: w, b, c (m,) and V (m, d); the deviation (d,) of its input.

    ``levels`` (q, F), ``middle`` (F,) and ``unit`` (F,) are quantiles, medians and inverse deviations of the F
    ``names`` over the training set.
    """

    view: View
    w: Tensor
    V: Tensor
    b: Tensor
    c: Tensor
    deviation: np.ndarray
    levels: np.ndarray = np.zeros((0, 0), np.float32)
    middle: np.ndarray = np.zeros(0, np.float32)
    unit: np.ndarray = np.zeros(0, np.float32)

    @property
    def names(self) -> list[str]:
        """Names of the F quantities read at the end of a window, such as "y0"."""
        quantities = PAIR_QUANTITIES if self.view.pairs else QUANTITIES[self.view.kind]
        count = len(self.w) // 2 if self.view.pairs else len(self.w)
        return [f"{quantity}{i}" for quantity in quantities for i in range(count)]

    @property
    def n_phases(self) -> int:
        """Number of leading quantities that are phases, of which only mean, maximum and minimum are pooled."""
        return 0 if self.view.pairs or "y" not in QUANTITIES[self.view.kind] else len(self.w)

    @classmethod
    def draw(cls, view: View, m: int, series: Series, random: np.random.RandomState) -> Oscillators:
        """Spaces a from π/W to 1.6 evenly on a logarithmic scale; draws w in (0, 1), b in (-1, 1), and the rows of V.

        The length of a row is log-uniform and its direction random. w, b and the lengths are a low-discrepancy sequence
        (Roberts' strides) from a random start: cross-validated on training splits of the UCR archive, it is more
        accurate than independent draws.

        Each oscillator receives only some channels, from one to all, uniformly on a logarithmic scale: the sum of many
        channels would say little about any of them.
        """
        d = series[0].shape[1]
        some = series[:: -(-len(series) // SCALING_SERIES)]
        deviation = Scaling.fit([view.prepare(Joined.from_series(some), np.ones(d))]).deviation
        slowest = min(SLOWEST / view.W, FASTEST / 2)
        a = np.exp(np.linspace(math.log(slowest), math.log(FASTEST), m))
        n_inputs = np.floor(2 ** random.uniform(0, np.log2(d + 1), m)).clip(1, d)
        rank = random.uniform(size=(m, d)).argsort(1).argsort(1)
        rows = random.normal(size=(m, d)) * (rank < n_inputs[:, None])
        point = (np.arange(m)[:, None] * STRIDES + random.uniform(size=3)) % 1
        rows *= (_log_uniform(INPUT_SCALE, point[:, 2]) / np.linalg.norm(rows, axis=1))[:, None]
        share = a / (2 * FASTEST)
        numbers = point[:, 0], rows, 2 * point[:, 1] - 1, np.log(share / (1 - share))
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
        scale = _log_uniform(INPUT_SCALE, random.uniform(size=k))
        V = np.zeros((2, k, series[0].shape[1]), np.float32)
        for i in range(2):
            V[i, np.arange(k), inputs[:, i]] = scale
        return single._replace(
            w=single.w.repeat(2), V=torch.from_numpy(V.reshape(2 * k, -1)), b=torch.zeros(2 * k), c=single.c.repeat(2)
        )

    def with_levels(
        self, series: Series, quantiles: Sequence[float], most: int, random: np.random.RandomState
    ) -> Oscillators:
        """With the quantiles, medians and units of at most ``most`` windows drawn from all series.

        They are shifted slightly: whether a value that lies on a level is above it would depend on rounding.
        """
        starts = [self.view.starts(len(x)) for x in series]
        owner = np.repeat(np.arange(len(series)), [len(each) for each in starts])
        flat = np.concatenate(starts)
        chosen = np.sort(random.permutation(len(flat))[:most])
        cuts = np.searchsorted(owner[chosen], np.arange(len(series) + 1))
        sampled = [flat[chosen[a:b]] for a, b in itertools.pairwise(cuts)]
        values = self.values(Joined.from_series(series), sampled)
        levels = np.quantile(values, np.asarray([*quantiles, 0.5], dtype=np.float64), axis=0)
        deviation = values.std(0)
        levels = (levels + 1e-4 * deviation).astype(np.float32)
        return self._replace(levels=levels[:-1], middle=levels[-1], unit=1 / (deviation + 1e-6))

    def values(self, series: Joined, starts: Sequence[np.ndarray]) -> np.ndarray:
        """The quantities at the ends of the given windows of each series in turn, (k, F)."""
        bounds = np.cumsum([0, *map(len, starts)])
        found = np.empty((bounds[-1], len(self.names)), np.float32)
        kernel = launch.kernel(KERNELS, "run_series")
        launch.call(kernel, torch.float32, *series, *self.for_kernels(), np.concatenate(starts), bounds, found)
        return found

    @property
    def competes(self) -> bool:
        """Whether neighbours compete; they don't in models saved by version 0.2."""
        return len(self.unit) > 0 and not self.view.pairs

    @property
    def all_levels(self) -> np.ndarray:
        """Levels, medians and units together, (q + 2, F)."""
        unit = self.unit if self.competes else np.ones_like(self.middle)
        return np.concatenate([self.levels.reshape(-1, len(self.names)), self.middle[None], unit[None]])

    def for_kernels(self) -> tuple[Any, Any]:
        """``Windows`` and ``Layer`` of ``_oscillator_kernels``, the latter padded to whole vectors of lanes."""
        lanes, Layer = (launch.kernel(KERNELS, name) for name in ("W", "Layer"))
        sides = 2 if self.view.pairs else 1
        m = len(self.w) // sides
        rest = -m % lanes
        w, b = (np.pad(t[:m].numpy(), (0, rest)) for t in (self.w, self.b))
        a = (2 * FASTEST * torch.sigmoid(self.c[:m].double())).float().numpy()
        V = np.zeros((sides, self.V.shape[1], m + rest), np.float32)
        V[:, :, :m] = self.V.numpy().reshape(sides, m, -1).swapaxes(1, 2)
        frequency = np.sqrt(np.float32(ALPHA) + w)
        layer = Layer(m, sides, self.n_phases > 0, np.float32(ALPHA), w, b, np.pad(a, (0, rest)), frequency, V)
        return self.view.for_kernels(self.deviation), layer


def _log_uniform(limits: tuple[float, float], share: np.ndarray) -> np.ndarray:
    """Numbers between two limits, from uniform ones between 0 and 1."""
    return limits[0] * (limits[1] / limits[0]) ** share


@lru_cache(maxsize=256)
def _window_starts(N: int, W: int, hop: int, aligned: bool) -> np.ndarray:
    """Starts of windows every ``hop`` samples; if ``aligned``, also of one that ends with the series. 0 if N <= W."""
    if N <= W:
        return np.zeros(1, np.int64)
    starts = np.arange(0, N - W + 1, hop)
    return np.append(starts, N - W) if aligned and starts[-1] < N - W else starts
