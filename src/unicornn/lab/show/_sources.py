"""Pages of trained models: of a run with samples of its task, and of a saved model with series from a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from unicornn import _checks as checks
from unicornn._fitted import FittedNetwork, is_estimator
from unicornn._load import is_fitted_model, load_model
from unicornn.errors import BadValue
from unicornn.lab._run_folder import Run
from unicornn.lab.data import Source
from unicornn.lab.fit._data import Data
from unicornn.lab.show._bank import bank_data, write_bank_page
from unicornn.lab.show._page import Sample, write_page
from unicornn.lab.tasks import Task
from unicornn.lab.tasks._checked import load_checked
from unicornn.lab.training._evaluate import config_of, load_network, task_of
from unicornn.models import Classifier


def write_run_page(
    run: Run | str | Path,
    path: str | Path,
    *,
    split: str = "test",
    samples: int = 6,
    task: Task | None = None,
    source: Source | None = None,
) -> Path:
    """Writes the page of a run, with samples of one of its splits; if there are classes, of as many as possible.

    Args:
        run: Run, or its folder.
        path: HTML file to write.
        split: "train", "valid" or "test".
        samples: Largest number of samples.
        task: The run's task, if it is not one of the package.
        source: Location of the data.

    Returns: the path.

    Example:
        >>> import tempfile
        >>> from unicornn.lab import tasks
        >>> from unicornn.lab.show import write_run_page
        >>> from unicornn.lab.training import resolve, train
        >>> config = resolve(tasks.find("digits"), settings={"epochs": 1, "hidden_size": 8})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = write_run_page(train(config, folder + "/run"), folder + "/page.html", samples=3)
        ...     page.name
        'page.html'
    """
    run = run if isinstance(run, Run) else Run(run)
    if is_fitted_model(run.path):
        raise BadValue(f"file: expected a file of series for the estimator in {run.path}, got none")
    checks.choice("split", split, ("train", "valid", "test"))
    checks.integer("samples", samples, 1)
    task = task_of(run, task)
    if task.kind == "forecast" or task.text:
        raise BadValue(f"run: expected a task of signals with one answer for each, got {task.name}")
    config, network = config_of(run, task), load_network(run, task=task)
    data = getattr(load_checked(task, source or Source(), config.task_options, config.seed, (split,)), split)
    batch = data.batch(torch.arange(min(len(data), 20 * samples)), -1)
    each = batch.u.shape[1] // len(batch.target)  # several sequences may share a target; the first is shown
    ends = torch.full((batch.u.shape[1],), batch.u.shape[0]) if batch.lengths is None else batch.lengths
    classify, targets = task.kind == "classify", batch.target.tolist()
    shown = [
        Sample(f"{split} {i}", batch.u[: int(ends[i * each]), i * each], batch.target[i].item())
        for i in _chosen(targets, samples, classify)
    ]
    classes = [str(k) for k in range(task.outputs)] if classify else None
    return write_page(network, shown, path, title=task.title, classes=classes)


def write_file_page(
    model: Any,
    data: Data,
    path: str | Path,
    *,
    title: str = "A network of oscillators",
    samples: int = 6,
    task: Task | None = None,
) -> Path:
    """Writes the page of a saved model, with series from a file; if there are classes, of as many as possible.

    Args:
        model: Folder written by ``unicornn fit`` or ``unicornn train``, or an estimator, with a bank only a
            classifier. An estimator standardises the series as in ``fit``; the network of a run receives them as they
            are in the file.
        data: Series read by ``unicornn.lab.fit.read``.
        path: HTML file to write.
        title: Heading of the page.
        samples: Largest number of series.
        task: The run's task, if it is not one of the package.

    Returns: the path.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from unicornn.lab.fit import fit_file, read
        >>> from unicornn.lab.show import write_file_page
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "a.npz"
        ...     np.savez(file, X=np.random.default_rng(0).standard_normal((8, 30)), y=["a", "b"] * 4)
        ...     options = {"model": "network", "frames": 0, "max_epochs": 1, "hidden_size": 8}
        ...     _ = fit_file(read(file, "y"), Path(folder) / "model", **options)
        ...     write_file_page(Path(folder) / "model", read(file, "y"), folder + "/page.html").name
        'page.html'
    """
    checks.integer("samples", samples, 1)
    model = model if is_estimator(model) else load_model(model, task=task)
    network, series, note = model, data.series, ""
    classes = None
    if is_estimator(model) and "bank" in model.models_:
        return _write_bank_page(model, data, path, title, samples)
    if is_estimator(model):
        network = FittedNetwork.from_estimator(model, "the page", gaps=True)
        classes = network.names.get("classes")
        if model.channel_names_ is not None:
            data.check_channels(model.channel_names_)
        series = [model._scaling(x) for x in model._read_known(data.series).series]
        note = "the signal is standardised as in fit"
        if model.missing != "error":
            note += ", with a channel for where each is missing and one for the time since its last value"
    elif isinstance(model, Classifier):
        classes = [str(k) for k in range(model.linear.out_features)]
    targets = _targets(data, classes)
    shown = [
        Sample(data.ids[i], torch.as_tensor(series[i]).float(), targets[i])
        for i in _chosen(targets, samples, classes is not None)
    ]
    return write_page(network, shown, path, title=title, classes=classes, note=note)


def _write_bank_page(model: Any, data: Data, path: str | Path, title: str, samples: int) -> Path:
    classes = bank_data(model)["classes"]
    if model.channel_names_ is not None:
        data.check_channels(model.channel_names_)
    targets = _targets(data, classes)
    i = _chosen(targets, samples, classify=True)
    return write_bank_page(
        model, [data.series[k] for k in i], [data.ids[k] for k in i], [targets[k] for k in i], Path(path), title
    )


def _targets(data: Data, classes: list[str] | None) -> list[float | None]:
    """The indices of the classes, or the numbers to be predicted; None if the file has no target."""
    if data.target is None:
        return [None] * len(data.series)
    if classes is not None:
        unknown = sorted({str(t) for t in data.target} - set(classes))
        if unknown:
            raise BadValue(f"target: expected the model's classes, {', '.join(classes[:8])}, got {unknown[0]!r:.60}")
        return [classes.index(str(t)) for t in data.target]
    if data.target.dtype.kind not in "fiub":
        raise BadValue(f"target: expected numbers, as the model predicts, got {str(data.target[0])!r:.60}")
    return [float(t) for t in data.target]


def _chosen(targets: Sequence[float | None], count: int, classify: bool) -> list[int]:
    """Indices of the first samples; with classes, the first of each class, then the second of each, and so on."""
    seen: dict[float | None, int] = {}
    turns = []
    for i, target in enumerate(targets):
        turns.append((seen.get(target, 0) if classify else 0, i))
        seen[target] = seen.get(target, 0) + 1
    return [i for _, i in sorted(turns)[:count]]
