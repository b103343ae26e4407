"""Networks of runs: built, loaded with their best weights, and evaluated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unicornn._checks import choice
from unicornn._training.seeds import derive_seed, seeded
from unicornn.errors import BadType, BadValue, UnicornnError
from unicornn.lab import tasks
from unicornn.lab._networks import build_network
from unicornn.lab._run_folder import Run
from unicornn.lab.data._files import Source
from unicornn.lab.errors import NotARun
from unicornn.lab.tasks._base import Splits, Task
from unicornn.lab.tasks._checked import SPLITS, load_checked
from unicornn.lab.training._config import Config
from unicornn.lab.training._metrics import batches_of, measure
from unicornn.models import Network


def task_of(run: Run | Config, task: Task | None = None) -> Task:
    """The task of a run: the given one, or one of the package by its name.

    Run folders are not trusted, so a Python file that one names is not executed.
    """
    name = run.config["task"] if isinstance(run, Run) else run.task
    if task is not None:
        if name != task.name and name in tasks.names():
            raise BadValue(f"task: expected the run's, {name!r}, got {task.name!r}")
        return task
    if name not in tasks.names():
        raise BadValue(
            f"task: expected a task of this package, but the run's is {name!r}, and a file that a run folder "
            "names is not executed. If you trust it, pass it: --task mine.py, or task= in Python"
        )
    return tasks.find(name)


def config_of(run: Run, task: Task | None = None) -> Config:
    """The config of a run; with ``task``, checks that it has the task's options."""
    path = run.path / "config.json"
    try:
        config = Config.from_dict(run.config)
        if task is not None:
            task.check(config.task_options)
    except (BadValue, BadType) as error:
        raise NotARun(f"run: expected what `unicornn train` writes in {path}, but {error}") from None
    return config


def initial_network(task: Task, config: Config, vectors: Tensor | None = None) -> Network:
    """The network of a run before training, drawn from the run's seed."""
    with seeded(derive_seed(config.seed, -1)):
        try:
            return build_network(
                task.kind, config.model, task.d, task.outputs, config.model_options,
                vectors=vectors, embedding_dropout=config.task_options.get("embedding_dropout", 0.0),
            )  # fmt: skip
        except UnicornnError:
            raise
        except (TypeError, ValueError, ArithmeticError, RuntimeError, MemoryError) as error:  # a baseline's or torch's
            raise BadValue(f"model: cannot build {config.model} with {dict(config.model_options)}: {error}") from None


def load_network(run: Run | str | Path, *, task: Task | None = None) -> Network:
    """Loads the network of a run with its best weights, in ``eval()`` mode.

    Args:
        run: Run, or its folder.
        task: Task that it was trained on; required if that is your own.

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
    network = initial_network(task_of(config, task), config, weights.get("embedding.weight"))
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise NotARun(f"run: the weights in {run.path} do not match its config.json: {error}") from None
    return network.eval()


def evaluate(
    run: Run | str | Path, split: str = "test", *, task: Task | None = None, source: Source | None = None
) -> tuple[float, dict[str, np.ndarray]]:
    """Evaluates the best weights of a run.

    Args:
        run: Run, or its folder.
        split: "train", "valid" or "test".
        task: Task that it was trained on; required if that is your own.
        source: Location of the data.

    Returns: the metric, and the arrays ``target`` and ``prediction`` (n,); none for forecasts.

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
    return evaluate_split(load_network(run, task=task), task, config, splits, split)


def evaluate_split(
    network: Network, task: Task, config: Config, splits: Splits, name: str
) -> tuple[float, dict[str, np.ndarray]]:
    """The metric on a split, and its targets and predictions in the order of the split."""
    batches = batches_of(getattr(splits, name), config.training.eval_batch_size)
    rows: dict[str, list[Tensor]] = {"target": [], "prediction": []}

    def collect(output: Tensor, target: Tensor) -> None:
        rows["target"].append(target.cpu())
        rows["prediction"].append((output.argmax(1) if task.kind == "classify" else output).cpu())

    _, metric = measure(network, task, splits, name, batches, collect)
    if task.kind == "forecast":
        return metric, {}
    order = torch.cat(batches.complete(-1)).argsort()
    return metric, {column: torch.cat(values)[order].numpy() for column, values in rows.items()}
