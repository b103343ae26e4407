"""Splits over shared data: rows of another split, slices of one long array, changed batches; and standardisation.

Changes of batches depend on (seed, epoch, index) alone. In validation and test (draw -1), crops and shifts give several
pieces of each sequence, and the network's outputs for them are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unicornn.lab.tasks._base import Batch, Split, Splits

Change = Callable[[Batch, Tensor, int], Batch]  # of a batch, its indices and the draw

SHIFTED_PIECES = 3  # of a shifted sequence, in validation and test


@dataclass(frozen=True)
class View:
    """A Split with the sequences ``rows`` (n,) of another one, after ``change(batch, indices, draw)``; no copy."""

    base: Split
    rows: np.ndarray | None = None
    change: Change | None = None

    def __len__(self) -> int:
        return len(self.base) if self.rows is None else len(self.rows)

    @property
    def sizes(self) -> Tensor | None:
        """Length of each sequence (n,), if the other split has them and nothing is changed."""
        sizes: Tensor | None = None if self.change else getattr(self.base, "sizes", None)
        return None if sizes is None else sizes[self._in_base(torch.arange(len(self)))]

    @property
    def target(self) -> Tensor:
        target: Tensor = self.base.target  # type: ignore[attr-defined]
        return target[self._in_base(torch.arange(len(self)))]

    def batch(self, indices: Tensor, draw: int) -> Batch:
        batch = self.base.batch(self._in_base(indices), draw)
        return batch if self.change is None else self.change(batch, indices, draw)

    def _in_base(self, indices: Tensor) -> Tensor:
        return indices if self.rows is None else torch.from_numpy(self.rows)[indices]


@dataclass(frozen=True)
class Slices:
    """A Split of standardised slices of one long array, which may overlap and are cut when they are requested."""

    values: np.ndarray  # steps of all recordings, (steps, d) in float32, or integers (steps,) for text
    begin: np.ndarray  # first step of each slice (n,)
    lengths: np.ndarray  # number of steps of each slice (n,)
    target: Tensor  # (n,)
    mean: np.ndarray | float = 0.0  # subtracted from the values, (d,)
    deviation: np.ndarray | float = 1.0  # divisor of the values, (d,)
    times: np.ndarray | None = None  # steps to keep, in rising order, from the beginning of each slice; all if None
    jitter: np.ndarray | None = None  # (n,) most steps by which a slice is moved towards the end in training
    seed: int = 0  # of these moves, which are random

    def __len__(self) -> int:
        return len(self.begin)

    def batch(self, indices: Tensor, draw: int) -> Batch:
        rows = indices.numpy()
        begin, lengths = self.begin[rows], self.lengths[rows]
        if self.jitter is not None and draw >= 0:
            moves = [np.random.default_rng((self.seed, draw, row)).random() for row in rows.tolist()]
            begin = begin + (np.array(moves) * (self.jitter[rows] + 1)).astype(np.int64)
        dtype = np.float32 if self.values.dtype.kind == "f" else np.int64
        u = np.zeros((lengths.max(), len(rows), *self.values.shape[1:]), dtype)
        for i, (first, n) in enumerate(zip(begin.tolist(), lengths.tolist(), strict=True)):
            steps = slice(first, first + n) if self.times is None else first + self.times[:n]
            u[:n, i] = (self.values[steps] - self.mean) / self.deviation
        ragged = bool((self.lengths != self.lengths[0]).any())
        return Batch(torch.from_numpy(u), self.target[indices], torch.from_numpy(lengths) if ragged else None)


def split_rows(base: Split, rows: Sequence[np.ndarray], embedding: Tensor | None = None) -> Splits:
    """Training, validation and test set, each given by its rows of one Split."""
    train, valid, test = (View(base, each) for each in rows)
    return Splits(train, valid, test, embedding)


def mean_and_deviation(
    values: np.ndarray, begin: np.ndarray, lengths: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (d,) over all steps of some slices of ``values`` (steps, d); the deviation of a
    constant channel is 1."""
    slices = [values[begin[i] : begin[i] + lengths[i]] for i in rows]
    means = [np.mean(x, axis=0, dtype=np.float64) for x in slices]
    squares = [np.mean(np.square(x, dtype=np.float64), axis=0) for x in slices]
    mean, square = (np.average(each, axis=0, weights=lengths[rows]) for each in (means, squares))
    variance = square - mean**2
    deviation = np.sqrt(np.where(variance > 1e-12 * (1 + mean**2), variance, 1.0))
    return mean.astype(np.float32), deviation.astype(np.float32)


def standardised(batch: Batch, indices: Tensor, draw: int) -> Batch:
    """Each channel of each sequence with mean 0 and deviation 1, or 0 throughout if it is constant."""
    u = batch.u - batch.u.mean(0)
    deviation = u.std(0, correction=0)
    return batch._replace(u=u / torch.where(deviation > 0, deviation, 1.0))


def crop(batch: Batch, indices: Tensor, draw: int, *, shares: tuple[float, ...], seed: int) -> Batch:
    """A random crop of each sequence, or its mirror image (-u).

    The crops of an epoch have one length, a random one of ``shares``, which are relative to the longest sequence. In
    validation and test, sequences are cut into equal pieces of the largest share, each with its mirror image.
    """
    u, target, lengths = batch
    N, b = u.shape[:2]
    lengths = torch.full((b,), N) if lengths is None else lengths
    if draw < 0:
        k = round(1 / max(shares))
        size = (lengths // k).repeat_interleave(k)
        pieces = _cut(u.repeat_interleave(k, 1), torch.arange(k).repeat(b) * size, size)
        return Batch(torch.stack([pieces, -pieces], 2).flatten(1, 2), target, size.repeat_interleave(2))
    longest = int(N * np.random.default_rng((seed, draw)).choice(shares))
    size, begin, sign = lengths.clamp(max=longest), torch.zeros_like(lengths), torch.ones(b)
    for i, index in enumerate(indices.tolist()):
        random = np.random.default_rng((seed, draw, index))
        begin[i] = int(random.integers(int(lengths[i] - size[i]) + 1))
        sign[i] = float(random.choice((-1, 1)))
    return Batch(_cut(u, begin, size) * sign[:, None], target, size)


def shift(batch: Batch, indices: Tensor, draw: int, *, steps: int, seed: int) -> Batch:
    """Each sequence without ``steps`` of its steps, a random number of them at the beginning and the rest at the end.

    A network that reads the last output depends on where a sequence begins; shifts teach it not to. Sequences must have
    the same length. In validation and test there are three pieces of each, evenly spaced.
    """
    u, target, _ = batch
    if draw < 0:
        begin = torch.linspace(0, steps, SHIFTED_PIECES).long().repeat(len(indices))
        u = u.repeat_interleave(SHIFTED_PIECES, 1)
    else:
        randoms = (np.random.default_rng((seed, draw, i)) for i in indices.tolist())
        begin = torch.tensor([int(random.integers(steps + 1)) for random in randoms])
    return Batch(_cut(u, begin, torch.full_like(begin, len(u) - steps)), target)


def stretch(batch: Batch, indices: Tensor, draw: int, *, by: float, seed: int) -> Batch:
    """Each sequence played s times as fast, and its target, a rate, multiplied by s; no change in validation and test.

    log s is uniform within ± log(1 + by), with ``by`` in [0, 1). Values between samples are interpolated. A sequence
    that ends too early is continued by itself in reverse, which keeps the rate.
    """
    u, target, lengths = batch
    if draw < 0:
        return batch
    most = np.log1p(by)
    logs = [np.random.default_rng((seed, draw, i)).uniform(-most, most) for i in indices.tolist()]
    s = torch.tensor(logs).exp().float()
    end = len(u) - 1
    at = torch.arange(len(u))[:, None] * s
    at = torch.where(at > end, 2 * end - at, at).clamp(min=0)
    before = at.long().clamp(max=end - 1)
    fraction, columns = (at - before)[..., None], torch.arange(u.shape[1])
    return Batch(torch.lerp(u[before, columns], u[before + 1, columns], fraction), target * s, lengths)


def _cut(u: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    """Steps of each sequence in u (N, b, d) from begin (b,) on; the new N is the largest size (b,)."""
    steps = torch.arange(int(size.max()))[:, None] + begin
    return u[steps.clamp(max=len(u) - 1), torch.arange(u.shape[1])]
