"""Recall and adding: what is asked for is in the sequence, nothing is seen twice, lengths grow in stages."""

import numpy as np
import pytest
import torch

from tests.lab.tasks import helpers
from unicornn.lab.tasks import adding, recall
from unicornn.lab.training import evaluate, resolve, train


def load(task, seed=0, **changes):
    return task.load(None, helpers.options(task, **changes), seed)


@pytest.mark.parametrize("N", [10, 37, 500])
def test_recall(N):
    u, target, lengths = helpers.everything(load(recall.TASK, N=N, sequences=300).train, 0)
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
    u, target, _ = helpers.everything(load(adding.TASK, N=N, sequences=400).train, 0)
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


@pytest.mark.parametrize("task", [recall.TASK, adding.TASK])
def test_fresh_in_training_and_fixed_afterwards(task):
    one, other = load(task, 0, N=50, sequences=20, held_out=20), load(task, 1, N=50, sequences=20, held_out=20)
    seen = [helpers.everything(split, draw).u for split in (one.train, other.train) for draw in (0, 1)]
    for splits in (one, other):
        assert [len(split) for split in splits[:3]] == [20, 20, 20]
    for split, same in ((one.valid, other.valid), (one.test, other.test)):
        assert torch.equal(helpers.everything(split).u, helpers.everything(same).u)
        assert torch.equal(helpers.everything(split).target, helpers.everything(same).target)
        seen.append(helpers.everything(split).u)
    flat = torch.cat(seen, 1).transpose(0, 1).flatten(1).numpy()
    assert len(np.unique(flat, axis=0)) == len(flat) == 120


@pytest.mark.parametrize("task", [recall.TASK, adding.TASK])
def test_a_sequence_depends_on_its_index_and_the_epoch_alone(task):
    train = load(task, N=30).train
    both = train.batch(torch.tensor([7, 3]), 4)
    assert torch.equal(train.batch(torch.tensor([3]), 4).u, both.u[:, 1:])
    assert torch.equal(train.batch(torch.tensor([3]), 4).target, both.target[1:])


@pytest.mark.parametrize("task", [recall.TASK, adding.TASK])
def test_targets_are_known_without_the_sequences(task):
    for split in load(task, N=333, sequences=50, held_out=50)[:3]:
        assert torch.equal(split.target, helpers.everything(split).target)
        assert split.target.dtype == helpers.everything(split).target.dtype


@pytest.mark.parametrize("stages", [(20, 40), [20.0, 40.0]])
def test_lengths_grow_in_stages(stages):
    splits = load(recall.TASK, N=100, stages=stages, stage_epochs=2)
    lengths = [len(splits.train.batch(torch.tensor([0]), epoch).u) for epoch in range(6)]
    assert lengths == [20, 20, 40, 40, 100, 100]
    assert len(splits.valid.batch(torch.tensor([0]), -1).u) == len(splits.test.batch(torch.tensor([0]), -1).u) == 100
    assert len(load(recall.TASK, N=100, stages=20).train.batch(torch.tensor([0]), 0).u) == 20


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"N": 9}, "N: expected an integer >= 10, got 9"),
        ({"N": 1.5}, "N: expected an integer >= 10, got float 1.5"),
        ({"sequences": 0}, "sequences: expected an integer >= 1"),
        ({"held_out": 0}, "held_out: expected an integer >= 1"),
        ({"stage_epochs": 0}, "stage_epochs: expected an integer >= 1"),
        ({"stages": (5,)}, "stages: expected an integer >= 10, got 5"),
        ({"stages": (20.5,)}, "stages: expected an integer >= 10, got float 20.5"),
        ({"stages": "soon"}, "stages: expected lengths such as 1000,10000, got 'soon'"),
        ({"stages": float("inf")}, "stages: expected lengths"),
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        load(recall.TASK, **changes)


def test_stages_by_the_command_line():
    settings = {"N": "60", "stages": "20,40", "sequences": "8"}
    config = resolve(recall.TASK, settings=settings)
    splits = recall.TASK.load(None, config.task_options, 0)
    assert [len(splits.train.batch(torch.tensor([0]), epoch).u) for epoch in range(3)] == [20, 40, 60]
    with pytest.raises(ValueError, match="stages: expected something like"):
        resolve(recall.TASK, settings={"stages": "soon"})


def test_a_run_with_stages_is_resumed(tmp_path):
    def config(epochs):
        settings = {"N": "60", "stages": "20,40", "sequences": "8", "held_out": "4", "epochs": epochs, "hidden_size": 4}
        return resolve(recall.TASK, settings=settings)

    assert train(config(2), tmp_path / "run").result["epochs"] == 2
    resumed = train(config(4), tmp_path / "run", resume=True)
    assert resumed.result["epochs"] == 4
    assert evaluate(resumed, "valid")[0] == resumed.result["valid"]
