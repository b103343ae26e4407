"""study.json: a search and its finished trials."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from unicornn._files import write_json
from unicornn.lab._metric import Metric
from unicornn.lab._run_folder import NUMBER, TEXT, check_types, read_json
from unicornn.lab.errors import NotARun

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

STATES = ("complete", "pruned", "failed")
_STUDY_TYPES = dict.fromkeys(("task", "title", "model", "metric", "sampler", "pruner", "command"), TEXT) | {
    "variant": (str, NoneType), "more_is_better": (bool,), "seed": (int,), "budget": (*NUMBER, NoneType),
    "settings": (dict,), "requested": (int,), "space": (dict,), "trials": (list,),
}  # fmt: skip
_TRIAL_TYPES = {
    "number": (int,), "state": TEXT, "value": (*NUMBER, NoneType), "parameters": (dict,), "seconds": NUMBER,
    "epochs": (int,), "failure": TEXT,
}  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One set of hyperparameters and its outcome."""

    number: int  # its run folder is trials/NUMBER, with five digits
    state: str  # "complete", "pruned" (stopped early) or "failed" (loss not finite, or out of memory)
    value: float | None  # best validation metric so far; None if the trial failed
    parameters: Mapping[str, float]
    seconds: float
    epochs: int
    failure: str = ""  # the reason


@dataclass(frozen=True, kw_only=True)
class Study:
    """A search and its finished trials."""

    task: str  # name, or the path of its file
    title: str
    model: str
    variant: str | None
    metric: Metric
    seed: int
    budget: float | None  # seconds of a trial
    settings: Mapping[str, Any]  # fixed for all trials
    sampler: str
    pruner: str
    requested: int  # number of trials
    space: Mapping[str, Any]  # the range of each parameter, as Optuna writes a distribution to JSON
    trials: list[Trial] = field(default_factory=list)  # finished ones, by number
    command: str = ""  # trains with the settings of the best trial

    def ranked(self) -> list[Trial]:
        """The complete trials, best first; ties by number."""
        complete = [trial for trial in self.trials if trial.state == "complete"]
        return self.metric.ranked(complete, value=lambda trial: trial.value)

    @property
    def best(self) -> Trial | None:
        return next(iter(self.ranked()), None)

    @property
    def axes(self) -> dict[str, BaseDistribution]:
        """The range of each parameter."""
        from optuna.distributions import json_to_distribution

        return {name: json_to_distribution(json.dumps(axis)) for name, axis in self.space.items()}

    def write(self, path: Path) -> None:
        """Writes study.json atomically. The metric is stored as in a run's config.json, by name and direction."""
        best = None if self.best is None else dataclasses.asdict(self.best)
        metric = {"metric": self.metric.name, "more_is_better": self.metric.more_is_better}
        write_json(path, dataclasses.asdict(self) | metric | {"best": best})

    def as_optuna(self) -> optuna.Study:
        """The study as an in-memory Optuna study. Raises ``ValueError`` if a value is outside its range."""
        import optuna
        from optuna.trial import TrialState

        states = dict(zip(STATES, (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL), strict=True))
        axes = self.axes
        with quiet_optuna():
            study = optuna.create_study(direction="maximize" if self.metric.more_is_better else "minimize")
            for trial in self.trials:
                value = trial.value if trial.state == "complete" else None
                study.add_trial(
                    optuna.create_trial(
                        state=states[trial.state], value=value, params=dict(trial.parameters), distributions=axes
                    )
                )
        return study


def read_study(path: Path | str) -> Study:
    """Reads a study.json. Raises ``NotARun`` if the file is missing or not valid.

    Example:
        >>> from unicornn.lab.search import read_study
        >>> read_study("nowhere/study.json")
        Traceback (most recent call last):
        ...
        unicornn.lab.errors.NotARun: run: expected a folder made by `unicornn train`, but there is no nowhere/study.json
    """
    path = Path(path)
    values = check_types(path, read_json(path), _STUDY_TYPES, {})
    values.pop("best", None)
    try:
        trials = [Trial(**check_types(path, trial, _TRIAL_TYPES, {})) for trial in values["trials"]]
        for name, axis in values["space"].items():
            numbers = [*axis["attributes"].get("choices", ()), *(trial.parameters[name] for trial in trials)]
            if not (name.isascii() and name.isidentifier() and all(isinstance(number, NUMBER) for number in numbers)):
                raise ValueError(f"{name!r} with values that are not numbers")
        metric = Metric(values["metric"], values.pop("more_is_better"))
        study = Study(**{**values, "metric": metric, "trials": trials})
        study.as_optuna()  # checks ranges, states and values
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise NotARun(f"study: expected {path} as `unicornn search` writes it, got {error}") from None
    return study


@contextlib.contextmanager
def quiet_optuna() -> Iterator[None]:
    """Turns off Optuna's log messages and its warnings about experimental functions."""
    import optuna

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)
