"""Searches that take no time: a tiny task, or no training at all. And a task whose test set must not be read."""

import dataclasses
import math
import os
import subprocess
import sys
from types import SimpleNamespace

from tests.lab.training import helpers as small
from unicornn.lab import tasks
from unicornn.lab._study import outcome
from unicornn.lab.search import search


def run_search(folder, task=small.__file__, **options):
    options = {"trials": 3, "epochs": 1, "settings": {"n": 16}} | options
    return search(tasks.find(task), name=task, folder=folder, **options)


def start_process(folder, trials, *more, **options):
    """`unicornn search` in another process, with trials that take a while."""
    arguments = ["--trials", str(trials), "--epochs", "2", "--set", "n=200", "--set", "N=60", "--out", str(folder)]
    command = [sys.executable, "-m", "unicornn", "search", small.__file__, *arguments, *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"}, **options)


def imagined_training(config, folder, *, after_epoch, **_):
    """Replaces ``train``: the accuracy depends on lr alone, is best at 1e-3, and rises with the epochs."""
    merit = math.exp(-abs(math.log(config.training.lr / 1e-3)))
    for epoch in range(1, config.training.epochs + 1):
        after_epoch({"epoch": epoch, "valid": merit * epoch / config.training.epochs})
    return SimpleNamespace(result={"valid": merit})


def finished(study):
    """The trials that count."""
    return [trial for trial in study.trials if outcome(trial)]


def numbers(study):
    return [trial.number for trial in finished(study)]


def parameters_of(study):
    """The parameters of all trials, in a form that can be compared."""
    return [tuple(sorted(trial.params.items())) for trial in finished(study)]


class NeverRead:
    """A test set of which even the length must not be read."""

    def __len__(self):
        raise AssertionError("the test set was read")

    def batch(self, indices, draw):
        raise AssertionError("the test set was read")


def load(source, options, seed):
    return small.load(source, options, seed)._replace(test=NeverRead())


TASK = dataclasses.replace(
    small.TASK,
    name="never-read",
    load=load,
    models={"unicornn": {"hidden_size": 8, "num_layers": 2, "dt": (0.01, 0.3)}},
)
