"""Runs and searches found in folders."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from unicornn import functional
from unicornn._layer import UnICORNN
from unicornn._load import is_fitted_model
from unicornn.errors import BadType, BadValue
from unicornn.lab._run_folder import Run
from unicornn.lab._study import DATABASE, read_study
from unicornn.lab.errors import NotARun

if TYPE_CHECKING:
    import optuna


def find_runs(paths: Sequence[str | Path]) -> list[Run]:
    """The runs in these folders at any depth, each once, identified by their config.json.

    The trials of a search are left out: see ``find_studies``.

    Raises ``NotARun`` for a folder without runs and searches, and for a run that cannot be read.

    Example:
        >>> from unicornn.lab.report import find_runs
        >>> find_runs(["nowhere"])
        Traceback (most recent call last):
        ...
        unicornn.lab.errors.NotARun: run: expected a run folder, or a folder that contains some, got nowhere
    """
    if isinstance(paths, (str, Path)):
        raise BadType(f"runs: expected a list of folders, got {type(paths).__name__} {str(paths)!r}")
    if not len(paths):
        raise BadValue("runs: expected at least one folder, got an empty list")
    runs: dict[Path, Run] = {}
    for path in map(Path, paths):
        folders = [path] if (path / "config.json").is_file() else _runs_below(path)
        if not folders and not _studies_below(path):
            raise NotARun(f"run: expected a run folder, or a folder that contains some, got {path}")
        for folder in folders:
            runs.setdefault(folder.resolve(), Run(folder))
    return [run.check() for run in runs.values()]


def find_studies(paths: Sequence[str | Path]) -> dict[Path, optuna.Study]:
    """The searches in these folders at any depth, by folder, identified by their study.db.

    Example:
        >>> from unicornn.lab.report import find_studies
        >>> find_studies(["nowhere"])
        {}
    """
    folders = {folder.resolve(): folder for path in map(Path, paths) for folder in _studies_below(path)}
    return {folder: read_study(folder) for folder in folders.values()}


def _studies_below(path: Path) -> list[Path]:
    return sorted(p.parent for p in path.rglob(DATABASE))


def _runs_below(path: Path) -> list[Path]:
    """Folders with a config.json, except the trials of a search and models made by `unicornn fit`."""
    folders = sorted(p.parent for p in path.rglob("config.json"))
    trials = {f for f in folders if f.parent.name == "trials" and (f.parent.parent / DATABASE).is_file()}
    return [f for f in folders if f not in trials and not is_fitted_model(f)]


def run_time_steps(run: Run) -> Tensor | None:
    """Effective time steps (L, m) of the best weights; None if there are no weights yet."""
    if not (run.path / "best.safetensors").is_file():
        return None
    weights, default = run.weights(), inspect.signature(UnICORNN).parameters["dt"].default
    layers = sorted(int(name[6:]) for name in weights if re.fullmatch(r"rnn\.c\.\d+", name))
    try:
        c = [weights[f"rnn.c.{l}"] for l in layers]
        return functional.time_steps(c, run.config.get("model_options", {}).get("dt", default)) if c else None
    except (ValueError, TypeError, RuntimeError, KeyError) as error:
        raise NotARun(f"run: cannot compute the time steps of {run.path}: {error}") from None
