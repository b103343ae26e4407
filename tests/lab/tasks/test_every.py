"""Every task is trained for two steps, on small files in the true formats and on slices of the real ones."""

import dataclasses
import itertools
import math
from unittest import mock

import pytest
import torch

from tests.lab.tasks import helpers
from unicornn.lab import tasks
from unicornn.lab.tasks._rows import Rows
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
    assert {f"rnn.{p}.{last}" for p in "wVbc"} | {"readout.weight", "readout.bias"} <= moved
    assert math.isfinite(run.result["test"])
    assert run.config["metric"] == task.metric.name
    return run


@pytest.fixture
def small_data(request, source):
    """The source with small files of a task."""
    name = request.param
    if name == "psmnist":
        helpers.mnist(source.data)
    elif name == "cifar10-noise":
        helpers.cifar10(source.data / "cifar-10-batches-bin")
    elif name in ("eigenworms", "worms44"):
        return name, request.getfixturevalue({"eigenworms": "eigenworms_source", "worms44": "worms"}[name])[0]
    elif name == "bearings":
        return name, request.getfixturevalue("bearings")[0]
    elif name == "imdb":
        request.getfixturevalue("small_imdb")
    elif name.startswith("bidmc"):
        return name, request.getfixturevalue("small_bidmc")[0]
    return name, source


@pytest.mark.parametrize("small_data", tasks.names(), indirect=True)
def test_two_steps(small_data, tmp_path, monkeypatch):
    name, source = small_data
    if name == "lorenz96":
        monkeypatch.setattr("unicornn.lab.tasks.lorenz96.SEQUENCES", 16)
    small = {"recall": {"held_out": 20}, "adding": {"held_out": 20}, "bearings": {"window": 48}}
    two_steps(name, source, tmp_path / "run", **small.get(name, {}))


@pytest.mark.parametrize("name", [name for name in tasks.names() if tasks.find(name).files])
def test_two_steps_on_real_data(name, real, tmp_path, monkeypatch):
    """The first sequences only, for the sake of time; the whole is loaded by the tests of the task."""
    task = tasks.find(name)
    helpers.needs(real, *task.files)
    whole = task.load

    def slices(*arguments):
        splits = whole(*arguments)
        cut = [Rows(split, torch.arange(min(len(split), 24)).numpy()) for split in splits[:3]]
        return type(splits)(*cut, splits.embedding)

    monkeypatch.setattr(tasks._registry, "_built_in", lambda: {name: dataclasses.replace(task, load=slices)})
    two_steps(name, real, tmp_path / "run")
