"""The training engine: batches, shares of processes, seeds."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unicornn._training.batches import POOL, Batches
from unicornn._training.seeds import derive_seed
from unicornn.errors import BadValue
from unicornn.lab.tasks import Sequences


@given(n=st.integers(1, 60), size=st.integers(1, 20), world=st.integers(1, 5), epoch=st.integers(0, 3))
def test_shares_make_up_the_batches_of_one_process(n, size, world, epoch):
    def batches(rank, world):
        return list(Batches(n, size, 7, rank, world).shares(epoch))

    complete, shares = batches(0, 1), [batches(rank, world) for rank in range(world)]
    assert sorted(torch.cat([batch.indices for batch in complete]).tolist()) == list(range(n))
    for k, batch in enumerate(complete):
        parts = [share[k] for share in shares]
        together = torch.cat([part.indices for part in parts if part.weight])
        assert sorted(together.tolist()) == sorted(batch.indices.tolist())
        # the mean over processes of weight × mean over a share is the mean over the batch
        value = sum(part.weight * part.indices.double().mean().item() for part in parts) / world
        assert math.isclose(value, batch.indices.double().mean().item(), abs_tol=1e-9)


def test_epochs_are_shuffled_and_repeatable_and_validation_is_not():
    orders = [next(Batches(30, 30, 1).shares(epoch)).indices.tolist() for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]
    assert next(Batches(30, 30).shares(4)).indices.tolist() == list(range(30))


@given(n=st.integers(1, 500), size=st.integers(1, 3), epoch=st.integers(0, 2))
def test_batches_of_similar_length(n, size, epoch):
    lengths = torch.randperm(n, generator=torch.Generator().manual_seed(n))
    shuffled = Batches(n, size, 7, lengths=lengths)
    batches = shuffled.complete(epoch)
    assert sorted(torch.cat(batches).tolist()) == list(range(n))
    assert len(batches) == len(shuffled)
    if n <= POOL * size:  # one pool: the ranges of lengths do not overlap
        ranges = sorted((int(lengths[batch].min()), int(lengths[batch].max())) for batch in batches)
        assert all(high < low for (_, high), (low, _) in pairwise(ranges))
    assert lengths[torch.cat(Batches(n, size, lengths=lengths).complete(-1))].tolist() == list(range(n))


def test_an_empty_set_is_refused():
    with pytest.raises(BadValue, match=r"^data: "):
        Batches(0, 4)


def test_seeds_of_neighbours_differ():
    assert len({derive_seed(a, b) for a in range(-1, 40) for b in range(-1, 40)}) == 41**2


def test_sequences_are_cut_to_the_longest_of_a_batch():
    split = Sequences(torch.arange(30.0).view(3, 10, 1), torch.zeros(3), torch.tensor([3, 5, 2]))
    batch, last = (split.batch(share.indices, -1) for share in Batches(3, 2).shares(-1))
    assert batch.u.shape == (5, 2, 1)
    assert last.u.shape == (2, 1, 1)
    assert batch.lengths.tolist() == [3, 5]


def test_sequences_need_as_many_targets():
    with pytest.raises(BadValue, match=r"^target: "):
        Sequences(torch.zeros(3, 4, 1), torch.zeros(2))
