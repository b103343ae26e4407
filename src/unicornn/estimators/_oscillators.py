"""Untrained oscillators that run over windows of one length, and what they hear of a series."""

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
FASTEST = 1.6  # the largest effective time step a; symplectic Euler is stable for a²·α < 4
SLOWEST = math.pi  # over the window's length: half a turn within a window
LOUD = (0.25, 1.5)  # how strongly the input drives an oscillator: from nearly linear to well into the tanh
FLOOR = 1e-3  # added to energies before the logarithm
MEMORY = 1 << 20  # numbers in flight, whatever the number and the length of the series; more leave the cache
MOST = 512  # series by which what is heard is scaled
STEPS = 64  # of a window, at most, for those who hear a series at its octave's pace
OWN_OVERLAP = 2  # of the windows at full pace, which are long

QUANTITIES = {
    "level": ("y", "logE"),
    "shape": ("logE",),
    "moves": ("y", "logE"),
    "own": ("logE",),
    "both": ("y", "z", "logE"),  # of models saved in the first version of the format
}
"""What is read off the oscillators by what they hear. y, a phase, is kept where the sign of a series may matter."""

OF_PAIRS = ("turn", "along")
"""What is read off two equal oscillators that hear two channels: their angular momentum, which is positive where one
leads and negative where the other does, and what they have in common. Both are shares of the two energies."""


class Part(NamedTuple):
    """Windows of W averages over ``pace`` steps, one every ``hop`` averages, and what oscillators hear of them.

    "level" is the series itself; "shape" is what a window deviates from its mean; "moves" are the increments; "own" are
    the increments of the series standardised by itself, for signals whose size means nothing. With ``pairs``, two equal
    oscillators each hear one channel. With ``trend``, how energies change along a series is pooled too.
    """

    hears: str
    W: int
    pace: int
    hop: int
    pairs: bool = False
    trend: bool = False

    def prepare(self, x: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        """What is heard of a standardised series (N, d), in units of ``deviation`` (d,): (averages, d) in float32."""
        if self.hears == "own":
            x = (x - x.mean(0)) / (x.std(0) + 1e-6)
        if self.pace > 1:
            whole = len(x) // self.pace * self.pace
            x = x[:whole].reshape(-1, self.pace, x.shape[1]).mean(1) if whole else x.mean(0, keepdims=True)
        if self.hears == "both":
            return np.concatenate([x, np.diff(x, axis=0, prepend=x[:1]) / deviation], 1).astype(np.float32)
        if self.hears in ("moves", "own"):
            x = np.diff(x, axis=0, prepend=x[:1])
        return (x / deviation).astype(np.float32)

    def begins(self, N: int) -> np.ndarray:
        """Where the windows of a series of N steps begin, in averages."""
        return starts(max(1, N // self.pace), self.W, self.hop)


def parts(longest: int, least: int, overlap: int, pairs: bool) -> list[Part]:
    """The windows of all octaves, from ``least`` steps to the longest series; those of pairs of channels come last.

    A long window is heard at a slow pace, in at most 64 averages: its fast oscillations are what shorter windows are
    for. So its hops may be small, and it is found wherever in the series it lies. Only "own" hears every step.
    """
    octaves = least * 2 ** np.arange(64.0)
    found = []
    for W in [*(int(W) for W in octaves[octaves < longest]), longest]:
        pace = 1 << max(0, math.ceil(math.log2(W / STEPS)))
        short = min(-(-W // pace), max(1, longest // pace))
        hop = max(1, short // overlap) if pace > 1 else max(min(2, W), 2 * W // overlap)
        found += [Part(hears, short, pace, hop, trend=True) for hears in ("level", "shape", "moves")]
        found.append(Part("own", W, 1, max(1, W // OWN_OVERLAP), trend=True))
    slow = [part._replace(pairs=True, trend=False) for part in found if part.hears in ("shape", "moves")]
    return found + slow if pairs else found


class Oscillators(NamedTuple):
    """A layer of m oscillators for windows: w, b, c (m,) and V (m, d); the deviation (d,) of what they hear; and of the
    numbers that are read off, levels (q, F) and the middle (F,), or None."""

    part: Part
    w: Tensor
    V: Tensor
    b: Tensor
    c: Tensor
    deviation: np.ndarray
    levels: np.ndarray
    middle: np.ndarray | None

    @property
    def names(self) -> list[str]:
        """Of the F numbers that are read off, as "y0"."""
        quantities = OF_PAIRS if self.part.pairs else QUANTITIES[self.part.hears]
        each = len(self.w) // 2 if self.part.pairs else len(self.w)
        return [f"{quantity}{i}" for quantity in quantities for i in range(each)]

    @property
    def phases(self) -> int:
        """How many of the numbers are phases: mean, largest and smallest are all that is kept of them."""
        return 0 if self.part.pairs or self.part.hears == "both" else len(self.names) - len(self.w)

    @classmethod
    def draw(cls, part: Part, m: int, series: Series, random: np.random.RandomState) -> Oscillators:
        """a spread logarithmically from π/W to 1.6, w ~ U(0, 1), b ~ U(-1, 1), rows of V of various sizes.

        Each oscillator hears a few of the channels only, from one to all with equal odds on a logarithmic scale: a sum
        of many channels would tell nothing about any of them.
        """
        d = series[0].shape[1]
        ones = np.ones(d)
        some = series[:: -(-len(series) // MOST)]
        deviation = Scaling.of([part.prepare(x, ones) for x in some]).deviation
        slowest = min(SLOWEST / part.W, FASTEST / 2)
        a = np.exp(np.linspace(math.log(slowest), math.log(FASTEST), m))
        heard = np.floor(2 ** random.uniform(0, np.log2(d + 1), m)).clip(1, d)
        rank = random.uniform(size=(m, d)).argsort(1).argsort(1)
        loud = np.exp(random.uniform(math.log(LOUD[0]), math.log(LOUD[1]), m)) / np.sqrt(heard)
        V = random.normal(size=(m, d)) * (rank < heard[:, None]) * loud[:, None]
        share = a / (2 * FASTEST)
        numbers = random.uniform(0, 1, m), V, random.uniform(-1, 1, m), np.log(share / (1 - share))
        w, V, b, c = (torch.as_tensor(t, dtype=torch.float32) for t in numbers)
        return cls(part, w, V, b, c, deviation, np.zeros((0, 0), np.float32), None)

    @classmethod
    def draw_pairs(
        cls, part: Part, m: int, series: Series, channels: np.ndarray, random: np.random.RandomState
    ) -> Oscillators:
        """m / 2 oscillators, each of them twice, without a bias: the first hears one of the channels, the second
        another one, as loudly."""
        k = max(1, m // 2)
        single = cls.draw(part, k, series, random)
        heard = np.stack([random.permutation(channels)[:2] for _ in range(k)])  # (k, 2)
        loud = np.exp(random.uniform(math.log(LOUD[0]), math.log(LOUD[1]), k))
        V = np.zeros((2, k, series[0].shape[1]), np.float32)
        for i in range(2):
            V[i, np.arange(k), heard[:, i]] = loud
        return single._replace(
            w=single.w.repeat(2), V=torch.from_numpy(V.reshape(2 * k, -1)), b=torch.zeros(2 * k), c=single.c.repeat(2)
        )

    def final(self, u: Tensor, lengths: Tensor | None) -> Tensor:
        """What is read off at the ends of windows u (W, k, d), quantity by quantity: (k, F). Energies are those of
        Eq. (4) without input."""
        if self.part.hears == "shape":
            u = _centred(u, lengths)
        with torch.no_grad():
            weights = functional.Weights([self.w], [self.V], [self.b], [self.c])
            _, (y, z) = functional.unicornn(u, weights, dt=2 * FASTEST, alpha=ALPHA, lengths=lengths, output="last")
            y, z = y[0], z[0]
            E = energy(y, z, self.w, ALPHA)
            if self.part.pairs:
                return _of_pairs(y, z, E, (ALPHA + self.w).sqrt())
            found = {"y": y, "z": z, "logE": E.add_(FLOOR).log_()}
            own = [found[name] for name in QUANTITIES[self.part.hears]]
            return own[0] if len(own) == 1 else torch.cat(own, 1)

    def portions(self, series: Series, begins: Sequence[np.ndarray]) -> Iterator[tuple[list[int], list[int], Tensor]]:
        """What is read off at the ends of the windows of all series, (k, F) at a time: of which series, how many."""
        at_once = max(1, MEMORY // (self.part.W * series[0].shape[1] + 4 * len(self.names)))
        for batch in portions(begins, at_once):
            heard = [self.part.prepare(series[i], self.deviation) for i, _ in batch]
            states = self.final(*windows(heard, [own for _, own in batch], self.part.W))
            yield [i for i, _ in batch], [len(own) for _, own in batch], states

    def sampled(self, series: Series, most: int, random: np.random.RandomState) -> np.ndarray:
        """What is read off at the ends of at most ``most`` windows drawn from all series, (k, F)."""
        begins = [self.part.begins(len(x)) for x in series]
        owner = np.repeat(np.arange(len(series)), [len(own) for own in begins])
        flat = np.concatenate(begins)
        chosen = np.sort(random.permutation(len(flat))[:most])
        cuts = np.searchsorted(owner[chosen], np.arange(len(series) + 1))
        kept = [flat[chosen[a:b]] for a, b in itertools.pairwise(cuts)]
        return np.concatenate([states.numpy() for _, _, states in self.portions(series, kept)])


def _of_pairs(y: Tensor, z: Tensor, E: Tensor, frequency: Tensor) -> Tensor:
    """OF_PAIRS of oscillators (k, 2p), the second of each pair p columns after the first: (k, 2p)."""
    (y0, y1), (z0, z1), (E0, E1) = (t.chunk(2, 1) for t in (y, z, E))
    omega = frequency[: y0.shape[1]]
    return torch.cat([omega * (y0 * z1 - y1 * z0), z0 * z1 + omega**2 * y0 * y1], 1) / (E0 + E1 + FLOOR).repeat(1, 2)


def _centred(u: Tensor, lengths: Tensor | None) -> Tensor:
    """Windows (W, k, d) without their means."""
    if lengths is None:
        return u - u.mean(0)
    inside = (torch.arange(len(u))[:, None] < lengths)[:, :, None]
    return torch.where(inside, u - (u * inside).sum(0) / lengths[:, None], 0.0)


@lru_cache(maxsize=256)
def starts(N: int, W: int, hop: int) -> np.ndarray:
    """Where windows begin: every ``hop`` steps, and one that ends with the series; 0 if it is short."""
    if N <= W:
        return np.zeros(1, np.int64)
    begins = np.arange(0, N - W + 1, hop)
    return begins if begins[-1] == N - W else np.append(begins, N - W)


def windows(series: Series, begins: Sequence[np.ndarray], W: int) -> tuple[Tensor, Tensor | None]:
    """Windows (W, k, d) of each series in turn, and their lengths if some are short."""
    sizes = [max(len(x), W) for x in series]
    first = np.cumsum(sizes) - sizes
    joined = np.zeros((sum(sizes), series[0].shape[1]), series[0].dtype)
    for n, x in zip(first, series, strict=True):
        joined[n : n + len(x)] = x
    where = np.concatenate([n + own for n, own in zip(first, begins, strict=True)])
    found = np.lib.stride_tricks.sliding_window_view(joined, W, axis=0)[where]  # (k, d, W)
    short = np.repeat([min(len(x), W) for x in series], [len(own) for own in begins])
    u = torch.from_numpy(np.ascontiguousarray(found.transpose(2, 0, 1)))
    return u, None if (short == W).all() else torch.from_numpy(short)


def portions(begins: Sequence[np.ndarray], most: int) -> Iterator[list[tuple[int, np.ndarray]]]:
    """The windows of all series, at most ``most`` at a time: which series, and where the windows begin."""
    batch: list[tuple[int, np.ndarray]] = []
    held = 0
    for i, own in enumerate(begins):  # none twice in a batch
        for start in range(0, len(own), most):
            some = own[start : start + most]
            if held + len(some) > most:
                yield batch
                batch, held = [], 0
            batch.append((i, some))
            held += len(some)
    if batch:
        yield batch
