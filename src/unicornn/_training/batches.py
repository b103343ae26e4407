"""The order of sequences in batches: it depends on the seed and the epoch only, and is shared between processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unicornn._training.seeds import derive_seed
from unicornn.errors import BadValue

POOL = 100  # number of batches whose sequences are sorted by length together


class BatchShare(NamedTuple):
    """One process's part of a batch. With ``weight``, the mean over processes is the mean over sequences."""

    indices: Tensor
    weight: float


@dataclass(frozen=True)
class Batches:
    """Indices of the sequences in each batch of an epoch; every sequence occurs exactly once.

    Args:
        n: Number of sequences.
        size: Number of sequences in a batch, over all processes.
        seed: Seed of the order, which differs between epochs; None keeps the order.
        rank: Number of this process.
        world: Number of processes.
        lengths: Lengths of the sequences (n,). Batches then have sequences of similar length, which saves padding.
            Shuffled sequences are sorted within each ``POOL`` batches, and these batches are shuffled again.
    """

    n: int
    size: int
    seed: int | None = None
    rank: int = 0
    world: int = 1
    lengths: Tensor | None = None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise BadValue("data: expected at least one sequence, got none")

    def __len__(self) -> int:
        return -(-self.n // self.size)

    def complete(self, epoch: int) -> list[Tensor]:
        """Returns the indices of each batch, over all processes."""
        if self.seed is None:
            order = torch.arange(self.n) if self.lengths is None else self.lengths.argsort(stable=True)
            return list(order.split(self.size))
        generator = torch.Generator().manual_seed(derive_seed(self.seed, epoch))
        order = torch.randperm(self.n, generator=generator)
        if self.lengths is None:
            return list(order.split(self.size))
        pools = [pool[self.lengths[pool].argsort(stable=True)] for pool in order.split(POOL * self.size)]
        batches = [batch for pool in pools for batch in pool.split(self.size)]
        return [batches[i] for i in torch.randperm(len(batches), generator=generator)]

    def shares(self, epoch: int) -> Iterator[BatchShare]:
        """Yields this process's part of each batch."""
        for batch in self.complete(epoch):
            mine = batch[self.rank :: self.world]
            if len(mine):
                yield BatchShare(mine, len(mine) * self.world / len(batch))
            else:  # every process takes part in every step; this one's gradient has weight zero
                yield BatchShare(batch[:1], 0.0)
