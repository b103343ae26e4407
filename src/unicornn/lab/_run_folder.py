"""Run folders: what a training leaves behind.

config.json          what was asked for: task, variant, model, seed, all settings, the command
environment.json     when, where, with which versions
metrics.csv          one row per epoch: epoch, seconds, lr, train_loss, valid_loss, valid (the task's metric),
                     and the norm of w of each UnICORNN layer, w_norm_1, ...
best.safetensors     the weights of the epoch with the best validation metric
result.json          the end: best_epoch, valid, test, seconds, epochs, parameters; not there while it trains
predictions.npz      the test set's target and prediction (classes or numbers), not for forecasts
last.ckpt            what is needed to resume: a digest, a line of JSON, tensors
lock                 the process that trains, while it does
tensorboard/         the same curves for TensorBoard
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
from unicornn.errors import CorruptData, NotARun
from unicornn.lab._metric import Metric
from unicornn.lab.data._archives import ordinary
from unicornn.lab.data._formats import read_npz


def read_json(path: Path) -> dict[str, Any]:
    """Entries by name, as ``write_json`` writes them. Raises ``NotARun`` for anything else."""
    if not path.is_file():
        raise NotARun(f"run: expected a folder made by `unicornn train`, but there is no {path}")
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise NotARun(f"run: cannot read {path}: {error}") from None


Kinds = tuple[type, ...]
NUMBER, TEXT, NAMED = (int, float), (str,), (dict,)
CONFIG: dict[str, Kinds] = {"task": TEXT, "model": TEXT, "seed": (int,), "metric": TEXT, "more_is_better": (bool,)}
CONFIG_MAY: dict[str, Kinds] = {
    "training": NAMED, "model_options": NAMED, "task_options": NAMED, "variant": (str, NoneType),
    "budget": (*NUMBER, NoneType), "command": TEXT, "parameters": (int,), "title": TEXT, "protocol": TEXT,
}  # fmt: skip
RESULT: dict[str, Kinds] = {"valid": NUMBER, "seconds": NUMBER, "epochs": (int,)}
RESULT_MAY: dict[str, Kinds] = {"test": NUMBER, "best_epoch": (int,), "stopped": TEXT, "weights_sha256": TEXT}


LARGEST = 1e100  # of what is plotted: differences of larger numbers overflow


def typed(path: Path, values: dict[str, Any], must: dict[str, Kinds], may: dict[str, Kinds]) -> dict[str, Any]:
    """The entries of a file, if those that it must have are there and all are of their kinds; unknown ones may be."""
    for name, kinds in (must | may).items():
        value = values.get(name)
        if name not in values and name in may:
            continue
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise NotARun(
                f"run: expected a folder made by `unicornn train`, but {path} has {name!r} = {str(value)[:60]!r}, "
                f"not {expected}"
            )
    return values


@dataclass(frozen=True)
class Run:
    """A run folder, to be read.

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
        return typed(path, read_json(path), CONFIG, CONFIG_MAY)

    @cached_property
    def environment(self) -> dict[str, Any]:
        return read_json(self.path / "environment.json")

    @cached_property
    def result(self) -> dict[str, Any]:
        path = self.path / "result.json"
        return typed(path, read_json(path), RESULT, RESULT_MAY)

    @property
    def metric(self) -> Metric:
        return Metric(self.config["metric"], self.config["more_is_better"])

    @property
    def finished(self) -> bool:
        return (self.path / "result.json").is_file()

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row per epoch; empty if there is none yet."""
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
                raise NotARun(f"run: expected numbers up to {LARGEST:g} in the column {column!r} of {path}, got others")
        return table

    @cached_property
    def predictions(self) -> dict[str, np.ndarray] | None:
        """The test set's ``target`` and ``prediction``, (n,) each, or (n, k) if there are several numbers to each."""
        path = self.path / "predictions.npz"
        if not path.is_file():
            return None
        try:
            target, prediction = read_npz(path, "target", "prediction").values()
        except CorruptData as error:
            raise NotARun(f"run: cannot read {error}") from None
        numbers = all(a.dtype.kind in "iuf" and a.ndim in (1, 2) for a in (target, prediction))
        if target.shape != prediction.shape or not numbers:
            raise NotARun(f"run: expected as many predictions as targets in {path}, all of them numbers")
        return {"target": target, "prediction": prediction}

    def weights(self) -> dict[str, Tensor]:
        """The best ones."""
        path = self.path / "best.safetensors"
        try:
            return safetensors.torch.load_file(ordinary(path))
        except (OSError, CorruptData, safetensors.SafetensorError) as error:
            raise NotARun(f"run: cannot read the weights in {path}: {error}") from None

    def check(self) -> Run:
        """The run, if all its files but the weights can be read; those that are not there yet are left out."""
        for name in ("config", "environment", "metrics", "result", "predictions"):
            if name not in ("environment", "result") or (self.path / f"{name}.json").is_file():
                getattr(self, name)
        return self
