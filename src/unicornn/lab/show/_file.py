"""The page of a saved model on series from a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from unicornn import _checks as checks
from unicornn._fitted import is_estimator, network_of
from unicornn._load import load_model
from unicornn.errors import BadValue
from unicornn.lab.fit._data import Data
from unicornn.lab.show._page import Sample, show
from unicornn.lab.show._run import spread_over
from unicornn.lab.tasks import Task
from unicornn.models import Classifier


def show_file(
    model: Any,
    data: Data,
    path: str | Path,
    *,
    title: str = "A network of oscillators",
    samples: int = 6,
    task: Task | None = None,
) -> Path:
    """Writes the page of a saved model, with the first series of a file; of classes, one after another.

    Args:
        model: a folder that ``unicornn fit --model network`` or ``unicornn train`` made, or an estimator. An estimator
            sees the series standardised, as in ``fit``; a run's network sees them as they are in the file.
        data: what ``unicornn.lab.fit.read`` returned.
        path: of the page.
        title: its heading.
        samples: how many, at most.
        task: the run's, if it is one of your own.

    Returns: the path.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from unicornn.lab.fit import fit_file, read
        >>> from unicornn.lab.show import show_file
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "a.npz"
        ...     np.savez(file, X=np.random.default_rng(0).standard_normal((8, 30)), y=["a", "b"] * 4)
        ...     options = {"model": "network", "max_epochs": 1, "hidden_size": 8}
        ...     _ = fit_file(read(file, "y"), Path(folder) / "model", **options)
        ...     show_file(Path(folder) / "model", read(file, "y"), folder + "/page.html").name
        'page.html'
    """
    checks.integer("samples", samples, 1)
    model = model if is_estimator(model) else load_model(model, task=task)
    if is_estimator(model):
        network = network_of(model, "the page", gaps=True)
        names = getattr(model, "classes_", None)
        classes = None if names is None else [str(name) for name in names]
        if model.channel_names_ is not None:
            data.check_channels(model.channel_names_)
        series: Sequence[Any] = [model._scaling(x) for x in model._read_known(data.series)]
        note = "the signal is standardised as in fit"
        if model.missing != "error":
            note += ", with a channel for where each is missing and one for the time since it was seen"
    else:
        network, series, note = model, data.series, ""
        classes = [str(k) for k in range(model.readout.out_features)] if isinstance(model, Classifier) else None
    targets = _targets(data, classes)
    chosen = spread_over(targets, samples) if classes else range(min(samples, len(series)))
    found = [Sample(data.ids[i], torch.as_tensor(series[i]).float(), targets[i]) for i in chosen]
    return show(network, found, path, title=title, classes=classes, note=note)


def _targets(data: Data, classes: list[str] | None) -> list[float | None]:
    """The numbers of the classes, or the numbers to be predicted; None where the file does not say."""
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
