"""What the reproduction's runs gave, as kept in results/reproduction: one list of runs for each group."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from statistics import fmean
from typing import Any

import pandas as pd

from docs.build.pages import RESULTS
from unicornn.lab._metric import Metric
from unicornn.lab._text import duration, several
from unicornn.lab.report._groups import SeedStatistics, seed_statistics

RUNS = RESULTS / "reproduction"

Record = dict[str, Any]  # of a run: its name, settings, environment, result and curve


def group(name: str) -> list[Record]:
    """The finished runs of a group; none if it was not begun."""
    return [run for run in _all(name) if run["result"]]


def unfinished(name: str) -> list[Record]:
    """The runs of a group that have not come to their end."""
    return [run for run in _all(name) if not run["result"]]


def psmnist() -> tuple[Record, bool] | None:
    """The run whose time steps are shown, and whether it read pixel by pixel: such a run if there is one, also an
    unfinished one, or else one that read several pixels per step."""
    for where, name, single in (
        ("scales", "psmnist-energy", True),
        ("scales", "psmnist", True),
        ("recipes", "psmnist", False),
    ):
        for run in _all(where):
            if run["name"] == name and "time_steps" in run:
                return run, single
    return None


def _all(name: str) -> list[Record]:
    path = RUNS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def authors(name: str) -> pd.DataFrame | None:
    """The authors' learning curve, with the columns epoch and valid."""
    path = RUNS / "authors.json"
    curves = json.loads(path.read_text(encoding="utf-8"))["curves"] if path.exists() else {}
    return pd.DataFrame(curves[name]) if name in curves else None


def together(runs: Iterable[Record], key: Callable[[Record], Any]) -> dict[Any, list[Record]]:
    """Runs by a property, in their order."""
    found: dict[Any, list[Record]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return found


def tested(runs: list[Record]) -> SeedStatistics:
    """Mean, deviation and best of the test metric."""
    return seed_statistics([run["result"]["test"] for run in runs], metric(runs[0]))


def metric(run: Record) -> Metric:
    return Metric(run["metric"], run["more_is_better"])


def test_words(runs: list[Record]) -> str:
    """Mean and deviation of the test metric, as text."""
    mean, deviation, _ = tested(runs)
    return metric(runs[0]).text(mean, deviation)


def epochs(runs: list[Record]) -> str:
    return several([run["result"]["epochs"] for run in runs])


def time_taken(runs: list[Record]) -> str:
    """The mean over the runs."""
    return duration(fmean(run["result"]["seconds"] for run in runs))


def settings(run: Record) -> dict[str, Any]:
    """All that can be set, in one."""
    return {**run["training"], **run["model_options"], **run["task_options"]}
