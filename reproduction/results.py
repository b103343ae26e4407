"""What the reproduction's runs gave, as kept in results/reproduction: one list of runs for each group."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from unicornn.lab._text import duration, figure, several
from unicornn.lab.report._groups import Spread, spread

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "results" / "reproduction"
AUTHORS = FOLDER / "authors.json"

Record = dict[str, Any]  # of a run: its name, settings, environment, result and curve


def group(name: str) -> list[Record]:
    """The finished runs of a group; none if it was not begun."""
    path = FOLDER / f"{name}.json"
    return [run for run in json.loads(path.read_text()) if run["result"]] if path.exists() else []


def authors(name: str) -> pd.DataFrame | None:
    """The authors' learning curve, with the columns epoch and valid."""
    curves = json.loads(AUTHORS.read_text())["curves"] if AUTHORS.exists() else {}
    return pd.DataFrame(curves[name]) if name in curves else None


def together(runs: Iterable[Record], key: Callable[[Record], Any]) -> dict[Any, list[Record]]:
    """Runs by a property, in their order."""
    found: dict[Any, list[Record]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return found


def tested(runs: list[Record]) -> Spread:
    """Mean, deviation and best of the test figures."""
    return spread([run["result"]["test"] for run in runs], runs[0]["more_is_better"])


def test_figure(runs: list[Record]) -> str:
    mean, deviation, _ = tested(runs)
    return figure(runs[0]["metric"], mean, deviation)


def epochs(runs: list[Record]) -> str:
    return several([run["result"]["epochs"] for run in runs])


def time_taken(runs: list[Record]) -> str:
    """The mean over the runs."""
    return duration(fmean(run["result"]["seconds"] for run in runs))


def settings(run: Record) -> dict[str, Any]:
    """All that can be set, in one."""
    return {**run["training"], **run["model_options"], **run["task_options"]}


def table(head: list[str], rows: Iterable[Iterable[Any]]) -> list[str]:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(map(str, cells))} |" for cells in lines]
