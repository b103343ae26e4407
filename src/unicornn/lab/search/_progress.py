"""A search as it is seen: a line per trial, and on a terminal a bar below with the best so far."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

import optuna
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from unicornn.lab._metric import Metric
from unicornn.lab._study import Study, Trial
from unicornn.lab._text import duration


class SearchProgress:
    """Where progress is shown; nowhere if there is no console."""

    def __init__(self, console: Console | None, metric: Metric, trials: int) -> None:
        self.console, self.metric = console, metric
        self.bar = Progress(
            BarColumn(20), TextColumn("[bold]{task.completed}/{task.total}[/] {task.fields[best]} {task.description}"),
            console=console, transient=True,
        )  # fmt: skip
        self.task = self.bar.add_task("", total=trials, best="")

    def __enter__(self) -> SearchProgress:
        if self.console is not None and self.console.is_terminal:
            self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.bar.live.is_started:
            self.bar.stop()

    def say(self, text: str) -> None:
        """A line of its own; nothing in it is markup."""
        if self.console is not None:
            self.console.print(text, highlight=False, soft_wrap=True, markup=False)

    def now(self, text: str) -> None:
        """What is going on."""
        self.bar.update(self.task, description=text)

    def so_far(self, study: Study) -> None:
        self.bar.update(self.task, completed=len(study.trials), best=self._best(study))

    def over(self, study: Study, trial: Trial) -> None:
        """A trial of this process has ended."""
        drawn = ", ".join(f"{name} {value:g}" for name, value in trial.parameters.items())
        outcome = f"validation {self.metric.name} {self.metric.text(trial.value)}"
        if trial.state != "complete":
            outcome = trial.state + (f" at {self.metric.text(trial.value)}" if trial.value is not None else "")
        count = f"{len(study.trials)}/{study.asked}"
        texts = [f"trial {trial.number}", outcome, self._best(study), drawn, duration(trial.seconds), count]
        self.say(" · ".join(text for text in texts if text))
        self.so_far(study)

    def _best(self, study: Study) -> str:
        best = study.best
        return "" if best is None else f"best {self.metric.text(best.value)} (trial {best.number})"


class EpochReport:
    """Reports each epoch's validation metric, and stops a trial that the pruner has given up."""

    def __init__(self, trial: optuna.Trial, epochs: int, progress: SearchProgress) -> None:
        self.trial, self.epochs, self.progress = trial, epochs, progress

    def __call__(self, row: Mapping[str, float]) -> None:
        epoch = int(row["epoch"])
        self.progress.now(f"trial {self.trial.number}, epoch {epoch} of {self.epochs}")
        self.trial.report(row["valid"], epoch)
        if epoch < self.epochs and self.trial.should_prune():
            raise optuna.TrialPruned
