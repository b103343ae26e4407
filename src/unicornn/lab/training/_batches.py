"""Which sequences make up a batch: from the seed and the epoch alone, shared out over the processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from unicornn.errors import BadValue
from unicornn.lab.tasks._base import Batch, Split

POOL = 100  # batches


class Share(NamedTuple):
    """One process's part of a batch. ``weight`` makes the mean over processes the mean over sequences."""

    indices: Tensor
    draw: int
    weight: float


class Batches(Sampler[Share]):
    """The batches of an epoch, or this process's share of each; every sequence exactly once.

    Args:
        n: how many sequences there are.
        size: of a batch, over all processes.
        seed: shuffles, anew for every epoch (``set_epoch``); None keeps the order.
        rank, world: this process, and how many there are.
        sizes: (n,), how long each sequence is: those in a batch are then of similar length, so that little of it is
            padding. Shuffled ones are sorted within every ``POOL`` batches, whose order is shuffled in turn.
    """

    def __init__(
        self,
        n: int,
        size: int,
        seed: int | None = None,
        rank: int = 0,
        world: int = 1,
        sizes: Tensor | None = None,
    ) -> None:
        if n < 1:
            raise BadValue("data: expected at least one sequence, got none")
        self.n, self.size, self.seed, self.rank, self.world, self.sizes = n, size, seed, rank, world, sizes
        self.epoch = -1

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning; the validation and test sets stay at draw -1."""
        self.epoch = epoch if self.seed is not None else -1

    def __len__(self) -> int:
        return -(-self.n // self.size)

    def batches(self) -> list[Tensor]:
        """The sequences of each batch, over all processes."""
        if self.seed is None:
            order = torch.arange(self.n) if self.sizes is None else self.sizes.argsort(stable=True)
            return list(order.split(self.size))
        generator = torch.Generator().manual_seed(mixed(self.seed, self.epoch))
        order = torch.randperm(self.n, generator=generator)
        if self.sizes is None:
            return list(order.split(self.size))
        pools = [pool[self.sizes[pool].argsort(stable=True)] for pool in order.split(POOL * self.size)]
        batches = [batch for pool in pools for batch in pool.split(self.size)]
        return [batches[i] for i in torch.randperm(len(batches), generator=generator)]

    def __iter__(self) -> Iterator[Share]:
        for whole in self.batches():
            mine = whole[self.rank :: self.world]
            if len(mine):
                yield Share(mine, self.epoch, len(mine) * self.world / len(whole))
            else:  # all processes take part in every step, if only for show
                yield Share(whole[:1], self.epoch, 0.0)


class _Loaded(Dataset[tuple[Batch, float]]):
    def __init__(self, part: Split) -> None:
        self.part = part

    def __getitem__(self, share: Share) -> tuple[Batch, float]:
        return self.part.batch(share.indices, share.draw), share.weight


def batches_of(part: Split, size: int, seed: int | None = None, rank: int = 0, world: int = 1) -> Batches:
    """The batches of a Split, by length if it says how long its sequences are."""
    return Batches(len(part), size, seed, rank, world, sizes=getattr(part, "sizes", None))


def loader(part: Split, batches: Batches) -> DataLoader[tuple[Batch, float]]:
    return DataLoader(_Loaded(part), sampler=batches, batch_size=None)


def mixed(*numbers: int) -> int:
    """A seed from several numbers, such that neighbours have nothing in common."""
    value = 0x9E3779B97F4A7C15
    for number in numbers:  # splitmix64
        value = (value ^ (number & (2**64 - 1))) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
        value ^= value >> 31
    return value >> 1
