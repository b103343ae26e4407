"""Batches: every sequence once per epoch, however many processes share them."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unicornn.lab.tasks import Sequences
from unicornn.lab.training._batches import Batches, mixed


@given(n=st.integers(1, 60), size=st.integers(1, 20), world=st.integers(1, 5), epoch=st.integers(0, 3))
def test_shares_make_up_the_batches_of_one_process(n, size, world, epoch):
    def batches(rank, world):
        return list(Batches(n, size, 7, rank, world).shares(epoch))

    whole, shares = batches(0, 1), [batches(rank, world) for rank in range(world)]
    assert sorted(torch.cat([batch.indices for batch in whole]).tolist()) == list(range(n))
    for k, batch in enumerate(whole):
        mine = [share[k] for share in shares]
        together = torch.cat([each.indices for each in mine if each.weight])
        assert sorted(together.tolist()) == sorted(batch.indices.tolist())
        # the mean over processes of weight × mean over a share is the mean over the batch
        value = sum(each.weight * each.indices.double().mean().item() for each in mine) / world
        assert math.isclose(value, batch.indices.double().mean().item(), abs_tol=1e-9)


def test_epochs_are_shuffled_and_repeatable_and_validation_is_not():
    orders = [next(Batches(30, 30, 1).shares(epoch)).indices.tolist() for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]
    assert next(Batches(30, 30).shares(4)).indices.tolist() == list(range(30))


@given(n=st.integers(1, 500), size=st.integers(1, 3), epoch=st.integers(0, 2))
def test_batches_of_similar_length(n, size, epoch):
    sizes = torch.randperm(n, generator=torch.Generator().manual_seed(n))
    all_of_them = Batches(n, size, 7, sizes=sizes)
    batches = all_of_them.whole(epoch)
    assert sorted(torch.cat(batches).tolist()) == list(range(n))
    assert len(batches) == len(all_of_them)
    if n <= 100 * size:  # one pool: no batch reaches into another's lengths
        ranges = sorted((int(sizes[batch].min()), int(sizes[batch].max())) for batch in batches)
        assert all(high < low for (_, high), (low, _) in pairwise(ranges))
    assert sizes[torch.cat(Batches(n, size, sizes=sizes).whole(-1))].tolist() == list(range(n))


def test_an_empty_set_is_refused():
    with pytest.raises(ValueError, match="at least one sequence"):
        Batches(0, 4)


def test_seeds_of_neighbours_differ():
    assert len({mixed(a, b) for a in range(-1, 40) for b in range(-1, 40)}) == 41**2


def test_sequences_are_cut_to_the_longest_of_a_batch():
    lengths = torch.tensor([3, 5, 2])
    split = Sequences(torch.arange(30.0).view(3, 10, 1), torch.zeros(3), lengths)
    batch, last = (split.batch(share.indices, -1) for share in Batches(3, 2).shares(-1))
    assert batch.u.shape == (5, 2, 1)
    assert last.u.shape == (2, 1, 1)
    assert batch.lengths.tolist() == [3, 5]


def test_sequences_need_as_many_targets():
    with pytest.raises(ValueError, match=r"^target: "):
        Sequences(torch.zeros(3, 4, 1), torch.zeros(2))
