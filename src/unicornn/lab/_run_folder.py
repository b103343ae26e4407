"""Run folders, the output of a training.

config.json          settings: task, variant, model, seed, all hyperparameters, the command
environment.json     date, platform and versions
metrics.csv          one row per epoch: epoch, seconds, lr, train_loss, valid_loss, valid (the task's metric),
                     and the norm of w of each UnICORNN layer, w_norm_1, ...
best.safetensors     weights of the epoch with the best validation metric
result.json          the result: best_epoch, valid, test, seconds, epochs, stopped; missing during training
predictions.npz      target and prediction of the test set (classes or numbers); not for forecasts
last.ckpt            checkpoint to resume from: a digest, a line of JSON, tensors
lock                 the process that is training
tensorboard/         the columns of metrics.csv for TensorBoard
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import pandas as pd
import safetensors.torch
from torch import Tensor

from unicornn._files import parse_json
from unicornn._load import is_fitted_model
from unicornn.errors import CorruptData
from unicornn.lab._metric import Metric
from unicornn.lab.data._archives import ordinary
from unicornn.lab.data._formats import read_npz
from unicornn.lab.errors import NotARun

Types = tuple[type, ...]
NUMBER, TEXT = (int, float), (str,)
CONFIG: dict[str, Types] = {"task": TEXT, "model": TEXT, "seed": (int,), "metric": TEXT, "more_is_better": (bool,)}
CONFIG_OPTIONAL: dict[str, Types] = {
    "training": (dict,), "model_options": (dict,), "task_options": (dict,), "variant": (str, NoneType),
    "budget": (*NUMBER, NoneType), "command": TEXT, "parameters": (int,), "title": TEXT, "protocol": TEXT,
}  # fmt: skip
RESULT: dict[str, Types] = {"valid": NUMBER, "seconds": NUMBER, "epochs": (int,)}
RESULT_OPTIONAL: dict[str, Types] = {"test": NUMBER, "best_epoch": (int,), "stopped": TEXT, "weights_sha256": TEXT}
LARGEST = 1e100  # of the numbers in metrics.csv: in plots, differences of larger ones would overflow


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object. Raises ``NotARun`` for anything else."""
    if not path.is_file():
        raise NotARun(f"run: expected a folder made by `unicornn train`, but there is no {path}")
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise NotARun(f"run: cannot read {path}: {error}") from None


def check_types(
    path: Path, values: dict[str, Any], required: dict[str, Types], optional: dict[str, Types]
) -> dict[str, Any]:
    """Returns a file's entries; raises ``NotARun`` if one is missing or of another type. Ignores unknown ones."""
    for name, types in (required | optional).items():
        value = values.get(name)
        if name not in values and name in optional:
            continue
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            expected = " or ".join(each.__name__ for each in types)
            raise NotARun(f"run: {name!r} in {path} must be of type {expected}, got {str(value)[:60]!r}")
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
        path = self.path / "config.json"
        if is_fitted_model(self.path):
            advice = "`unicornn predict` scores it on a file with targets"
            raise NotARun(f"run: expected a folder made by `unicornn train`, got a fitted model, {self.path}; {advice}")
        return check_types(path, read_json(path), CONFIG, CONFIG_OPTIONAL)

    @cached_property
    def environment(self) -> dict[str, Any]:
        return read_json(self.path / "environment.json")

    @cached_property
    def result(self) -> dict[str, Any]:
        path = self.path / "result.json"
        return check_types(path, read_json(path), RESULT, RESULT_OPTIONAL)

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
        for column in dict.fromkeys(("epoch", "seconds", "valid", *table)):
            if column not in table or (len(table) and not pd.api.types.is_numeric_dtype(table[column])):
                raise NotARun(f"run: expected a column of numbers {column!r} in {path}, found none")
            if table[column].replace((-math.inf, math.inf), 0).abs().max() > LARGEST:
                raise NotARun(f"run: column {column!r} of {path} has numbers above {LARGEST:g}")
        return table

    @cached_property
    def predictions(self) -> dict[str, np.ndarray] | None:
        """``target`` and ``prediction`` of the test set, (n,) or (n, k) each."""
        path = self.path / "predictions.npz"
        if not path.is_file():
            return None
        try:
            target, prediction = read_npz(path, "target", "prediction").values()
        except CorruptData as error:
            raise NotARun(f"run: cannot read {error}") from None
        numbers = all(a.dtype.kind in "iuf" and a.ndim in (1, 2) for a in (target, prediction))
        if target.shape != prediction.shape or not numbers:
            raise NotARun(f"run: expected numbers in {path}, as many predictions as targets")
        return {"target": target, "prediction": prediction}

    def weights(self) -> dict[str, Tensor]:
        """The best weights."""
        path = self.path / "best.safetensors"
        try:
            return safetensors.torch.load_file(ordinary(path))
        except (OSError, CorruptData, safetensors.SafetensorError) as error:
            raise NotARun(f"run: cannot read the weights in {path}: {error}") from None

    def check(self) -> Run:
        """Reads all files except the weights, and returns the run; files that are not written yet are skipped."""
        for name in ("config", "environment", "metrics", "result", "predictions"):
            if name not in ("environment", "result") or (self.path / f"{name}.json").is_file():
                getattr(self, name)
        return self
