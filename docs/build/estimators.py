"""Generated parts of docs/estimators.md, from the results of the benchmarks of estimators, readouts and time scales."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from docs.build.pages import load_results, part, provenance, table
from docs.build.reproduction import finished_runs, grouped

PAGE = "docs/estimators.md"
METHODS = {
    "bank": "default (bank)", "minirocket": "MiniRocket + ridge", "network": 'model="network"', "both": 'model="both"',
    "lstm": "LSTM of the network's size", "guess": "guessing",
}  # fmt: skip
RATES = ("respiratory rate", "heart rate")  # errors, where all other sets have accuracies
Results = Mapping[str, Any]


def _score(scores: list[float]) -> str:
    deviation = f" ± {np.std(scores):.3f}" if np.std(scores) > 0 else ""
    return f"{np.mean(scores):.3f}{deviation}"


def _by_method(sets: Results, text: Callable[[Results], str]) -> dict[str, dict[str, str]]:
    return {
        name: {method: text(result[method]) for method in METHODS if method in result} for name, result in sets.items()
    }


@part(PAGE, "results")
def results() -> list[str]:
    benchmark = load_results("estimators")
    sets = benchmark["sets"]
    labels, cells = (" | ".join(each) for each in (METHODS.values(), map("{{{}}}".format, METHODS)))
    scores = _by_method(sets, lambda result: _score(result["scores"]))
    costs = _by_method(
        sets, lambda result: f"{np.mean(result['seconds']):.1f} s, {result['megabytes']:,} MB, {len(result['scores'])}"
    )
    for name, row in costs.items():
        row["size"] = "{n} × {N:,} × {d}".format(**sets[name]["sizes"])
    accuracies, errors = ({name: scores[name] for name in scores if (name in RATES) == rate} for rate in (False, True))
    accuracies["**mean**"] = {
        method: f"{np.mean([np.mean(sets[name][method]['scores']) for name in accuracies]):.3f}" for method in METHODS
    }
    return [
        *table(accuracies, f"accuracy | {labels}", f"{{key}} | {cells}"),
        "",
        *table(errors, f"root mean squared error, per minute | {labels}", f"{{key}} | {cells}"),
        "",
        *table(
            costs, f"CPU time of fit and predict, memory, seeds | n × N × d | {labels}", f"{{key}} | {{size}} | {cells}"
        ),
        "",
        provenance(benchmark),
    ]


@part(PAGE, "bank")
def bank() -> list[str]:
    result = load_results("bank")
    return [
        f"`OscillatorBank().fit_transform` of {result['n']:,} series of {result['N']:,} steps: {result['seconds']:.0f} "
        f"s, {result['processor_seconds']:.0f} s of CPU time, {result['megabytes']:,} MB. {provenance(result)}"
    ]


@part(PAGE, "readouts")
def readouts() -> list[str]:
    """Scores of the same network with different readouts."""
    rows = []
    for _, runs in sorted(
        grouped(finished_runs("energies/.*"), lambda run: tuple(_readout_setting(run).values())).items()
    ):
        scores = {subset: _score([run["result"][subset] for run in runs]) for subset in ("valid", "test")}
        rows.append(_readout_setting(runs[0]) | scores | {"runs": len(runs)})
    heading = "task | sequences | readout | epochs | metric | validation | test | runs"
    return [
        *table(rows, heading, "{title} | {sequences} | {readout} | {epochs} | {metric} | {valid} | {test} | {runs}"),
        "",
        "`python -m reproduction energies`; within a task and kind of sequences, all other settings are equal.",
    ]


def _readout_setting(run: Results) -> dict[str, Any]:
    """The settings that a run shares with other folds; ``name`` is the run's name without the fold."""
    options, model = run["task_options"], run["model_options"]
    sequences = options.get("split") or run["variant"] or ("crops" if {"window", "crops"} & set(options) else "whole")
    sequences += ", stretched" if options.get("stretch") else ""
    readout = model.get("readout", "last")
    name = re.sub(r"-\d$", "", run["name"]) if run["task"] == "worms44" else run["name"]
    shared = {"title": run["title"], "sequences": sequences, "readout": readout, "epochs": run["training"]["epochs"]}
    return shared | {"metric": run["metric"], "name": name}


@part(PAGE, "spread")
def initial_time_scales() -> list[str]:
    """Validation scores by the range from which c is drawn."""
    result = load_results("spread")
    scores = {name: task["scores"] for name, task in result["tasks"].items()}
    ranges = list(next(iter(scores.values())))
    rows = {name: {f"range {i}": _score(each[ends]) for i, ends in enumerate(ranges)} for name, each in scores.items()}
    for name, row in rows.items():
        row["seeds"] = "–".join(map(str, sorted({len(each) for each in scores[name].values()})))
    cells = " | ".join(f"{{range {i}}}" for i in range(len(ranges)))
    lines = table(rows, f"range of c | {' | '.join(ranges)} | seeds", f"{{key}} | {cells} | {{seeds}}")
    return [*lines, "", f"{result['seconds'] / 60:.0f} CPU minutes in total. {provenance(result)}"]
