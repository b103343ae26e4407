"""The page of a run: its best weights, and samples of its task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from unicornn import _checks as checks
from unicornn._load import read_model_config
from unicornn.errors import BadValue
from unicornn.lab._run_folder import Run
from unicornn.lab.data import Source
from unicornn.lab.show._page import Sample, show
from unicornn.lab.tasks import Task
from unicornn.lab.tasks._checked import load_checked
from unicornn.lab.training._evaluate import config_of, load_network, task_of


def show_run(
    run: Run | str | Path,
    path: str | Path,
    *,
    split: str = "test",
    samples: int = 6,
    task: Task | None = None,
    source: Source | None = None,
) -> Path:
    """Writes the page of a run, with the first samples of one of its splits; of classes, one after another.

    Args:
        run: a run, or its folder.
        path: of the page.
        split: "train", "valid" or "test".
        samples: how many, at most.
        task: the run's, if it is one of your own.
        source: where the data is.

    Returns: the path.

    Example:
        >>> import tempfile
        >>> from unicornn.lab import tasks
        >>> from unicornn.lab.show import show_run
        >>> from unicornn.lab.training import resolve, train
        >>> config = resolve(tasks.find("digits"), settings={"epochs": 1, "hidden_size": 8})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = show_run(train(config, folder + "/run"), folder + "/page.html", samples=3)
        ...     page.name
        'page.html'
    """
    run = run if isinstance(run, Run) else Run(run)
    if read_model_config(run.path).get("format") == "unicornn.estimators":
        raise BadValue(f"file: expected series for the estimator in {run.path}, which keeps none itself, got none")
    checks.choice("split", split, ("train", "valid", "test"))
    checks.integer("samples", samples, 1)
    task = task_of(run, task)
    if task.kind == "forecast" or task.text:
        raise BadValue(f"run: expected a task of signals with one answer for each, got {task.name}")
    config, network = config_of(run, task), load_network(run, task=task)
    data = getattr(load_checked(task, source or Source(), config.task_options, config.seed, (split,)), split)
    batch = data.batch(torch.arange(min(len(data), 20 * samples)), -1)
    each = batch.u.shape[1] // len(batch.target)  # of several sequences to a target, the first
    ends = torch.full((batch.u.shape[1],), batch.u.shape[0]) if batch.lengths is None else batch.lengths
    chosen = spread_over(batch.target.tolist(), samples) if task.kind == "classify" else range(samples)
    found = [
        Sample(f"{split} {i}", batch.u[: int(ends[i * each]), i * each], batch.target[i].item())
        for i in chosen
        if i < len(batch.target)
    ]
    classes = [str(k) for k in range(task.outputs)] if task.kind == "classify" else None
    return show(network, found, path, title=task.title, classes=classes)


def spread_over(targets: Sequence[float | None], count: int) -> list[int]:
    """Samples of as many classes as there are: the first of each, then the second of each, and so on."""
    seen: dict[float | None, int] = {}
    turns = []
    for i, target in enumerate(targets):
        turns.append((seen.setdefault(target, 0), i))
        seen[target] += 1
    return [i for _, i in sorted(turns)[:count]]
