"""Which sequences make up a batch: from the seed and the epoch alone, shared out over the processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unicornn.errors import BadValue
from unicornn.lab.tasks._base import Split

POOL = 100  # batches


class Share(NamedTuple):
    """One process's share of a batch. ``weight`` makes the mean over processes the mean over sequences."""

    indices: Tensor
    weight: float


@dataclass(frozen=True)
class Batches:
    """The batches of an epoch, or this process's share of each; every sequence exactly once.

    Args:
        n: how many sequences there are.
        size: of a batch, over all processes.
        seed: shuffles, anew for every epoch; None keeps the order.
        rank, world: this process, and how many there are.
        sizes: (n,), how long each sequence is: those in a batch are then of similar length, so that little of it is
            padding. Shuffled ones are sorted within every ``POOL`` batches, whose order is shuffled in turn.
    """

    n: int
    size: int
    seed: int | None = None
    rank: int = 0
    world: int = 1
    sizes: Tensor | None = None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise BadValue("data: expected at least one sequence, got none")

    def __len__(self) -> int:
        return -(-self.n // self.size)

    def whole(self, epoch: int) -> list[Tensor]:
        """The sequences of each batch, over all processes."""
        if self.seed is None:
            order = torch.arange(self.n) if self.sizes is None else self.sizes.argsort(stable=True)
            return list(order.split(self.size))
        generator = torch.Generator().manual_seed(mixed(self.seed, epoch))
        order = torch.randperm(self.n, generator=generator)
        if self.sizes is None:
            return list(order.split(self.size))
        pools = [pool[self.sizes[pool].argsort(stable=True)] for pool in order.split(POOL * self.size)]
        batches = [batch for pool in pools for batch in pool.split(self.size)]
        return [batches[i] for i in torch.randperm(len(batches), generator=generator)]

    def shares(self, epoch: int) -> Iterator[Share]:
        """This process's."""
        for whole in self.whole(epoch):
            mine = whole[self.rank :: self.world]
            if len(mine):
                yield Share(mine, len(mine) * self.world / len(whole))
            else:  # all processes take part in every step, if only for show
                yield Share(whole[:1], 0.0)


def batches_of(split: Split, size: int, seed: int | None = None, rank: int = 0, world: int = 1) -> Batches:
    """The batches of a Split, by length if it says how long its sequences are."""
    return Batches(len(split), size, seed, rank, world, sizes=getattr(split, "sizes", None))


def mixed(*numbers: int) -> int:
    """A seed from several numbers, such that neighbours have nothing in common."""
    value = 0x9E3779B97F4A7C15
    for number in numbers:  # splitmix64
        value = (value ^ (number & (2**64 - 1))) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
        value ^= value >> 31
    return value >> 1
