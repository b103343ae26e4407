"""What is written after each epoch: the best weights, metrics.csv, TensorBoard, and the checkpoint last of all."""

from __future__ import annotations

import csv
import io
import threading
from pathlib import Path

import safetensors.torch
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from unicornn._files import atomic_write
from unicornn.lab.training import _checkpoint
from unicornn.lab.training._loop import Loop, Row
from unicornn.lab.training._processes import rank


class Record:
    """The files of a run while it trains; only the first process writes them.

    A run that is killed at any moment resumes from its last checkpoint. What was written after it is written again, the
    best weights too: the checkpoint has those that belong to its history.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.first = folder, rank() == 0
        self.board: SummaryWriter | None = None
        self.hook = threading.excepthook

    def epoch(self, loop: Loop) -> None:
        """An epoch has ended."""
        if self.first:
            if loop.top is loop.history[-1]:
                self.best(loop.best)
            self._table(loop.history)
            self._curves(loop.history[-1])

    def best(self, weights: dict[str, Tensor]) -> None:
        with atomic_write(self.folder / "best.safetensors") as file:
            file.write(safetensors.torch.save(weights))

    def checkpoint(self, loop: Loop) -> None:
        """To be called by all processes."""
        checkpoint = loop.checkpoint()
        if self.first:
            _checkpoint.write(self.folder / "last.ckpt", checkpoint)

    def _table(self, history: list[Row]) -> None:
        text = io.StringIO()
        table = csv.DictWriter(text, list(history[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(history)
        with atomic_write(self.folder / "metrics.csv", "w") as file:
            file.write(text.getvalue())

    def _curves(self, row: Row) -> None:
        if self.board is None:
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
    """The error of TensorBoard's thread is raised again by the thread that flushes; Python would print it too."""
    if not issubclass(error.exc_type, OSError):
        threading.__excepthook__(error)
