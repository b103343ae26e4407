"""Runs grouped by experiment, and within it by settings: an entry has all seeds of the same settings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np

from unicornn.lab import _text as words
from unicornn.lab import tasks
from unicornn.lab._metric import Metric
from unicornn.lab._run_folder import Run
from unicornn.lab.tasks import Quoted


def assignments(values: Mapping[str, Any]) -> str:
    """Options as text, "name = value, name = value"."""
    return ", ".join(f"{name} = {words.setting(value)}" for name, value in values.items())


class SeedStatistics(NamedTuple):
    """A metric over seeds: mean, standard deviation (of a sample; None for a single value) and best value."""

    mean: float
    deviation: float | None
    best: float


def seed_statistics(values: Sequence[float], metric: Metric) -> SeedStatistics:
    """Mean, standard deviation and best of some values of a metric."""
    best = metric.best(values, value=float)
    deviation = stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None
    return SeedStatistics(fmean(values) if values else math.nan, deviation, math.nan if best is None else best)


def best_valid(run: Run) -> float:
    """Best validation metric, so far if the run is unfinished; NaN before the first epoch."""
    if run.finished:
        return float(run.result["valid"])
    best = run.metric.best(run.metrics["valid"].tolist(), value=float)
    return math.nan if best is None else best


@dataclass(frozen=True)
class Entry:
    """Runs of one model that differ only in the seed."""

    label: str
    runs: tuple[Run, ...]

    @property
    def finished(self) -> list[Run]:
        return [run for run in self.runs if run.finished]

    @property
    def test(self) -> SeedStatistics:
        tested = [float(run.result["test"]) for run in self.finished if "test" in run.result]
        return seed_statistics(tested, self.runs[0].metric)

    @property
    def valid(self) -> SeedStatistics:
        return seed_statistics([best_valid(run) for run in self.finished or self.runs], self.runs[0].metric)


@dataclass(frozen=True)
class Group:
    """All runs of one experiment: a task, its variant and its options."""

    entries: tuple[Entry, ...]
    published: tuple[Quoted, ...]
    departures: Mapping[str, Any]  # options that differ from the task's defaults

    @property
    def runs(self) -> list[Run]:
        return [run for entry in self.entries for run in entry.runs]

    @property
    def config(self) -> dict[str, Any]:
        """Config of the first run: task, variant, task_options, metric, title and protocol are the same in all."""
        return self.runs[0].config

    @property
    def metric(self) -> Metric:
        return self.runs[0].metric

    @property
    def title(self) -> str:
        return str(self.config.get("title") or self.config["task"])

    @property
    def description(self) -> str:
        """Task, variant and options."""
        variant = f"variant {self.config['variant']}" if self.config.get("variant") else ""
        return ", ".join(filter(None, [self.config["task"], variant, assignments(self.config.get("task_options", {}))]))

    def best_run(self, model: str | None = None) -> Run | None:
        """The run with the best validation metric, of one model or of all; finished runs come first."""
        runs = [run for run in self.runs if model in (None, run.config["model"])]
        ranked = self.metric.ranked(runs, value=best_valid)
        return next(iter(sorted(ranked, key=lambda run: not run.finished)), None)

    @property
    def constant_test(self) -> float | None:
        """Test metric of the best constant prediction: the most frequent class, or the mean; None if unknown."""
        predictions = next((run.predictions for run in self.runs if run.predictions is not None), None)
        if predictions is None or not len(target := predictions["target"]):
            return None
        if self.metric.name == "accuracy":
            return float(np.unique(target, return_counts=True)[1].max() / target.size)
        return float(np.sqrt(((target - target.mean(0)) ** 2).mean()))

    def entry_of(self, run: Run) -> Entry:
        return next(entry for entry in self.entries if run in entry.runs)


def group_runs(runs: Iterable[Run]) -> list[Group]:
    """Groups runs by task, variant and options, in their order of appearance."""
    groups = []
    for same in _group_by(
        runs, lambda run: [run.config.get(key) or None for key in ("task", "variant", "task_options")]
    ):
        name, options = same[0].config["task"], same[0].config.get("task_options", {})
        # Only tasks of the package: a report must not execute a task file that a run names.
        task = tasks.find(name) if name in tasks.names() else None
        published = [q for q in (task.paper if task else ()) if all(options.get(k) == v for k, v in q.only.items())]
        departures = {
            option: options[option]
            for option, default in (task.defaults if task else {}).items()
            if option in options and _json(options[option]) != _json(default)
            and not any(option in quoted.only for quoted in published)
        }  # fmt: skip
        groups.append(Group(_entries(same), tuple(published), departures))
    return groups


def _entries(runs: list[Run]) -> tuple[Entry, ...]:
    """One entry per model and settings, UnICORNN's first; the labels name settings that differ within a model."""
    entries = []
    for same_model in _group_by(sorted(runs, key=lambda run: run.config["model"] != "unicornn"), _model):
        by_settings = _group_by(same_model, _settings)
        settings = [_settings(runs[0]) for runs in by_settings]
        names = dict.fromkeys(name for each in settings for name in each)
        differing = [name for name in names if len({_json(each.get(name)) for each in settings}) > 1]
        for same, values in zip(by_settings, settings, strict=True):
            text = ", ".join(f"{name} {values.get(name)}" for name in differing)
            label = _model(same[0]) + (f" ({text})" if text else "")
            entries.append(Entry(label, tuple(sorted(same, key=lambda run: int(run.config["seed"])))))
    return tuple(entries)


def _model(run: Run) -> str:
    return run.config["model"]


def _settings(run: Run) -> dict[str, Any]:
    """Settings that distinguish runs of the same model and experiment."""
    config = run.config
    return {**config.get("model_options", {}), **config.get("training", {}), "budget": config.get("budget")}


def _group_by(runs: Iterable[Run], key: Callable[[Run], Any]) -> list[list[Run]]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(_json(key(run)), []).append(run)
    return list(groups.values())


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
