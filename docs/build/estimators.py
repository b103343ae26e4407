"""Generated parts of docs/accuracy.md: the estimators beside other methods, and readouts of the networks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from docs.build.pages import load_results, part
from docs.build.reproduction import finished_runs, grouped

RATES = ("respiratory rate", "heart rate")  # errors, where all other sets have accuracies


def _score(scores: list[float]) -> str:
    deviation = f" ± {np.std(scores):.3f}" if np.std(scores) > 0 else ""
    return f"{np.mean(scores):.3f}{deviation}"


COLUMNS: dict[str, Callable[[Any], str]] = {
    "scores": _score, "seconds": lambda every: f"{np.mean(every):.1f}", "megabytes": "{:,}".format,
}  # fmt: skip


@part
def estimators(column: str, kind: str = "") -> dict[str, dict[str, str]]:
    """A column of the results by data set and method, over accuracies or errors only; accuracies with their means."""
    sets = load_results("estimators")["sets"]
    known = {name: {method: result[column] for method, result in each.items() if method != "sizes"}
             for name, each in sets.items() if not kind or (name in RATES) == (kind == "errors")}  # fmt: skip
    rows = {name: {method: COLUMNS[column](value) for method, value in each.items()} for name, each in known.items()}
    if kind == "accuracies":
        means = pd.DataFrame(known).map(np.mean).mean(axis=1)
        rows["**mean**"] = {method: f"{mean:.3f}" for method, mean in means.items()}
    return rows


@part
def readouts() -> list[dict[str, Any]]:
    """Scores of the same network with different readouts."""
    rows = []
    groups = grouped(finished_runs("energies/.*"), lambda run: tuple(_readout_setting(run).values()))
    for _, runs in sorted(groups.items()):
        scores = {subset: _score([run["result"][subset] for run in runs]) for subset in ("valid", "test")}
        rows.append(_readout_setting(runs[0]) | scores | {"runs": len(runs)})
    return rows


def _readout_setting(run: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a run shares with other folds; ``name`` is the run's name without the fold."""
    options, model = run["task_options"], run["model_options"]
    sequences = options.get("split") or run["variant"] or ("crops" if {"window", "crops"} & set(options) else "whole")
    sequences += ", stretched" if options.get("stretch") else ""
    readout = model.get("readout", "last")
    name = re.sub(r"-\d$", "", run["name"]) if run["task"] == "worms44" else run["name"]
    shared = {"title": run["title"], "sequences": sequences, "readout": readout, "epochs": run["training"]["epochs"]}
    return shared | {"metric": run["metric"], "name": name}
