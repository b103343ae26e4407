"""The files of a run that are written during training; the checkpoint is the last one after each epoch."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import safetensors.torch
from torch import Tensor

from unicornn._files import atomic_write
from unicornn._training.trainer import Row
from unicornn.lab.training import _checkpoint
from unicornn.lab.training._processes import rank
from unicornn.lab.training._trainer import TaskTrainer

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Record:
    """Writes the files of a run; only the first process does.

    A run that is killed at any moment resumes from its last checkpoint, and files written after it are written again.
    That includes the best weights: the checkpoint has those that belong to its history.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.first = folder, rank() == 0
        self.board: SummaryWriter | None = None
        self.hook = threading.excepthook

    def write_epoch(self, trainer: TaskTrainer) -> None:
        """Writes the results of the last epoch."""
        if self.first:
            if trainer.best_epoch == trainer.epoch:
                self.write_best(trainer.best_weights)
            with atomic_write(self.folder / "metrics.csv", "w") as file:
                pd.DataFrame(trainer.history).to_csv(file, index=False, lineterminator="\n")
            self._write_curves(trainer.history[-1])

    def write_best(self, weights: dict[str, Tensor]) -> None:
        with atomic_write(self.folder / "best.safetensors") as file:
            file.write(safetensors.torch.save(weights))

    def write_checkpoint(self, trainer: TaskTrainer) -> None:
        """Writes a checkpoint. All processes have to call this."""
        checkpoint = trainer.checkpoint()
        if self.first:
            _checkpoint.write(self.folder / "last.ckpt", checkpoint)

    def _write_curves(self, row: Row) -> None:
        if self.board is None:
            from torch.utils.tensorboard import SummaryWriter  # loading a run does not need TensorBoard

            self.hook, threading.excepthook = threading.excepthook, _without_disk_errors
            self.board = SummaryWriter(self.folder / "tensorboard", purge_step=int(row["epoch"]))
        for name, value in row.items():
            if name != "epoch":
                self.board.add_scalar(name, value, int(row["epoch"]))
        self.board.flush()

    def close(self) -> None:
        try:
            if self.board is not None:
                self.board.close()
        finally:
            threading.excepthook = self.hook


def _without_disk_errors(error: threading.ExceptHookArgs) -> None:
    """``flush`` raises the error of TensorBoard's thread again; Python would print it as well."""
    if not issubclass(error.exc_type, OSError):
        threading.__excepthook__(error)
