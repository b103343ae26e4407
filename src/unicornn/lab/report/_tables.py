"""Rows of the tables: cells by column. A cell is a text, or a text and a second line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any

from unicornn.lab import _text as words
from unicornn.lab._metric import Metric
from unicornn.lab._run_folder import Run
from unicornn.lab._study import metric_of, ranked, seconds
from unicornn.lab.report._groups import Entry, Group

if TYPE_CHECKING:
    import optuna

Row = dict[str, str | tuple[str, str]]

BEST_TRIALS = 10  # shown of a search


def overview_row(group: Group) -> Row:
    """Our best result next to the best published one, if the options are the task's defaults."""
    metric = group.metric
    ours = metric.best(group.entries, value=lambda entry: entry.test.mean)
    comparable = () if group.departures else group.published
    quoted = metric.best(comparable, value=lambda quoted: quoted.value)
    return {
        "Task": (group.title, group.description),
        "Our best": (metric.text(*ours.test[:2]), ours.label) if ours else words.NONE,
        "Best published": (metric.text(quoted.value, quoted.deviation), quoted.model) if quoted else words.NONE,
        "Metric": metric.name,
    }


def verdict(group: Group) -> str:
    """One sentence: our best results, next to a constant prediction."""
    metric = group.metric
    tested = metric.ranked((e for e in group.entries if math.isfinite(e.test.mean)), lambda entry: entry.test.mean)
    if not tested:
        return "No run has a test result yet."
    results = [f"{entry.label} {metric.text(*entry.test[:2])}" for entry in tested[:3]]
    text = f"Test {metric.name}: {', '.join(results)}"
    constant = group.constant_test
    return text + ("." if constant is None else f"; {_constant_name(metric)} {metric.text(constant)}.")


def _constant_name(metric: Metric) -> str:
    return "guessing the most frequent class" if metric.name == "accuracy" else "predicting the mean"


def result_rows(group: Group) -> list[Row]:
    """Our results, best first."""
    ranked = group.metric.ranked(group.entries, value=lambda entry: entry.test.mean)
    return [_result_row(entry, group.metric) for entry in ranked]


def _result_row(entry: Entry, metric: Metric) -> Row:
    finished, unfinished = entry.finished, len(entry.runs) - len(entry.finished)
    runs = finished or entry.runs
    epochs = words.several([int(run.result["epochs"]) if run.finished else len(run.metrics) for run in runs])
    budget = " (budget)" if any(run.result.get("stopped") == "budget" for run in finished) else ""
    status = f"{unfinished} unfinished" if finished else "unfinished"
    return {
        "Model": (entry.label, status if unfinished else ""),
        f"Test {metric.name}": metric.text(*entry.test[:2]),
        "Best seed": metric.text(entry.test.best),
        "Validation": metric.text(*entry.valid[:2]),
        "Seeds": ", ".join(str(run.config["seed"]) + ("" if run.finished else "*") for run in entry.runs),
        "Epochs": epochs + budget,
        "Time per run": words.duration(fmean(_seconds(run) for run in runs)),
        "Units": words.setting(entry.runs[0].config.get("model_options", {}).get("hidden_size")),
        "Parameters": _integer(next((run.config["parameters"] for run in runs if "parameters" in run.config), None)),
    }


def reference_rows(group: Group) -> list[Row]:
    """Published results, best first, and the result of a constant prediction."""
    metric, constant = group.metric, group.constant_test
    rows: list[Row] = [
        {
            "Model": (quoted.model, "published" + (f", {quoted.source}" if quoted.source else "")),
            f"Test {metric.name}": metric.text(quoted.value, quoted.deviation),
            "Units": _integer(quoted.units),
            "Parameters": _integer(quoted.parameters),
        }
        for quoted in metric.ranked(group.published, value=lambda quoted: quoted.value)
    ]
    if constant is not None:
        rows.append({"Model": ("no model", _constant_name(metric)), f"Test {metric.name}": metric.text(constant)})
    return rows


def trial_rows(study: optuna.Study) -> list[Row]:
    """The best trials of a search."""
    return [
        {
            "Trial": str(trial.number),
            "Validation": metric_of(study).text(trial.value),
            **{name: f"{value:.3g}" for name, value in trial.params.items()},
            "Epochs": str(len(trial.intermediate_values)),
            "Time": words.duration(seconds(trial)),
        }
        for trial in ranked(study)[:BEST_TRIALS]
    ]


def range_row(study: optuna.Study) -> Row:
    """The ranges of a search."""
    space: dict[str, Any] = study.user_attrs["plan"]["space"]
    return {"Trial": "searched", **{name: _range(axis["attributes"]) for name, axis in space.items()}}


def _range(axis: Mapping[str, Any]) -> str | tuple[str, str]:
    if "choices" in axis:
        return ", ".join(f"{choice:g}" for choice in axis["choices"])
    return f"{axis['low']:g} to {axis['high']:g}", "logarithmic" if axis["log"] else ""


def _integer(number: int | None) -> str:
    return words.NONE if number is None else f"{number:,}"


def _seconds(run: Run) -> float:
    """Training time; so far if the run is unfinished, NaN before the first epoch."""
    return float(run.result["seconds"]) if run.finished else float(run.metrics["seconds"].max())
