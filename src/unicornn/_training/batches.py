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
    """Indices of the sequences in each batch of an epoch; every sequence occurs exactly once."""

    n: int  # number of sequences
    size: int  # number of sequences in a batch, over all processes
    seed: int | None = None  # of the order, which differs between epochs; None keeps the order
    rank: int = 0  # number of this process
    world: int = 1  # number of processes
    lengths: Tensor | None = None  # (n,): batches then have sequences of similar length, which saves padding

    def __post_init__(self) -> None:
        if self.n < 1:
            raise BadValue("data: expected at least one sequence, got none")

    def __len__(self) -> int:
        return -(-self.n // self.size)

    def complete(self, epoch: int) -> list[Tensor]:
        """The indices of each batch, over all processes."""
        generator = torch.Generator()
        if self.seed is None:
            order = torch.arange(self.n) if self.lengths is None else self.lengths.argsort(stable=True)
        else:
            order = torch.randperm(self.n, generator=generator.manual_seed(derive_seed(self.seed, epoch)))
        if self.seed is None or self.lengths is None:
            return list(order.split(self.size))
        pools = [pool[self.lengths[pool].argsort(stable=True)] for pool in order.split(POOL * self.size)]
        batches = [batch for pool in pools for batch in pool.split(self.size)]
        return [batches[i] for i in torch.randperm(len(batches), generator=generator)]

    def shares(self, epoch: int) -> Iterator[BatchShare]:
        """This process's part of each batch."""
        for batch in self.complete(epoch):
            mine = batch[self.rank :: self.world]
            if len(mine):
                yield BatchShare(mine, len(mine) * self.world / len(batch))
            else:  # every process takes part in every step; this one's gradient has weight zero
                yield BatchShare(batch[:1], 0.0)
