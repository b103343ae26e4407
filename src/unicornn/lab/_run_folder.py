"""Run folders: what a training leaves behind.

config.json          what was asked for: task, variant, model, seed, all settings, the command
environment.json     when, where, with which versions
metrics.csv          one row per epoch: epoch, seconds, lr, train_loss, valid_loss, valid (the task's metric),
                     and the norm of w of each UnICORNN layer, w_norm_1, ...
best.safetensors     the weights of the epoch with the best validation figure
result.json          the end: best_epoch, valid, test, seconds, epochs, parameters; not there while it trains
predictions.npz      the test set's target and prediction (classes or numbers), not for forecasts
last.ckpt            what is needed to resume
tensorboard/         the same curves for TensorBoard
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from unicornn.errors import NotARun
from unicornn.lab._metric import Metric


@contextlib.contextmanager
def written_whole(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Opens a file that takes its name only when it is complete and on the disk: a crash leaves the old one.

    A device or a FIFO, such as /dev/stdout, is written to, and not replaced.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        with path.open(mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open(mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """To be read by people too: a line for every entry, but one for a list of numbers."""
    lines = re.sub(r"\[\n[\s\d.,eE+-]+\]", lambda numbers: " ".join(numbers[0].split()), json.dumps(value, indent=1))
    with written_whole(path, "w") as file:
        file.write(lines + "\n")


def read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotARun(f"run: expected a folder made by `unicornn train`, but there is no {path}") from None
    except (ValueError, OSError) as error:
        raise NotARun(f"run: cannot read {path}: {error}") from None
    if not isinstance(value, dict):
        raise NotARun(f"run: expected settings by name in {path}, got {type(value).__name__}")
    return value


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
        return read_json(self.path / "config.json")

    @cached_property
    def environment(self) -> dict[str, Any]:
        return read_json(self.path / "environment.json")

    @cached_property
    def result(self) -> dict[str, Any]:
        return read_json(self.path / "result.json")

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
            return pd.read_csv(path)
        except ValueError as error:
            raise NotARun(f"run: cannot read {path}: {error}") from None

    @cached_property
    def predictions(self) -> dict[str, np.ndarray] | None:
        """The test set's ``target`` and ``prediction``, (n,) each."""
        path = self.path / "predictions.npz"
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in ("target", "prediction")}
        except (OSError, ValueError, KeyError) as error:
            raise NotARun(f"run: cannot read {path}: {error}") from None
