"""Every task is trained for two steps, on small files in the original formats and on slices of the real ones."""

import dataclasses
import itertools
import math
from unittest import mock

import pytest
import torch

from tests.lab.tasks import helpers
from unicornn.lab import tasks
from unicornn.lab.tasks._views import View
from unicornn.lab.training import train
from unicornn.lab.training._config import resolve
from unicornn.lab.training._trainer import TaskTrainer


def two_steps(name, source, folder, **settings):
    """An epoch of two steps, which change the weights."""
    task, steps = tasks.find(name), TaskTrainer.epoch_batches
    moved = set()

    def only_two(loop):
        first = {k: v.clone() for k, v in loop.network.state_dict().items()}
        yield from itertools.islice(steps(loop), 2)
        moved.update(k for k, v in loop.network.state_dict().items() if not torch.equal(v, first[k]))

    config = resolve(task, settings={"batch_size": 8, "eval_batch_size": 16, "epochs": 1, **settings})
    with mock.patch.object(TaskTrainer, "epoch_batches", only_two):
        run = train(config, folder, source=source)
    last = config.model_options.get("num_layers", 1) - 1  # the first one's steps are 3e-5 with worms: too few to matter
    assert {f"rnn.{p}.{last}" for p in "wVbc"} | {"linear.weight", "linear.bias"} <= moved
    assert math.isfinite(run.result["test"])
    assert run.config["metric"] == task.metric.name
    return run


FIXTURES = {
    "eigenworms": "eigenworms_source",
    "worms44": "worms44_source",
    "bearings": "bearings_source",
    "speech": "speech_source",
    "speech40": "speech_source",
    "imdb": "small_imdb",
    "bidmc-rr": "small_bidmc",
    "bidmc-hr": "small_bidmc",
}


@pytest.fixture
def small_data(request, source):
    """A task's name, and the source with its small files."""
    name = request.param
    if name == "psmnist":
        helpers.mnist(source.data)
    elif name == "cifar10-noise":
        helpers.cifar10(source.data / "cifar-10-batches-bin")
    elif name in FIXTURES:
        made = request.getfixturevalue(FIXTURES[name])
        return name, made[0] if isinstance(made, tuple) else made
    return name, source


# Options with which a task's training sequences change from epoch to epoch, and with which they don't.
RANDOM = {
    "cifar10-noise": {"flip": True}, "bearings": {"window": 20}, "bidmc-hr": {"stretch": 0.4, "shift": 500},
    "bidmc-rr": {"stretch": 0.3}, "eigenworms": {"crops": "several"}, "worms44": {"crops": "quarters"},
    "digits-noise": {}, "speech": {}, "speech40": {}, "recall": {"held_out": 20}, "adding": {"held_out": 20},
}  # fmt: skip
FIXED = {
    "cifar10-noise": {"noise": "shared"}, "bearings": {"window": 0}, "bidmc-hr": {}, "bidmc-rr": {}, "eigenworms": {},
    "worms44": {},
}  # fmt: skip


def same(one, other):
    return all(x is y is None or torch.equal(x, y) for x, y in zip(one, other, strict=True))  # equal shapes too


@pytest.mark.parametrize("small_data", tasks.names(), indirect=True)
def test_sequences_depend_on_their_index_the_epoch_and_the_seed_alone(small_data, monkeypatch):
    name, source = small_data
    monkeypatch.setattr("unicornn.lab.tasks.lorenz96.SEQUENCES", 16)
    task, pair, first = tasks.find(name), torch.tensor([1, 0]), torch.tensor([0])
    for options, random in ((RANDOM.get(name), True), (FIXED.get(name, None if name in RANDOM else {}), False)):
        if options is None:
            continue
        splits, again, other = (helpers.load(task, source, seed, **options) for seed in (0, 0, 1))
        for split, loaded_again, draws in zip(splits, again, ((0, 7, -1), (-1,), (-1,)), strict=False):
            for draw in draws:
                both, one = split.batch(pair, draw), loaded_again.batch(first, draw)
                pieces = one.u.shape[1]
                assert torch.equal(both.u[: len(one.u), pieces:], one.u)
                last = both.target[: len(one.u), 1:] if task.kind == "forecast" else both.target[1:]
                assert torch.equal(last, one.target)
                assert both.lengths is None or torch.equal(both.lengths[pieces:], one.lengths)
        epochs = [splits.train.batch(pair, draw) for draw in range(5)]
        assert all(same(epochs[0], epoch) for epoch in epochs[1:]) != random
        assert same(epochs[0], other.train.batch(pair, 0)) != (random and name != "digits-noise")
        for split, of_other_seed in zip(splits[1:3], other[1:3], strict=True):
            assert same(split.batch(pair, -1), of_other_seed.batch(pair, -1))
        assert not same(splits.train.batch(pair, -1), splits.test.batch(pair, -1))
    if "split_seed" in task.options:
        one, other = (helpers.everything(helpers.load(task, source, split_seed=seed).valid) for seed in (0, 1))
        assert not same(one, other)


@pytest.mark.parametrize("small_data", tasks.names(), indirect=True)
def test_two_steps(small_data, tmp_path, monkeypatch):
    name, source = small_data
    if name == "lorenz96":
        monkeypatch.setattr("unicornn.lab.tasks.lorenz96.SEQUENCES", 16)
    small = {"recall": {"held_out": 20}, "adding": {"held_out": 20}, "bearings": {"window": 48}}
    two_steps(name, source, tmp_path / "run", **small.get(name, {}))


SIZES = {
    "psmnist": [57_000, 3_000, 10_000], "cifar10-noise": [48_000, 2_000, 10_000], "imdb": [17_500, 7_500, 25_000],
    "bidmc-rr": [5509, 1181, 1181], "bidmc-hr": [5566, 1192, 1192], "eigenworms": [181, 39, 39],
    "worms44": [26, 9, 9], "bearings": [220, 110, 110], "speech": [1800, 600, 600], "speech40": [7200, 2400, 2400],
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_two_steps_on_real_data(name, real, tmp_path, monkeypatch):
    """On the first sequences only."""
    task = tasks.find(name)
    splits = helpers.load_real(task, real)
    assert helpers.sizes(splits) == SIZES[name]
    few = [View(split, torch.arange(min(len(split), 24)).numpy()) for split in splits[:3]]
    sliced = dataclasses.replace(task, load=lambda *_: type(splits)(*few, splits.embedding))
    monkeypatch.setattr(tasks._registry, "_built_in", lambda: {name: sliced})
    two_steps(name, real, tmp_path / "run")
