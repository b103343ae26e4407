"""Splits over shared data: rows of another split, changed batches, slices of one long array; and standardisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unicornn.lab.tasks._base import Batch, Split, Splits


@dataclass(frozen=True)
class Rows:
    """A Split with the sequences ``rows`` (n,) of another one, without a copy."""

    base: Split
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def sizes(self) -> Tensor | None:
        """Length of each sequence (n,), if the other split has them."""
        sizes: Tensor | None = getattr(self.base, "sizes", None)
        return None if sizes is None else sizes[torch.from_numpy(self.rows)]

    @property
    def target(self) -> Tensor:
        target: Tensor = self.base.target[torch.from_numpy(self.rows)]  # type: ignore[attr-defined]
        return target

    def batch(self, indices: Tensor, draw: int) -> Batch:
        return self.base.batch(torch.from_numpy(self.rows[indices.numpy()]), draw)


@dataclass(frozen=True)
class Augmented:
    """A Split whose batches are those of another one after ``change(batch, indices, draw)``."""

    base: Split
    change: Callable[[Batch, Tensor, int], Batch]

    def __len__(self) -> int:
        return len(self.base)

    @property
    def target(self) -> Tensor:
        target: Tensor = self.base.target  # type: ignore[attr-defined]
        return target

    def batch(self, indices: Tensor, draw: int) -> Batch:
        return self.change(self.base.batch(indices, draw), indices, draw)


@dataclass(frozen=True)
class Slices:
    """A Split of standardised slices of one long array, which may overlap and are cut when they are requested.

    Args:
        values: Steps of all recordings (steps, d) in float32; may be memory-mapped.
        begin: First step of each slice (n,).
        lengths: Number of steps of each slice (n,).
        target: Targets (n,).
        mean, deviation: Subtracted from the values, and their divisor; each (d,).
        times: Steps to keep, in rising order, counted from the beginning of each slice; all if None.
        jitter: Largest number of steps (n,) by which a slice is moved towards the end in training, at random.
        seed: Seed of these moves.
    """

    values: np.ndarray
    begin: np.ndarray
    lengths: np.ndarray
    target: Tensor
    mean: np.ndarray | float = 0.0
    deviation: np.ndarray | float = 1.0
    times: np.ndarray | None = None
    jitter: np.ndarray | None = None
    seed: int = 0

    def __len__(self) -> int:
        return len(self.begin)

    def batch(self, indices: Tensor, draw: int) -> Batch:
        rows = indices.numpy()
        begin, lengths = self.begin[rows], self.lengths[rows]
        if self.jitter is not None and draw >= 0:
            moves = [np.random.default_rng((self.seed, draw, row)).random() for row in rows.tolist()]
            begin = begin + (np.array(moves) * (self.jitter[rows] + 1)).astype(np.int64)
        u = np.zeros((lengths.max(), len(rows), self.values.shape[1]), np.float32)
        for i, (first, n) in enumerate(zip(begin.tolist(), lengths.tolist(), strict=True)):
            steps = slice(first, first + n) if self.times is None else first + self.times[:n]
            u[:n, i] = (self.values[steps] - self.mean) / self.deviation
        ragged = bool((self.lengths != self.lengths[0]).any())
        return Batch(torch.from_numpy(u), self.target[indices], torch.from_numpy(lengths) if ragged else None)


def split_rows(base: Split, rows: Sequence[np.ndarray], embedding: Tensor | None = None) -> Splits:
    """Training, validation and test set, each given by its rows of one Split."""
    train, valid, test = (Rows(base, each) for each in rows)
    return Splits(train, valid, test, embedding)


def moments(sequences: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Mean and mean square of every sequence (N, d), together (2, n, d) in float64."""
    first = [np.mean(x, axis=0, dtype=np.float64) for x in sequences]
    second = [np.mean(np.square(x, dtype=np.float64), axis=0) for x in sequences]
    return np.array([first, second])


def mean_and_deviation(
    moments: np.ndarray, rows: np.ndarray, lengths: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (d,) over all steps of these sequences; the deviation of a constant channel is 1."""
    weights = None if lengths is None else lengths[rows]
    mean, square = (np.average(moment[rows], axis=0, weights=weights) for moment in moments)
    variance = square - mean**2
    deviation = np.sqrt(np.where(variance > 1e-12 * (1 + mean**2), variance, 1.0))
    return mean.astype(np.float32), deviation.astype(np.float32)
