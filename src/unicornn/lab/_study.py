"""study.json: what a search has found so far. It is read without Optuna."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unicornn._files import write_json
from unicornn.errors import BadType
from unicornn.lab._metric import Metric
from unicornn.lab._run_folder import read_json
from unicornn.lab.errors import NotARun

STATES = ("complete", "pruned", "failed")


@dataclass(frozen=True)
class Trial:
    """One set of hyperparameters that was tried.

    Args:
        number: as in trials/00012.
        state: "complete", "pruned" (stopped early) or "failed" (its loss was not finite, or there was no memory).
        value: the best validation metric, up to the epoch in which it was stopped; None if it failed.
        parameters: what was drawn.
        seconds, epochs: how long it took.
        why: the reason for a failure.

    Example:
        >>> from unicornn.lab._study import Trial
        >>> Trial(12, "complete", 0.97, {"lr": 0.0031}, seconds=61.7, epochs=20).parameters["lr"]
        0.0031
    """

    number: int
    state: str
    value: float | None
    parameters: Mapping[str, float]
    seconds: float
    epochs: int
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A search and its finished trials.

    Args:
        task, title, model, variant, metric, seed, settings: as of a run.
        sampler, pruner: how parameters are drawn, and which trials are stopped early.
        asked: how many trials there will be.
        space: for each parameter ``{"low": ..., "high": ..., "log": ...}`` or ``{"values": [...]}``.
        trials: in the order of their numbers.
        importances: the parameters' shares in how the trials differ, if there are trials enough to say so.
        command: trains with the best trial's settings.

    Example:
        >>> from unicornn.lab._metric import Metric
        >>> from unicornn.lab._study import Study, Trial
        >>> trials = [Trial(i, "complete", error, {"lr": 0.1 / (i + 1)}, 9.0, 5) for i, error in enumerate((1.2, 0.9))]
        >>> error = Metric("RMSE", more_is_better=False)
        >>> about = {"task": "mine", "title": "Mine", "model": "unicornn", "variant": None, "seed": 0, "settings": {}}
        >>> how = {"sampler": "random", "pruner": "none", "asked": 50, "space": {}}
        >>> study = Study(metric=error, trials=trials, **about, **how)
        >>> study.best.number
        1
    """

    task: str
    title: str
    model: str
    variant: str | None
    metric: Metric
    seed: int
    settings: Mapping[str, Any]
    sampler: str
    pruner: str
    asked: int
    space: Mapping[str, Mapping[str, Any]]
    trials: list[Trial] = field(default_factory=list)
    importances: Mapping[str, float] = field(default_factory=dict)
    command: str = ""

    def ranked(self) -> list[Trial]:
        """The complete trials, the best first."""
        done = [trial for trial in self.trials if trial.state == "complete"]
        return self.metric.ranked(done, value=lambda trial: trial.value)

    @property
    def best(self) -> Trial | None:
        """The best of the complete trials, the first of equals."""
        return next(iter(self.ranked()), None)

    def write(self, path: Path) -> None:
        """Whole or not at all. The metric is there as in a run's config.json, by its name and ``more_is_better``."""
        best = None if self.best is None else dataclasses.asdict(self.best)
        metric = {"metric": self.metric.name, "more_is_better": self.metric.more_is_better}
        write_json(path, dataclasses.asdict(self) | metric | {"best": best})


def read_study(path: Path | str) -> Study:
    """The study in a study.json. Raises ``NotARun`` for a file that has none.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from unicornn.lab._metric import Metric
        >>> from unicornn.lab._study import Study, read_study
        >>> error = Metric("RMSE", more_is_better=False)
        >>> about = {"task": "mine", "title": "Mine", "model": "unicornn", "variant": None, "seed": 0, "settings": {}}
        >>> how = {"sampler": "random", "pruner": "none", "asked": 50, "space": {}}
        >>> study = Study(metric=error, **about, **how)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     study.write(Path(folder, "study.json"))
        ...     read_study(Path(folder, "study.json")) == study
        True
    """
    values = read_json(Path(path))
    values.pop("best", None)
    try:
        metric = Metric(values["metric"], values.pop("more_is_better"))
        study = Study(**{**values, "metric": metric, "trials": [Trial(**each) for each in values["trials"]]})
        _check(study)
    except (TypeError, KeyError, AttributeError) as error:
        raise NotARun(f"study: expected what `unicornn search` writes in {path}, but {error}") from None
    return study


def _check(study: Study) -> None:
    """TypeError for what a report could not draw."""

    def expect(ok: bool, what: str) -> None:
        if not ok:
            raise BadType(f"it has no {what}")

    def finite(value: Any) -> bool:
        return isinstance(value, (int, float)) and math.isfinite(value)

    texts = (study.task, study.title, study.model, study.metric.name, study.sampler, study.pruner, study.command)
    expect(all(isinstance(text, str) for text in texts), "task, title, model, metric, sampler, pruner or command")
    expect(all(isinstance(each, dict) for each in (study.space, study.settings, study.importances)), "space by name")
    expect(all(map(finite, study.importances.values())), "importances in numbers")
    for name, axis in study.space.items():
        numbers = axis.get("values", [axis.get("low"), axis.get("high")])
        expect(isinstance(numbers, list) and bool(numbers) and all(map(finite, numbers)), f"range of {name}")
        expect(not axis.get("log") or min(numbers) > 0, f"range of {name} above 0")
    for trial in study.trials:
        expect(trial.state in STATES, f"state of trial {trial.number}")
        expect(all(map(finite, (trial.number, trial.seconds, trial.epochs))), f"times of trial {trial.number}")
        expect(finite(trial.value) or (trial.value is None and trial.state != "complete"), f"value of {trial.number}")
        expect(all(finite(trial.parameters.get(name)) for name in study.space), f"parameters of {trial.number}")
