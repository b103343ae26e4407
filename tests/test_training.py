"""The training engine: batches, averaged weights, best epochs, early stopping."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unicornn._training.batches import POOL, Batches
from unicornn._training.seeds import derive_seed
from unicornn._training.trainer import BatchLoss, Trainer, averaged_model
from unicornn.errors import BadValue, Diverged
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


def test_averages_start_with_a_small_decay_and_copy_integers():
    network = torch.nn.BatchNorm1d(2)
    average, expected = averaged_model(network, 0.9), network.weight.detach().clone()
    for step in range(200):
        network.weight.data.normal_()
        network.num_batches_tracked += 1
        average.update_parameters(network)
        keep = min(0.9, (1 + step) / (10 + step))
        expected = keep * expected + (1 - keep) * network.weight.detach()
    torch.testing.assert_close(average.module.weight.detach(), expected)
    assert average.module.num_batches_tracked == 200


class Scripted(Trainer):
    """Has these validation losses, whatever is learned."""

    def __init__(self, losses, **options):
        network = torch.nn.Linear(1, 1)
        super().__init__(network, torch.optim.SGD(network.parameters(), lr=0.1), **options)
        self.losses, self.factor = losses, 1.0

    def epoch_batches(self):
        return range(3)

    def batch_loss(self, batch):
        return BatchLoss(self.factor * self.network(torch.ones(2, 1)).square().mean(), 2)

    def validate(self):
        return {"train_loss": self.loss_sum / self.sequences, "valid_loss": self.losses[self.epoch]}

    def cost(self, row):
        return row["valid_loss"]


def test_the_first_best_epoch_is_kept_and_patience_ends_training():
    trainer, seen = Scripted([3.0, 1.0, 2.0, 1.0, 9.0], patience=2), []
    trainer.run(5, after_epoch=lambda row: seen.append(trainer.network.weight.item()))
    assert (trainer.epoch, trainer.best_epoch, trainer.stopped, trainer.step) == (4, 2, "patience", 12)
    assert trainer.best_weights["weight"].item() == seen[1] != seen[-1]


def test_a_callback_stops_within_an_epoch():
    trainer = Scripted([1.0, 1.0])

    def after_step(loss):
        trainer.stopped = "enough" if trainer.step == 2 else ""

    trainer.run(2, after_step)
    assert (trainer.epoch, trainer.step) == (1, 2)


@pytest.mark.parametrize(("factor", "losses", "name"), [(math.nan, [1.0], "loss"), (1.0, [math.inf], "valid_loss")])
def test_divergence_is_an_error_before_the_weights_change(factor, losses, name):
    trainer = Scripted(losses)
    trainer.factor = factor
    with pytest.raises(Diverged, match=rf"^{name}: .*in epoch 1\. Try"):
        trainer.run(1)
    assert all(p.isfinite().all() for p in trainer.network.parameters())
    assert trainer.history == []
