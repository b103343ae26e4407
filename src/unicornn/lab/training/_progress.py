"""Progress of a training: a bar on a terminal, elsewhere a line per epoch."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from unicornn.lab._text import duration
from unicornn.lab.training._processes import rank
from unicornn.lab.training._trainer import TaskTrainer


class TrainingProgress:
    """Shows the epoch, the loss, the validation metric and the remaining time; nothing without a console."""

    def __init__(self, console: Console | None, trainer: TaskTrainer) -> None:
        self.console = console if rank() == 0 else None
        self.trainer = trainer
        self.began = trainer.progress, trainer.seconds
        self.bar = Progress(BarColumn(20), TextColumn("{task.description}"), console=console, transient=True)
        self.task = self.bar.add_task("starting", total=1.0)

    def __enter__(self) -> TrainingProgress:
        if self.console is not None and self.console.is_terminal:
            self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.bar.live.is_started:
            self.bar.stop()
        if self.console is not None and kind is KeyboardInterrupt:
            self._print(f"stopped in epoch {self.trainer.epoch + 1}; the same command with --resume continues")

    def show_step(self, loss: float) -> None:
        if self.bar.live.is_started:
            texts = self._texts(self.trainer.epoch + 1, loss)
            self.bar.update(self.task, completed=self.trainer.progress, description=" ".join(texts))

    def show_epoch(self) -> None:
        if self.console is not None and not self.console.is_terminal:
            self._print(" · ".join(self._texts(self.trainer.epoch, self.trainer.history[-1]["train_loss"])))

    def _print(self, text: str) -> None:
        if self.console is not None:
            self.console.print(text, highlight=False, soft_wrap=True)

    def _texts(self, epoch: int, loss: float) -> list[str]:
        trainer, metric = self.trainer, self.trainer.task.metric
        texts = [f"epoch {epoch}/{trainer.config.training.epochs}", f"loss {loss:.4g}"]
        if trainer.history:
            last, best = metric.text(trainer.history[-1]["valid"]), metric.text(trainer.best_row["valid"])
            texts.append(f"validation {metric.name} {last} (best {best})")
        done, seconds = trainer.progress - self.began[0], trainer.seconds - self.began[1]
        if done > 0:
            texts.append(f"{duration(seconds * (1 - trainer.progress) / done)} left")
        return texts
