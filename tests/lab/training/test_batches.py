"""Batches: every sequence once per epoch, however many processes share them."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unicornn.lab.tasks import Sequences
from unicornn.lab.training._batches import Batches, loader, mixed


@given(n=st.integers(1, 60), size=st.integers(1, 20), world=st.integers(1, 5), epoch=st.integers(0, 3))
def test_shares_make_up_the_batches_of_one_process(n, size, world, epoch):
    def batches(rank, world):
        sampler = Batches(n, size, 7, rank, world)
        sampler.set_epoch(epoch)
        return list(sampler)

    whole, shares = batches(0, 1), [batches(rank, world) for rank in range(world)]
    assert sorted(torch.cat([batch.indices for batch in whole]).tolist()) == list(range(n))
    for k, batch in enumerate(whole):
        parts = [share[k] for share in shares]
        together = torch.cat([part.indices for part in parts if part.weight])
        assert sorted(together.tolist()) == sorted(batch.indices.tolist())
        # the mean over processes of weight × mean over a share is the mean over the batch
        value = sum(part.weight * part.indices.double().mean().item() for part in parts) / world
        assert math.isclose(value, batch.indices.double().mean().item(), abs_tol=1e-9)
        assert all(part.draw == epoch for part in parts)


def test_epochs_are_shuffled_and_repeatable_and_validation_is_not():
    sampler, orders = Batches(30, 30, 1), []
    for epoch in (0, 1, 0):
        sampler.set_epoch(epoch)
        orders.append(next(iter(sampler)).indices.tolist())
    assert orders[0] == orders[2] != orders[1]
    still = Batches(30, 30)
    still.set_epoch(4)
    assert next(iter(still)).indices.tolist() == list(range(30))
    assert next(iter(still)).draw == -1


@given(n=st.integers(1, 500), size=st.integers(1, 3), epoch=st.integers(0, 2))
def test_batches_of_similar_length(n, size, epoch):
    sizes = torch.randperm(n, generator=torch.Generator().manual_seed(n))
    sampler = Batches(n, size, 7, sizes=sizes)
    sampler.set_epoch(epoch)
    batches = sampler.batches()
    assert sorted(torch.cat(batches).tolist()) == list(range(n))
    assert len(batches) == len(sampler)
    if n <= 100 * size:  # one pool: no batch reaches into another's lengths
        ranges = sorted((int(sizes[batch].min()), int(sizes[batch].max())) for batch in batches)
        assert all(high < low for (_, high), (low, _) in pairwise(ranges))
    assert sizes[torch.cat(Batches(n, size, sizes=sizes).batches())].tolist() == list(range(n))


def test_an_empty_set_is_refused():
    with pytest.raises(ValueError, match="at least one sequence"):
        Batches(0, 4)


def test_seeds_of_neighbours_differ():
    assert len({mixed(a, b) for a in range(-1, 40) for b in range(-1, 40)}) == 41**2


def test_sequences_are_cut_to_the_longest_of_a_batch():
    lengths = torch.tensor([3, 5, 2])
    part = Sequences(torch.arange(30.0).view(3, 10, 1), torch.zeros(3), lengths)
    (batch, weight), (last, _) = loader(part, Batches(3, 2))
    assert batch.u.shape == (5, 2, 1)
    assert last.u.shape == (2, 1, 1)
    assert weight == 1
    assert batch.lengths.tolist() == [3, 5]


def test_sequences_need_as_many_targets():
    with pytest.raises(ValueError, match="target: expected one for each of the 3 sequences, got 2"):
        Sequences(torch.zeros(3, 4, 1), torch.zeros(2))
