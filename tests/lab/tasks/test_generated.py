"""Recall and adding: targets match the sequences, no sequence is seen twice, lengths grow in stages."""

import numpy as np
import pytest
import torch

from tests.lab.tasks import helpers
from unicornn.lab import tasks
from unicornn.lab.training import resolve

RECALL, ADDING = tasks.find("recall"), tasks.find("adding")
both_tasks = pytest.mark.parametrize("task", [RECALL, ADDING], ids=lambda task: task.name)


def load(task, seed=0, **changes):
    return helpers.load(task, None, seed, **changes)


@pytest.mark.parametrize("N", [10, 37, 500])
def test_recall(N):
    u, target, lengths = helpers.everything(load(RECALL, N=N, sequences=300).train, 0)
    assert u.shape == (N, 300, 12)
    assert (lengths, target.dtype) == (None, torch.int64)
    assert set(target.tolist()) == set(range(10))
    symbols = torch.nn.functional.one_hot(target, 10).float()
    assert torch.equal(u[:10, :, :10], symbols.expand(10, -1, -1))
    assert not u[10:, :, :10].any()
    noise = u[:, :, 10:]
    assert noise.mean().abs() < 5 / noise.numel() ** 0.5
    assert noise.std() == pytest.approx(1, abs=5 / noise.numel() ** 0.5)


@pytest.mark.parametrize("N", [2, 3, 100])
def test_adding(N):
    u, target, _ = helpers.everything(load(ADDING, N=N, sequences=400).train, 0)
    assert u.shape == (N, 400, 2)
    numbers, marks = u.unbind(-1)
    assert marks.unique().tolist() == [0, 1][-len(marks.unique()) :]
    assert (marks[: N // 2].sum(0) == 1).all()
    assert (marks[N // 2 :].sum(0) == 1).all()
    torch.testing.assert_close((numbers * marks).sum(0), target)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert (target - 1).square().mean() == pytest.approx(1 / 6, abs=0.03)
    assert marks.sum(1).min() > 0, "anywhere in each half"


@both_tasks
def test_no_sequence_is_seen_twice(task):
    one, other = (load(task, seed, N=50, sequences=20, held_out=20) for seed in (0, 1))
    seen = [helpers.everything(split, draw).u for split in (one.train, other.train) for draw in (0, 1)]
    seen += [helpers.everything(split).u for split in (one.valid, one.test)]
    flat = torch.cat(seen, 1).transpose(0, 1).flatten(1).numpy()
    assert len(np.unique(flat, axis=0)) == len(flat) == 120
    for split in load(task, N=333, sequences=50, held_out=50)[:3]:  # targets are found without the sequences
        assert torch.equal(split.target, helpers.everything(split).target)
        assert split.target.dtype == helpers.everything(split).target.dtype


@pytest.mark.parametrize(
    "stages", [(20, 40), [20.0, 40.0], resolve(RECALL, settings={"short_steps": "20,40"}).task_options["short_steps"]]
)
def test_lengths_grow_in_stages(stages):
    splits = load(RECALL, N=100, short_steps=stages, short_epochs=(2, 2))
    lengths = [len(splits.train.batch(torch.tensor([0]), epoch).u) for epoch in range(6)]
    assert lengths == [20, 20, 40, 40, 100, 100]
    assert len(splits.valid.batch(torch.tensor([0]), -1).u) == len(splits.test.batch(torch.tensor([0]), -1).u) == 100
    assert len(load(RECALL, N=100, short_steps=20, short_epochs=1).train.batch(torch.tensor([0]), 0).u) == 20
