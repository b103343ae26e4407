"""Generated parts of docs/accuracy.md: the estimators beside other methods, and readouts of the networks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from docs.build.pages import load_results, part, provenance, table
from docs.build.reproduction import finished_runs, grouped

PAGE = "docs/accuracy.md"
METHODS = {
    "bank": "bank", "minirocket": "MiniRocket", "network": "network", "both": "both",
    "lstm": "LSTM", "guess": "guess",
}  # fmt: skip
RATES = ("respiratory rate", "heart rate")  # errors, where all other sets have accuracies
Results = Mapping[str, Any]


def _score(scores: list[float]) -> str:
    deviation = f" ± {np.std(scores):.3f}" if np.std(scores) > 0 else ""
    return f"{np.mean(scores):.3f}{deviation}"


def _by_method(name: str, first: str, cell: Callable[[Results], str], sets: Sequence[str], mean: bool = False) -> None:
    """Registers a table with a row per data set and a column per method; ``cell`` is the text of one result."""

    def build() -> list[str]:
        known = load_results("estimators")["sets"]
        rows = {key: {method: cell(known[key][method]) for method in METHODS if method in known[key]} for key in sets}
        if mean:
            rows["**mean**"] = {
                m: f"{np.mean([np.mean(known[key][m]['scores']) for key in sets]):.3f}" for m in METHODS
            }
        fields = " | ".join(map("{{{}}}".format, METHODS))
        return table(rows, f"{first} | {' | '.join(METHODS.values())}", f"{{key}} | {fields}")

    part(PAGE, name)(build)


SETS = [name for name in load_results("estimators")["sets"] if name not in RATES]
_by_method("accuracy", "accuracy", lambda result: _score(result["scores"]), SETS, mean=True)
_by_method("errors", "RMSE, per minute", lambda result: _score(result["scores"]), RATES)
_by_method("seconds", "CPU seconds", lambda result: f"{np.mean(result['seconds']):.1f}", [*SETS, *RATES])
_by_method("megabytes", "MB", lambda result: f"{result['megabytes']:,}", [*SETS, *RATES])


@part(PAGE, "sizes")
def sizes() -> list[str]:
    rows = {name: known["sizes"] for name, known in load_results("estimators")["sets"].items()}
    return table(rows, "data set | series to fit | steps | channels", "{key} | {n:,} | {N:,} | {d}")


@part(PAGE, "bank")
def bank() -> list[str]:
    result = load_results("bank")
    return [
        provenance(load_results("estimators")),
        "",
        f"`OscillatorBank().fit_transform` of {result['n']:,} series of {result['N']:,} steps: {result['seconds']:.0f} "
        f"s, {result['processor_seconds']:.0f} s of CPU time, {result['megabytes']:,} MB. {provenance(result)}",
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
