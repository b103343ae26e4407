"""Run folders, the output of a training.

config.json          settings: task, variant, model, seed, all hyperparameters, the command
environment.json     date, platform and versions
metrics.csv          one row per epoch: epoch, seconds, lr, train_loss, valid_loss, valid (the task's metric),
                     and the norm of w of each UnICORNN layer, w_norm_1, ...
best.safetensors     weights of the epoch with the best validation metric
result.json          the result: best_epoch, valid, test, seconds, epochs, stopped; missing during training
predictions.npz      target and prediction of the test set (classes or numbers); not for forecasts
last.ckpt            checkpoint to resume from: a digest, then what torch.save writes
lock                 the process that is training
tensorboard/         the columns of metrics.csv for TensorBoard
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.torch
from torch import Tensor

from unicornn._files import parse_json
from unicornn._load import is_fitted_model
from unicornn.errors import CorruptData
from unicornn.lab._metric import Metric
from unicornn.lab.data._formats import read_npz
from unicornn.lab.errors import NotARun


def read_json(path: Path, *required: str) -> dict[str, Any]:
    """Reads a JSON object. Raises ``NotARun`` if that is impossible or a required entry is missing."""
    if not path.is_file():
        raise NotARun(f"run: expected a folder made by `unicornn train`, but there is no {path}")
    try:
        values = parse_json(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise NotARun(f"run: cannot read {path}: {error}") from None
    if missing := [name for name in required if values.get(name) is None]:
        raise NotARun(f"run: expected {', '.join(required)} in {path}, found no {missing[0]}")
    return values


@dataclass(frozen=True)
class Run:
    """A run folder, for reading. Files are read when they are first used; a damaged one raises ``NotARun``.

    Example:
        >>> from unicornn.lab._run_folder import Run
        >>> Run("nowhere").finished
        False
    """

    folder: Path | str

    @property
    def path(self) -> Path:
        return Path(self.folder)

    @cached_property
    def config(self) -> dict[str, Any]:
        if is_fitted_model(self.path):
            advice = "`unicornn predict` scores it on a file with targets"
            raise NotARun(f"run: expected a folder made by `unicornn train`, got a fitted model, {self.path}; {advice}")
        return read_json(self.path / "config.json", "task", "model", "seed", "metric", "more_is_better")

    @cached_property
    def environment(self) -> dict[str, Any]:
        return read_json(self.path / "environment.json")

    @cached_property
    def result(self) -> dict[str, Any]:
        return read_json(self.path / "result.json", "valid", "seconds", "epochs")

    @property
    def metric(self) -> Metric:
        return Metric(self.config["metric"], self.config["more_is_better"])

    @property
    def finished(self) -> bool:
        return (self.path / "result.json").is_file()

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row per epoch; empty before the first epoch is complete."""
        path = self.path / "metrics.csv"
        if not path.is_file():
            return pd.DataFrame(columns=["epoch", "seconds", "lr", "train_loss", "valid_loss", "valid"])
        try:
            table = pd.read_csv(path)
        except (ValueError, OSError) as error:
            raise NotARun(f"run: cannot read {path}: {error}") from None
        if missing := {"epoch", "seconds", "valid"} - set(table.select_dtypes("number") if len(table) else table):
            raise NotARun(f"run: expected a column of numbers {missing.pop()!r} in {path}, found none")
        return table

    @cached_property
    def predictions(self) -> dict[str, np.ndarray] | None:
        """``target`` and ``prediction`` of the test set, (n,) or (n, k) each."""
        path = self.path / "predictions.npz"
        if not path.is_file():
            return None
        try:
            return read_npz(path, "target", "prediction")
        except CorruptData as error:
            raise NotARun(f"run: cannot read {error}") from None

    def weights(self) -> dict[str, Tensor]:
        """The best weights."""
        path = self.path / "best.safetensors"
        try:
            return safetensors.torch.load_file(path)
        except (OSError, safetensors.SafetensorError) as error:
            raise NotARun(f"run: cannot read the weights in {path}: {error}") from None

    def check(self) -> Run:
        """Reads all files except the weights, and returns the run; files that are not written yet are skipped."""
        for name in ("config", "environment", "metrics", "result", "predictions"):
            if name not in ("environment", "result") or (self.path / f"{name}.json").is_file():
                getattr(self, name)
        return self
