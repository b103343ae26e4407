"""A task that trains in a second: which of two numbers was larger, some steps ago. `unicornn train` takes its path."""

import contextlib
import functools
from unittest import mock

import torch
from safetensors.torch import load_file

from unicornn.lab import training
from unicornn.lab.tasks import Number, Sequences, Splits, Task, Training
from unicornn.lab.training._trainer import TaskTrainer


def load(source, options, seed):
    splits = []
    for split, n in enumerate((options["n"], 24, 40)):
        u = torch.rand(n, options["N"], 2, generator=torch.Generator().manual_seed(split))
        splits.append(Sequences(u, (u[:, 0, 0] > u[:, 0, 1]).long()))
    return Splits(*splits)


TASK = Task(
    name="small",
    title="Which was larger",
    kind="classify",
    load=load,
    d=2,
    outputs=2,
    size="little",
    models={"unicornn": {"hidden_size": 8, "num_layers": 2, "dt": 0.3, "dropout": 0.2}},
    training=Training(lr=1e-2, batch_size=8, epochs=3, drop_after=2),
    options={"n": Number(50), "N": Number(20), "mode": ("plain", "fancy")},
    variants={"wide": {"hidden_size": 16, "lr": 1e-3}, "others": {"nobody_knows": 1}},
)

BIAS = "linear.bias"  # a parameter of its network

train, evaluate, load_network = (
    functools.partial(function, task=TASK) for function in (training.train, training.evaluate, training.load_network)
)


def config(**changes):
    """The settings of a run of the small task."""
    options = {k: changes.pop(k) for k in ("seed", "budget", "model") if k in changes}
    return training.resolve(TASK, settings=changes, **options)


@contextlib.contextmanager
def after_each_step(action):
    """Calls ``action(trainer)`` after every step of training."""
    train_step = TaskTrainer.train_step

    def step_and_act(trainer, batch):
        loss = train_step(trainer, batch)
        action(trainer)
        return loss

    with mock.patch.object(TaskTrainer, "train_step", step_and_act):
        yield


def weights(folder):
    return load_file(folder / "best.safetensors")


def same(a, b):
    """Whether two dicts of tensors are equal bit for bit."""
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def files(folder):
    """All files of a folder and their contents."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
