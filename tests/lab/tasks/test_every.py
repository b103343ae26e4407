"""Every task is trained for two steps, on small files in the original formats and on slices of the real ones."""

import dataclasses
import itertools
import math
from unittest import mock

import pytest
import torch

from tests.lab.tasks import helpers
from unicornn.lab import tasks
from unicornn.lab.tasks._views import Rows
from unicornn.lab.training import load_network, train
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


@pytest.mark.parametrize("small_data", tasks.names(), indirect=True)
def test_two_steps(small_data, tmp_path, monkeypatch):
    name, source = small_data
    if name == "lorenz96":
        monkeypatch.setattr("unicornn.lab.tasks.lorenz96.SEQUENCES", 16)
    small = {"recall": {"held_out": 20}, "adding": {"held_out": 20}, "bearings": {"window": 48}}
    two_steps(name, source, tmp_path / "run", **small.get(name, {}))


@pytest.mark.parametrize("model", ["unicornn", "gru"])
@pytest.mark.parametrize("small_data", ["bearings", "bidmc-hr", "worms44"], indirect=True)
def test_two_steps_with_frames(small_data, model, tmp_path):
    name, source = small_data
    task = tasks.find(name)
    small = {"bearings": {"window": 48}, "worms44": {"crops": "none"}}
    settings = {"epochs": 1, "batch_size": 8, **small.get(name, {})}
    config = resolve(task, model=model, variant="frames", settings=settings)
    run = train(config, tmp_path / "run", source=source)
    assert math.isfinite(run.result["test"])
    assert load_network(run).frames[0].layers[0].hidden_size == config.model_options["frame_size"]


@pytest.mark.parametrize("name", [name for name in tasks.names() if tasks.find(name).files])
def test_two_steps_on_real_data(name, real, tmp_path, monkeypatch):
    """On the first sequences only; the test of each task loads all of them."""
    task = tasks.find(name)
    splits = helpers.load_real(task, real)
    few = [Rows(split, torch.arange(min(len(split), 24)).numpy()) for split in splits[:3]]
    sliced = dataclasses.replace(task, load=lambda *_: type(splits)(*few, splits.embedding))
    monkeypatch.setattr(tasks._registry, "_built_in", lambda: {name: sliced})
    two_steps(name, real, tmp_path / "run")
