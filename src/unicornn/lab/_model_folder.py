"""What is in a folder: a run, as ``unicornn train`` makes, or an estimator, as ``unicornn fit`` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unicornn.lab._run_folder import read_json
from unicornn.lab.errors import NotARun
from unicornn.lab.tasks import Task


def is_estimator_folder(folder: str | Path) -> bool:
    """Whether an estimator was saved there. A folder with neither is an error."""
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise NotARun(f"model: expected a folder made by `unicornn train` or `unicornn fit`, but there is no {path}")
    return read_json(path).get("format") == "unicornn.estimators"


def model_in(folder: str | Path, *, task: Task | None = None) -> Any:
    """The estimator in a folder, or the network of the run in it; with the run's task, if that is one of your own."""
    if is_estimator_folder(folder):
        from unicornn.estimators import load

        return load(Path(folder))
    from unicornn.lab.training import load_network

    return load_network(folder, task=task)
