"""Octaves: features of whole series from oscillators over windows of all lengths, with gradients.

The kernels of ``OscillatorBank`` compute similar features faster, but without gradients.

Symbols: N length, b batch, d channels, m oscillators of each kind, S samples in a window, F windows, M = 4·m.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn._layer import UnICORNN
from unicornn._training.seeds import seeded
from unicornn.estimators._oscillators import ALPHA, FASTEST, INPUT_SCALE, MAX_STEPS, SLOWEST
from unicornn.estimators._ridge import CLIP, Ridge
from unicornn.estimators._series import Series
from unicornn.readouts import log_energies

KINDS = 4  # of inputs: level, shape, increments, scaled increments; see ``OscillatorBank``
SMALLEST_WINDOW = 8
SMALL_DATA = 1_000_000  # steps of the training series, above which there are fewer oscillators and windows
FLOOR = 1e-4  # of the energies
STABLE = 0.8  # of w with which the fastest oscillators become chaotic, a² (α + w) = 4, and lose their gradients
QUIET = 0.1  # deviation of increments, relative to that of the training series, below which they are not amplified
LEVELS, SHARPNESS, RIVALRY, RIVALS = (-1.0, 0.0, 1.0), 12.0, 12.0, 8
STEPS_AT_ONCE = 1 << 16
FITTED_SERIES = 16  # from which inputs and energies are standardised


class Octave(NamedTuple):
    """Windows of S samples, one every ``hop`` samples, where a sample is the average over ``pace`` steps."""

    S: int
    pace: int
    hop: int


def octaves(longest: int, overlap: int) -> list[Octave]:
    """Windows of 8, 16, 32, … steps, up to the longest series."""
    found: list[Octave] = []
    W = SMALLEST_WINDOW
    while not found or 2 * longest > W:
        steps = max(2, min(W, longest))
        pace = 1 << max(0, math.ceil(math.log2(steps / MAX_STEPS)))
        S = max(2, steps // pace)
        found.append(Octave(S, pace, max(1, S // overlap)))
        W *= 2
    return found


class Octaves(nn.Module):
    """Log energies and states of oscillators at the ends of windows of all octaves, pooled over each series.

    Args:
        d: Number of channels.
        m: Number of oscillators of each kind and octave, a multiple of 8.
        windows: The octaves.

    Shapes: input (N, b, d), lengths (b,) or None; output (b, size).
    """

    quiet: Tensor
    spread: Tensor
    middle: Tensor
    deviation: Tensor

    def __init__(self, d: int, m: int, windows: list[Octave]) -> None:
        super().__init__()
        self.d, self.m, self.windows = d, m, windows
        self.layers = nn.ModuleList(_layer(d, m, octave.S) for octave in windows)
        self.register_buffer("quiet", torch.ones(len(windows), d))
        self.register_buffer("spread", torch.ones(len(windows), KINDS * d))
        self.register_buffer("middle", torch.zeros(len(windows), KINDS * m))
        self.register_buffer("deviation", torch.ones(len(windows), KINDS * m))
        energies = KINDS * m * (4 + len(LEVELS) + 2)
        self.summaries = 8 * d
        self.size = len(windows) * (energies + 3 * 2 * m) + self.summaries

    @classmethod
    def fit(cls, series: Series) -> Self:
        """Draws the oscillators and standardises their inputs and energies for these series (N_i, d)."""
        small = sum(map(len, series)) <= SMALL_DATA
        windows = octaves(max(map(len, series)), overlap=4 if small else 2)
        made = cls(series[0].shape[1], 24 if small else 16, windows)
        few = sorted(series[:: -(-len(series) // FITTED_SERIES)], key=len)
        with torch.no_grad():
            for i in range(len(windows)):
                made._standardise(i, few)
        return made

    def _standardise(self, i: int, series: Series) -> None:
        us = [torch.from_numpy(x)[:, None].float() for x in series]
        increments = torch.cat([self._inputs(i, u, None)[0].flatten(0, 1) for u in us])[:, 2 * self.d : 3 * self.d]
        self.quiet[i] = QUIET * increments.square().mean(0).sqrt() + 1e-6
        inputs = [self._inputs(i, u, None)[0] for u in us]
        self.spread[i] = torch.cat([each.flatten(0, 1) for each in inputs]).std(0) + 1e-6
        E = torch.cat([self._run(i, each / self.spread[i], 1)[0][:, 0] for each in inputs])
        self.middle[i], self.deviation[i] = E.mean(0), E.std(0, correction=0) + 1e-3

    def forward(self, u: Tensor, lengths: Tensor | None = None) -> Tensor:
        at_once = max(1, STEPS_AT_ONCE // len(u))
        parts = u.split(at_once, 1)
        counts = [None] * len(parts) if lengths is None else lengths.split(at_once)
        return torch.cat([self._features(*part) for part in zip(parts, counts, strict=True)])

    def _features(self, u: Tensor, lengths: Tensor | None) -> Tensor:
        if lengths is not None and bool((lengths == len(u)).all()):
            lengths = None
        if lengths is not None:
            u = torch.where((torch.arange(len(u), device=u.device)[:, None] < lengths.to(u.device))[:, :, None], u, 0.0)
        features = [f for i in range(len(self.windows)) for f in self._pooled(i, u, lengths)]
        return torch.cat([*features, *_summaries(u, lengths)], -1)

    def _inputs(self, i: int, u: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Inputs (S, F·b, 4·d) in all windows of an octave, in units of ``spread``, and which of the windows (F, b) are
        complete; the first always counts."""
        (S, pace, hop), (N, b, d) = self.windows[i], u.shape
        if pace > 1:
            u = nn.functional.pad(u, (0, 0, 0, 0, 0, max(0, pace - N)))
            u = u[: len(u) // pace * pace].unflatten(0, (-1, pace)).mean(1)
        inside = None
        n: Any = len(u)
        if lengths is not None:
            n = (lengths.to(u.device) // pace).clamp(min=1)
            inside = (torch.arange(len(u), device=u.device)[:, None] < n)[:, :, None]
            u = torch.where(inside, u, 0.0)
            n = n[:, None]
        increments = torch.diff(u, dim=0, prepend=u[:1])
        if inside is not None:
            increments = torch.where(inside, increments, 0.0)
        scale = (increments.square().sum(0) / n + self.quiet[i] ** 2).sqrt()
        x = torch.cat([u, u, increments, increments / scale], -1)
        views = nn.functional.pad(x, (0, 0, 0, 0, 0, max(0, S - len(x)))).unfold(0, S, hop)
        F = len(views)
        views = views.permute(3, 0, 1, 2).reshape(S, F * b, KINDS * d)
        shape = views[..., d : 2 * d] - views[..., d : 2 * d].mean(0)
        views = torch.cat([views[..., :d], shape, views[..., 2 * d :]], -1) / self.spread[i]
        mask = None
        if lengths is not None:
            mask = torch.arange(F, device=u.device)[:, None] * hop + S <= n[:, 0]
            mask[0] = True
        return views, mask

    def _run(self, i: int, views: Tensor, b: int) -> tuple[Tensor, Tensor]:
        """Log energies and states (F, b, M) of the oscillators at the ends of the windows."""
        _, state = self.layers[i](views, output="last")
        E = log_energies(self.layers[i], state, FLOOR)
        return E.unflatten(0, (-1, b)), state[0][0].unflatten(0, (-1, b))

    def _pooled(self, i: int, u: Tensor, lengths: Tensor | None) -> list[Tensor]:
        views, mask = self._inputs(i, u, lengths)
        (E, y), m = self._run(i, views, u.shape[1]), self.m
        E = (E - self.middle[i]) / self.deviation[i]
        y = torch.cat([y[..., :m], y[..., 2 * m : 3 * m]], -1)  # where the sign of the series may matter
        weight = torch.full((len(E), 1), 1 / len(E)) if mask is None else mask / mask.sum(0)
        weight = weight.to(E)[:, :, None]

        def mean(values: Tensor) -> Tensor:
            return (weight * values).sum(0)

        def extremes(values: Tensor) -> list[Tensor]:
            low, high = values, values
            if mask is not None:
                low, high = (torch.where(mask[:, :, None], values, end) for end in (math.inf, -math.inf))
            return [low.amin(0), high.amax(0)]

        middle = mean(E)
        rivals = E.unflatten(-1, (-1, RIVALS))
        contests = [torch.softmax(sign * RIVALRY * rivals, -1).flatten(2) for sign in (1, -1)]
        above = [torch.sigmoid(SHARPNESS * (E - level)) for level in LEVELS]
        deviation = (mean((E - middle) ** 2) + 1e-6).sqrt()
        return [middle, deviation, *extremes(E), *map(mean, above), *map(mean, contests), mean(y), *extremes(y)]


def _layer(d: int, m: int, S: int) -> UnICORNN:
    """Oscillators as those of ``Oscillators.draw``, m for each kind of input."""
    M = KINDS * m
    layer = UnICORNN(KINDS * d, M, dt=2 * FASTEST, alpha=ALPHA)
    a = torch.logspace(math.log10(min(SLOWEST / S, FASTEST / 2)), math.log10(FASTEST), m).repeat(KINDS)
    some = torch.floor(2 ** (torch.rand(M) * math.log2(d + 1))).clamp(1, d)
    chosen = torch.rand(M, d).argsort(1).argsort(1) < some[:, None]
    low, high = map(math.log, INPUT_SCALE)
    scale = torch.exp(low + (high - low) * torch.rand(M)) / some.sqrt()
    V = torch.randn(M, d) * chosen * scale[:, None]
    layer._scale_checked = True  # the input is standardised
    with torch.no_grad():
        layer.c[0].copy_(torch.logit(a / (2 * FASTEST)))
        layer.w[0].copy_(torch.rand(M) * (STABLE * (4 / a**2 - ALPHA)).clamp(max=1))
        nn.init.uniform_(layer.b[0], -1, 1)
        layer.V[0].copy_(torch.block_diag(*V.split(m)))
    return layer


def _summaries(u: Tensor, lengths: Tensor | None) -> list[Tensor]:
    """Mean, deviation, extremes, first and last value, mean increment and trend of every channel."""
    N, b, _ = u.shape
    ends = torch.full((b,), N, device=u.device) if lengths is None else lengths.to(u.device)
    time = torch.arange(N, device=u.device)[:, None]
    inside = (time < ends)[:, :, None]
    n = ends[:, None].to(u)
    mean = torch.where(inside, u, 0.0).sum(0) / n
    centred = torch.where(inside, u - mean, 0.0)
    steps = torch.where(inside[1:], torch.diff(u, dim=0).abs(), 0.0).sum(0) / n
    trend = (centred * ((time + 0.5) / ends - 0.5)[:, :, None]).sum(0) / n
    low, high = torch.where(inside, u, math.inf).amin(0), torch.where(inside, u, -math.inf).amax(0)
    deviation = (centred.square().sum(0) / n + 1e-8).sqrt()
    return [mean, deviation, low, high, u[0], u[ends - 1, torch.arange(b, device=u.device)], steps, trend]


class OctavesHead(nn.Module):
    """A linear map of octaves, with the weights of a ridge regression; not trained further."""

    mean: Tensor
    inverse: Tensor

    def __init__(self, octaves: Octaves, outputs: int) -> None:
        super().__init__()
        self.octaves = octaves
        self.register_buffer("mean", octaves.spread.new_zeros(octaves.size))
        self.register_buffer("inverse", octaves.spread.new_ones(octaves.size))
        self.linear = nn.utils.skip_init(nn.Linear, octaves.size, outputs).to(octaves.spread)
        self.requires_grad_(False)

    @classmethod
    def empty(cls, windows: Sequence[Sequence[int]], d: int, outputs: int, state: Mapping[str, Tensor]) -> Self:
        """A map of the sizes of a saved one, whose ``state`` belongs to the network beside it."""
        octaves = [Octave(*(checks.integer("octaves", k, 1, checks.SIZE) for k in each)) for each in windows]
        with seeded(0):
            return cls(Octaves(d, state["beside.octaves.layers.0.w.0"].numel() // KINDS, octaves), outputs)

    @torch.no_grad()
    def start(self, ridge: Ridge, factor: float) -> None:
        """Takes over the solution of a ridge regression, times ``factor``."""
        self.mean.copy_(torch.from_numpy(ridge.mean))
        self.inverse.copy_(torch.from_numpy(1 / ridge.deviation))
        self.linear.weight.copy_(torch.from_numpy(factor * ridge.coefficients.T))
        self.linear.bias.copy_(torch.from_numpy(factor * np.asarray(ridge.intercept)))

    def forward(self, u: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.linear(((self.octaves(u, lengths) - self.mean) * self.inverse).clamp(-CLIP, CLIP))
