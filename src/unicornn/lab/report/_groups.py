"""Runs put together: by experiment, and within it those that differ in nothing but the seed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, NamedTuple

from unicornn.lab import tasks
from unicornn.lab._metric import Metric
from unicornn.lab._run_folder import Run
from unicornn.lab.tasks import Quoted, Task


class Spread(NamedTuple):
    """The mean over seeds, their deviation (of a sample; None for a single one) and the best of them."""

    mean: float
    deviation: float | None
    best: float


def spread(values: Sequence[float], metric: Metric) -> Spread:
    """Mean, deviation and best of some numbers.

    Example:
        >>> from unicornn.lab._metric import Metric
        >>> spread([0.97, 0.99], Metric("accuracy", more_is_better=True)).best
        0.99
    """
    known = [v for v in values if math.isfinite(v)]
    best = metric.best(known, value=float)
    mean = fmean(values) if values else math.nan
    deviation = stdev(values) if len(values) > 1 and len(known) == len(values) else None
    return Spread(mean, deviation, math.nan if best is None else best)


def best_valid(run: Run) -> float:
    """The best validation metric, so far if the run is unfinished; NaN if there is none yet."""
    if run.finished:
        return float(run.result["valid"])
    best = run.metric.best(run.metrics["valid"].tolist(), value=float)
    return math.nan if best is None else best


@dataclass(frozen=True)
class Entry:
    """Runs of one model that differ in nothing but the seed."""

    label: str
    runs: tuple[Run, ...]

    @property
    def finished(self) -> list[Run]:
        return [run for run in self.runs if run.finished]

    @property
    def unfinished(self) -> list[Run]:
        return [run for run in self.runs if not run.finished]

    @property
    def metric(self) -> Metric:
        return self.runs[0].metric

    @property
    def test(self) -> Spread:
        tested = [run.result["test"] for run in self.finished if "test" in run.result]
        return spread([float(value) for value in tested], self.metric)

    @property
    def valid(self) -> Spread:
        return spread([best_valid(run) for run in self.finished or self.runs], self.metric)


@dataclass(frozen=True)
class Group:
    """All runs of one experiment: a task, its variant and its options."""

    entries: tuple[Entry, ...]
    published: tuple[Quoted, ...]
    departures: Mapping[str, Any]  # the options that are not the task's defaults

    @property
    def runs(self) -> list[Run]:
        return [run for entry in self.entries for run in entry.runs]

    @property
    def config(self) -> dict[str, Any]:
        """That of the first run: task, variant, task_options, metric, title and protocol are the same in all."""
        return self.runs[0].config

    @property
    def metric(self) -> Metric:
        return self.runs[0].metric

    def best(self, model: str | None = None) -> Run | None:
        """The run with the best validation metric, of one model or of all; finished ones first."""
        runs = [run for run in self.runs if model in (None, run.config["model"])]
        ranked = self.metric.ranked(runs, value=best_valid)
        return next(iter(sorted(ranked, key=lambda run: not run.finished)), None)

    def entry_of(self, run: Run) -> Entry:
        return next(entry for entry in self.entries if run in entry.runs)


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A nested dictionary's leaves: ``{"training": {"lr": 0.1}}`` becomes ``{"training.lr": 0.1}``.

    Example:
        >>> flat({"seed": 1, "training": {"lr": 0.1}})
        {'seed': 1, 'training.lr': 0.1}
    """
    leaves: dict[str, Any] = {}
    for key, value in settings.items():
        nested = flat(value) if isinstance(value, Mapping) and value else None
        leaves |= {f"{key}.{k}": v for k, v in nested.items()} if nested else {key: value}
    return leaves


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _settings(run: Run) -> dict[str, Any]:
    """What makes runs of one model in one group different, other than the seed."""
    return flat({key: run.config.get(key) for key in ("model_options", "training", "budget")})


def _by(runs: Iterable[Run], key: Any) -> list[list[Run]]:
    together: dict[str, list[Run]] = {}
    for run in runs:
        together.setdefault(_json(key(run)), []).append(run)
    return list(together.values())


def _entries(runs: list[Run]) -> tuple[Entry, ...]:
    """UnICORNN's first, others in the order in which they came."""
    entries = []
    runs = sorted(runs, key=lambda run: bool(run.config["model"] != "unicornn"))
    for same_model in _by(runs, lambda run: run.config["model"]):
        kinds = _by(same_model, _settings)
        settings = [_settings(kind[0]) for kind in kinds]
        keys = [k for k in {k: None for s in settings for k in s} if len({_json(s.get(k)) for s in settings}) > 1]
        for kind, s in zip(kinds, settings, strict=True):
            differing = ", ".join(f"{k.rpartition('.')[2]} {s.get(k)}" for k in keys)
            label = kind[0].config["model"] + (f" ({differing})" if differing else "")
            entries.append(Entry(label, tuple(sorted(kind, key=lambda run: int(run.config["seed"])))))
    return tuple(entries)


def _known(name: str) -> Task | None:
    """A task of the package. A task's own file is not looked for: a report must not run code that a run names."""
    return tasks.find(name) if name in tasks.names() else None


def group_runs(runs: Iterable[Run]) -> list[Group]:
    """The runs by task, variant and options, in the order in which they came."""
    made = []
    for same in _by(runs, lambda run: [run.config.get(key) or None for key in ("task", "variant", "task_options")]):
        config = same[0].config
        task, options = _known(config["task"]), config.get("task_options", {})
        usual = {name: values[0] for name, values in task.options.items()} if task else {}
        departures = {
            name: value for name, value in options.items() if name in usual and _json(value) != _json(usual[name])
        }
        paper = [q for q in (task.paper if task else ()) if all(options.get(k) == v for k, v in q.only.items())]
        departures = {name: value for name, value in departures.items() if not any(name in q.only for q in paper)}
        made.append(Group(_entries(same), tuple(paper), departures))
    return made
