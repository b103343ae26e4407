"""Untrained oscillators that run over windows of one length, and the numbers in which their final states are pooled."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unicornn import functional
from unicornn._readouts import energy

ALPHA = 1.0
FASTEST = 1.6  # the largest effective time step a; symplectic Euler is stable for a²·α < 4
SLOWEST = math.pi  # over the window's length: half a turn within a window
LOUD = (0.25, 1.5)  # how strongly the input drives an oscillator: from nearly linear to well into the tanh
FLOOR = 1e-3  # added to energies before the logarithm
MEMORY = 1 << 22  # numbers in flight, whatever the number and the length of the series
POOLS = ("mean", "max", "min", "deviation")


class Oscillators(NamedTuple):
    """A layer of m oscillators with time steps spread for windows of W steps: w, b, c (m,) and V (m, d)."""

    W: int
    w: Tensor
    V: Tensor
    b: Tensor
    c: Tensor

    @classmethod
    def draw(cls, W: int, m: int, d: int, random: np.random.RandomState) -> Oscillators:
        """a spread logarithmically from π/W to 1.6, w ~ U(0, 1), b ~ U(-1, 1), rows of V of various sizes.

        Each oscillator hears a few of the channels only, from one to all with equal odds on a logarithmic scale: a sum
        of many channels would tell nothing about any of them.
        """
        slowest = min(SLOWEST / W, FASTEST / 2)
        a = np.exp(np.linspace(math.log(slowest), math.log(FASTEST), m))
        heard = np.floor(2 ** random.uniform(0, np.log2(d + 1), m)).clip(1, d)
        rank = random.uniform(size=(m, d)).argsort(1).argsort(1)
        loud = np.exp(random.uniform(math.log(LOUD[0]), math.log(LOUD[1]), m)) / np.sqrt(heard)
        V = random.normal(size=(m, d)) * (rank < heard[:, None]) * loud[:, None]
        share = a / (2 * FASTEST)
        numbers = random.uniform(0, 1, m), V, random.uniform(-1, 1, m), np.log(share / (1 - share))
        return cls(W, *(torch.as_tensor(t, dtype=torch.float32) for t in numbers))

    def final(self, u: Tensor, lengths: Tensor | None) -> Tensor:
        """y, z and the logarithm of the energy, eq:hamil without input, at the ends of windows u (W, k, d): (k, 3m)."""
        with torch.no_grad():
            weights = functional.Weights([self.w], [self.V], [self.b], [self.c])
            _, (y, z) = functional.unicornn(u, weights, dt=2 * FASTEST, alpha=ALPHA, lengths=lengths, output="last")
            y, z = y[0], z[0]
            return torch.cat([y, z, torch.log(energy(y, z, self.w, ALPHA) + FLOOR)], 1)


def starts(N: int, W: int, hop: int) -> np.ndarray:
    """Where the windows of a series begin: every ``hop`` steps, and one that ends with the series; 0 if it is short."""
    if N <= W:
        return np.zeros(1, np.int64)
    begins = np.arange(0, N - W + 1, hop)
    return begins if begins[-1] == N - W else np.append(begins, N - W)


def windows(
    series: Sequence[np.ndarray], rows: Sequence[tuple[int, np.ndarray]], W: int
) -> tuple[Tensor, Tensor | None]:
    """Windows (W, k, d) that begin where ``rows`` says, of each series in turn, and their lengths if some are short."""
    parts, lengths = [], []
    for i, begins in rows:
        x = series[i]
        if len(x) < W:
            x = np.concatenate([x, np.zeros((W - len(x), x.shape[1]), x.dtype)])
        parts.append(np.lib.stride_tricks.sliding_window_view(x, W, axis=0)[begins])  # (k, d, W)
        lengths.append(np.full(len(begins), min(len(series[i]), W)))
    u = torch.from_numpy(np.ascontiguousarray(np.concatenate(parts).transpose(2, 0, 1)))
    own = torch.from_numpy(np.concatenate(lengths))
    return u, None if bool((own == W).all()) else own


def portions(begins: Sequence[np.ndarray], most: int) -> Iterator[list[tuple[int, np.ndarray]]]:
    """The windows of all series, at most ``most`` at a time: which series, and where the windows begin.

    Whole series where they fit, since those with equally many windows are pooled faster.
    """
    batch: list[tuple[int, np.ndarray]] = []
    held = 0
    for i, own in enumerate(begins):
        for start in range(0, len(own), most):
            some = own[start : start + most]
            if held + len(some) > most:
                yield batch
                batch, held = [], 0
            batch.append((i, some))
            held += len(some)
    if batch:
        yield batch


def pooled(series: Sequence[np.ndarray], layer: Oscillators, hop: int, levels: np.ndarray) -> np.ndarray:
    """Mean, largest, smallest, deviation over a series' windows, and the share above each of the levels (q, 3m).

    Returns (n, (4 + q)·3m). Windows are taken a portion at a time, so that memory does not grow with the length.
    """
    n, F = len(series), levels.shape[1]
    count, sums = np.zeros((n, 1)), np.zeros((n, 2 + len(levels), F))
    ends = np.full((n, 2, F), -np.inf, np.float32)  # of y and of -y
    begins = [starts(len(x), layer.W, hop) for x in series]
    for batch in portions(begins, _at_once(layer.W, series[0].shape[1], F)):
        states = layer.final(*windows(series, batch, layer.W))
        rows, counts = [row for row, _ in batch], [len(own) for _, own in batch]
        found = [_summed(part, torch.from_numpy(levels)) for part in _equal(states, counts)]
        sums[rows] += np.concatenate([total for total, _ in found])
        ends[rows] = np.maximum(ends[rows], np.concatenate([far for _, far in found]))
        count[rows, 0] += counts
    mean, square = sums[:, 0] / count, sums[:, 1] / count
    variance = square - mean**2
    deviation = np.sqrt(np.where(variance > 1e-10 * square, variance, 0))  # else it is rounding
    shares = (sums[:, 2:] / count[:, :, None]).reshape(n, -1)
    return np.concatenate([mean, ends[:, 0], -ends[:, 1], deviation, shares], 1).astype(np.float32)


def _equal(states: Tensor, counts: list[int]) -> Iterator[Tensor]:
    """Final states (k, 3m) by series, (s, windows of each, 3m): series with equally many windows together."""
    start = 0
    for windows_of_each, group in itertools.groupby(counts):
        s = len(list(group))
        yield states[start : start + s * windows_of_each].view(s, windows_of_each, -1)
        start += s * windows_of_each


def _summed(states: Tensor, levels: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Over the windows: sums of the values, their squares and how many are above each level, (s, 2 + q, 3m) in float64;
    the largest value and the largest of its opposite, (s, 2, 3m)."""
    double = states.double()
    above = [(states > level).float().sum(1).double() for level in levels]
    sums = torch.stack([double.sum(1), double.square().sum(1), *above], 1)
    return sums.numpy(), torch.stack([states.amax(1), -states.amin(1)], 1).numpy()


def sampled(
    series: Sequence[np.ndarray], layer: Oscillators, hop: int, most: int, random: np.random.RandomState
) -> np.ndarray:
    """The final states (k, 3m) of at most ``most`` windows drawn from all series."""
    begins = [starts(len(x), layer.W, hop) for x in series]
    owner = np.repeat(np.arange(len(series)), [len(own) for own in begins])
    flat = np.concatenate(begins)
    chosen = np.sort(random.permutation(len(flat))[:most])
    kept = [flat[chosen[owner[chosen] == i]] for i in range(len(series))]
    F = 3 * len(layer.w)
    d = series[0].shape[1]
    batches = portions(kept, _at_once(layer.W, d, F))
    return np.concatenate([layer.final(*windows(series, batch, layer.W)).numpy() for batch in batches])


def _at_once(W: int, d: int, F: int) -> int:
    return max(1, MEMORY // (W * d + 4 * F))
