"""Progress of a training: a bar on a terminal, elsewhere a line per epoch."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from unicornn.lab._text import duration
from unicornn.lab.training._processes import rank
from unicornn.lab.training._trainer import TaskTrainer


class TrainingProgress:
    """Shows the epoch, the loss, the validation metric and the remaining time; nothing without a console."""

    def __init__(self, console: Console | None, trainer: TaskTrainer) -> None:
        self.console = Console(quiet=True) if console is None or rank() > 0 else console
        self.trainer = trainer
        self.began = trainer.progress, trainer.seconds
        columns, hidden = (BarColumn(20), TextColumn("{task.description}")), self.console.quiet
        self.bar = Progress(*columns, console=console, transient=True, disable=hidden or not self.console.is_terminal)
        self.task = self.bar.add_task("starting", total=1.0)

    def __enter__(self) -> TrainingProgress:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.bar.disable:  # else it would print an empty line
            self.bar.stop()
        if kind is KeyboardInterrupt:
            self._print(f"stopped in epoch {self.trainer.epoch + 1}; the same command with --resume continues")

    def show_step(self, loss: float) -> None:
        if not self.bar.disable:
            texts = self._texts(self.trainer.epoch + 1, loss)
            self.bar.update(self.task, completed=self.trainer.progress, description=" ".join(texts))

    def show_epoch(self) -> None:
        if self.bar.disable:
            self._print(" · ".join(self._texts(self.trainer.epoch, self.trainer.history[-1]["train_loss"])))

    def _print(self, text: str) -> None:
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
