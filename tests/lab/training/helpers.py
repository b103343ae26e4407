"""A task that takes a second: which of two numbers was larger, some steps ago. `unicornn train` takes it by path."""

import contextlib
from unittest import mock

import torch

from unicornn.lab.tasks import Sequences, Splits, Task, Training
from unicornn.lab.training._trainer import TaskTrainer


@contextlib.contextmanager
def after_each_step(action):
    """Calls ``action(loop)`` after every step of training."""
    step = TaskTrainer.train_step

    def and_then(loop, *arguments):
        loss = step(loop, *arguments)
        action(loop)
        return loss

    with mock.patch.object(TaskTrainer, "train_step", and_then):
        yield


def load(source, options, seed):
    splits = []
    for split, n in enumerate((options["n"], 24, 40)):
        u = torch.rand(n, options["N"], 2, generator=torch.Generator().manual_seed(split))
        splits.append(Sequences(u, (u[:, 0, 0] > u[:, 0, 1]).long()))
    return Splits.of(splits)


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
    options={"n": (50,), "N": (20,), "mode": ("plain", "fancy")},
    variants={"wide": {"hidden_size": 16, "lr": 1e-3}, "others": {"nobody_knows": 1}},
)


def files(folder):
    """All files of a folder, and what is in them."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
