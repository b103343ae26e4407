"""Training as it is seen: a bar on a terminal, elsewhere a line per epoch."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from unicornn.lab._text import duration
from unicornn.lab.training._loop import Loop
from unicornn.lab.training._processes import rank


class TrainingProgress:
    """The epoch, the loss, the validation metric and the time left; nowhere if there is no console."""

    def __init__(self, console: Console | None, loop: Loop) -> None:
        self.console = console if rank() == 0 else None
        self.loop = loop
        self.began = loop.share, loop.seconds
        text = "[bold]{task.description}[/] {task.fields[loss]} {task.fields[valid]} {task.fields[left]}"
        self.bar = Progress(BarColumn(20), TextColumn(text), console=console, transient=True)
        self.task = self.bar.add_task("starting", total=1.0, loss="", valid="", left="")

    def __enter__(self) -> TrainingProgress:
        if self.console is not None and self.console.is_terminal:
            self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.bar.live.is_started:
            self.bar.stop()
        if self.console is not None and kind is KeyboardInterrupt:
            where = f"stopped in epoch {self.loop.epoch + 1}"
            self.console.print(f"{where}; the same command with --resume goes on", highlight=False, soft_wrap=True)

    def step(self, loss: float) -> None:
        if self.bar.live.is_started:
            description, loss_, valid, left = self._texts(self.loop.epoch, loss)
            self.bar.update(
                self.task, completed=self.loop.share, description=description, loss=loss_, valid=valid, left=left
            )

    def epoch(self) -> None:
        """An epoch has ended."""
        if self.console is not None and not self.console.is_terminal:
            texts = self._texts(self.loop.epoch - 1, self.loop.history[-1]["train_loss"])
            self.console.print(" · ".join(text for text in texts if text), highlight=False, soft_wrap=True)

    def _texts(self, epoch: int, loss: float) -> tuple[str, str, str, str]:
        loop, metric = self.loop, self.loop.task.metric
        share, seconds = loop.share - self.began[0], loop.seconds - self.began[1]
        left = f"{duration(seconds * (1 - loop.share) / share)} left" if share > 0 else ""
        valid = ""
        if loop.top is not None:
            last, best = metric.text(loop.history[-1]["valid"]), metric.text(loop.top["valid"])
            valid = f"validation {metric.name} {last} (best {best})"
        return f"epoch {epoch + 1}/{loop.config.training.epochs}", f"loss {loss:.4g}", valid, left
