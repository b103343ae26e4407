"""Trained networks: loaded from their run folders, and judged."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unicornn import models
from unicornn._checks import choice
from unicornn.errors import BadType, BadValue, NotARun, UnicornnError
from unicornn.lab import tasks
from unicornn.lab._run_folder import Run
from unicornn.lab.data._files import Source
from unicornn.lab.tasks._base import Splits, Task
from unicornn.lab.tasks._checked import SPLITS, load_checked
from unicornn.lab.training._batches import batches_of
from unicornn.lab.training._config import Config, defaults
from unicornn.lab.training._objective import Tally, outputs
from unicornn.lab.training._surroundings import seeded
from unicornn.models import Network

SURELY_FITS = 1000  # neurons


def task_of(run: Run | Config, task: Task | None = None) -> Task:
    """The task of a run: the one that is given, or one of the package by its name.

    A run folder may come from anywhere, so that a Python file which it names is not executed.
    """
    name = run.config["task"] if isinstance(run, Run) else run.task
    if task is not None:
        if name != task.name and name in tasks.names():
            raise BadValue(f"task: expected the run's, {name!r}, got {task.name!r}")
        return task
    if name not in tasks.names():
        raise BadValue(
            f"task: expected a task of this package, but the run's is {name!r}, and a file that a run folder "
            "names is not executed. If you trust it, give it yourself: --task mine.py, or task= in Python"
        )
    return tasks.find(name)


def config_of(run: Run, task: Task | None = None) -> Config:
    """Of a run; with its task, an option that the task did not have at the time is as by default."""
    try:
        config = Config.from_dict(run.config)
    except (BadValue, BadType) as error:
        raise NotARun(
            f"run: expected what `unicornn train` writes in {run.path / 'config.json'}, but {error}"
        ) from None
    before = {} if task is None else defaults(task)
    return dataclasses.replace(config, task_options=before | dict(config.task_options))


def build(task: Task, config: Config, vectors: Tensor | None = None, copies: int = 1) -> Network:
    """The network of a run as it is before training: drawn from the run's seed.

    So large a network that the memory of this machine cannot hold so many copies of its weights is refused.
    """

    def network() -> Network:
        return models.build(
            task.kind, config.model, task.d, task.outputs, config.model_options,
            vectors=vectors, embedding_dropout=config.task_options.get("embedding_dropout", 0.0),
        )  # fmt: skip

    with seeded(config.seed, -1):
        try:
            if config.model_options.get("hidden_size", 0) > SURELY_FITS:
                with torch.device("meta"):  # nothing is allocated
                    size = copies * sum(p.numel() * p.element_size() for p in network().parameters())
                if size > (memory := os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")):
                    raise BadValue(
                        f"hidden_size: expected a network that fits into this machine's {memory / 2**30:,.0f} GiB, got "
                        f"{config.model_options['hidden_size']}, which takes {size / 2**30:,.0f} GiB"
                    )
            return network()
        except UnicornnError:
            raise
        except (
            TypeError,
            ValueError,
            ArithmeticError,
            RuntimeError,
            MemoryError,
        ) as error:  # some baseline's, or torch's
            raise BadValue(f"model: cannot build {config.model} with {dict(config.model_options)}: {error}") from None


def load_network(run: Run | str | Path, *, task: Task | None = None) -> Network:
    """The network of a run with its best weights, in ``eval()``.

    Args:
        run: a run, or its folder.
        task: what it was trained on, if that is a task of your own.

    Example:
        >>> import tempfile, torch
        >>> from unicornn.lab import tasks
        >>> from unicornn.lab.training import load_network, resolve, train
        >>> config = resolve(tasks.find("digits"), settings={"epochs": 1, "hidden_size": 8})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     network = load_network(train(config, folder + "/run"))
        >>> network(torch.rand(64, 5, 1)).shape
        torch.Size([5, 10])
    """
    run = run if isinstance(run, Run) else Run(run)
    config, weights = config_of(run), run.weights()
    network = build(task_of(config, task), config, weights.get("embedding.weight"))
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise NotARun(f"run: the weights in {run.path} are not those of its config.json: {error}") from None
    return network.eval()


def evaluate(
    run: Run | str | Path, split: str = "test", *, task: Task | None = None, source: Source | None = None
) -> tuple[float, dict[str, np.ndarray]]:
    """The metric of a run's best weights on "train", "valid" or "test", and targets and predictions, (n,) each.

    Forecasts have no predictions. ``task`` is needed if the run's is one of your own.

    Example:
        >>> import tempfile
        >>> from unicornn.lab import tasks
        >>> from unicornn.lab.training import evaluate, resolve, train
        >>> config = resolve(tasks.find("digits"), settings={"epochs": 1, "hidden_size": 8})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     accuracy, arrays = evaluate(train(config, folder + "/run"), "valid")
        >>> arrays["prediction"].shape
        (360,)
    """
    run = run if isinstance(run, Run) else Run(run)
    task = task_of(run, task)
    config = config_of(run, task)
    splits = load_checked(task, source or Source(), config.task_options, config.seed, [choice("split", split, SPLITS)])
    return judge(load_network(run, task=task), task, config, splits, split)


def judge(
    network: Network, task: Task, config: Config, splits: Splits, name: str
) -> tuple[float, dict[str, np.ndarray]]:
    """The metric on the split of this name, and targets and predictions in its order."""
    device = next(network.parameters()).device
    tally, batches = Tally(task.kind), batches_of(getattr(splits, name), config.training.eval_batch_size)
    targets, predictions = [], []
    for batch, _, output in outputs(network, task.kind, splits, name, batches, device):
        tally.add(output, batch)
        if task.kind != "forecast":
            targets.append(batch.target.cpu())
            predictions.append((output.argmax(1) if task.kind == "classify" else output).cpu())
    arrays = {}
    if targets:
        back = torch.cat(batches.whole(-1)).argsort()
        arrays = {"target": torch.cat(targets)[back].numpy(), "prediction": torch.cat(predictions)[back].numpy()}
    return tally.over_all(device)[1], arrays
