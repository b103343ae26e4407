"""What happens beside the training: the run folder is kept up to date, and progress is shown."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import safetensors.torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from torch.utils.tensorboard import SummaryWriter

from unicornn._layer import UnICORNN
from unicornn.lab._run_folder import written_whole
from unicornn.lab._text import duration
from unicornn.lab.training._module import InTraining


def valid(row: dict[str, float]) -> float:
    """The metric on the validation set, after an epoch."""
    return row["valid"]


class Record(pl.Callback):
    """After each epoch: the best weights, metrics.csv, TensorBoard, and the checkpoint last of all.

    A run killed at any moment resumes from the last checkpoint, and what was written after it is written again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.board: SummaryWriter | None = None

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        budget = module.config.budget
        if budget and trainer.strategy.broadcast(module.seconds >= budget):
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: pl.Trainer, module: Any) -> None:
        row = self._row(module)  # on all processes: the figures are over all of them
        before = module.task.metric.best(module.history, value=valid)
        module.history.append(row)
        whole = not trainer.should_stop or module.trainer.fit_loop.epoch_loop.batch_progress.is_last_batch
        if trainer.is_global_zero:
            if module.task.metric.better(row["valid"], before["valid"] if before else None):
                with written_whole(self.folder / "best.safetensors") as file:
                    file.write(safetensors.torch.save(module.network.state_dict()))
            self._write(module.history)
            self._show(row)
        if whole:  # an epoch that a budget cut short is not resumed from
            trainer.save_checkpoint(self.folder / "last.ckpt")

    def _row(self, module: InTraining) -> dict[str, float]:
        row = {
            "epoch": module.current_epoch + 1,
            "seconds": round(module.seconds, 3),
            "lr": max(group["lr"] for group in module.trainer.optimizers[0].param_groups),
            "train_loss": module.train_loss.compute().item(),
            "valid_loss": module.valid_loss.compute().item(),
            "valid": module.figure.compute().item(),
        }
        rnn = module.network.rnn
        if isinstance(rnn, UnICORNN):  # fig:weights
            row |= {f"w_norm_{l}": w.detach().abs().max().item() for l, w in enumerate(rnn.w, 1)}
        return row

    def _write(self, history: list[dict[str, float]]) -> None:
        text = io.StringIO()
        table = csv.DictWriter(text, list(history[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(history)
        with written_whole(self.folder / "metrics.csv", "w") as file:
            file.write(text.getvalue())

    def _show(self, row: dict[str, float]) -> None:
        if self.board is None:
            self.board = SummaryWriter(self.folder / "tensorboard", purge_step=int(row["epoch"]))
        for name, value in row.items():
            if name != "epoch":
                self.board.add_scalar(name, value, int(row["epoch"]))
        self.board.flush()

    def teardown(self, trainer: pl.Trainer, module: Any, stage: str) -> None:
        if self.board is not None:
            self.board.close()


class ShownProgress(pl.Callback):
    """A bar with the epoch, the loss, the validation figure and the time left; without a terminal, a line per epoch."""

    def __init__(self, console: Console) -> None:
        self.console = console
        text = "[bold]{task.description}[/] {task.fields[loss]} {task.fields[valid]} {task.fields[left]}"
        self.bar = Progress(BarColumn(20), TextColumn(text), console=console, transient=True)
        self.task: TaskID | None = None
        self.resumed_at = 0.0

    def on_train_start(self, trainer: pl.Trainer, module: Any) -> None:
        self.resumed_at = module.share()
        self.task = self.bar.add_task("starting", total=1.0, loss="", valid="", left="")
        if self.console.is_terminal and trainer.is_global_zero:
            self.bar.start()

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.task is not None and self.console.is_terminal and trainer.is_global_zero:
            fields: dict[str, Any] = self._fields(module, outputs["loss"].item())
            self.bar.update(self.task, completed=module.share(), **fields)

    def on_train_epoch_end(self, trainer: pl.Trainer, module: Any) -> None:
        if not self.console.is_terminal and trainer.is_global_zero and module.history:
            row = module.history[-1]
            fields = self._fields(module, row["train_loss"])
            self.console.print(" · ".join(text for text in fields.values() if text), highlight=False, soft_wrap=True)

    def _fields(self, module: InTraining, loss: float) -> dict[str, str]:
        share, now = module.share(), module.seconds - module.before
        fields = {
            "description": f"epoch {module.current_epoch + 1}/{module.config.training.epochs}",
            "loss": f"loss {loss:.4g}",
            "valid": "",
            "left": f"{duration(now * (1 - share) / (share - self.resumed_at))} left"
            if share > self.resumed_at
            else "",
        }
        metric = module.task.metric
        top = metric.best(module.history, value=valid)
        if top is not None:
            last = module.history[-1]["valid"]
            fields["valid"] = f"validation {metric.name} {metric.text(last)} (best {metric.text(top['valid'])})"
        return fields

    def on_exception(self, trainer: pl.Trainer, module: Any, exception: BaseException) -> None:
        if isinstance(exception, KeyboardInterrupt) and trainer.is_global_zero:
            self.console.print(f"stopped in epoch {module.current_epoch + 1}; the same command with --resume goes on")

    def teardown(self, trainer: pl.Trainer, module: Any, stage: str) -> None:
        if self.bar.live.is_started:
            self.bar.stop()
