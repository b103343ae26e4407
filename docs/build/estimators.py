"""The comparison in docs/estimators.md, from results/estimators.json; what ranges of c are worth, from
results/spread.json; and what readouts and a large table cost, from results/reproduction/energies.json and
results/bank.json, once these are there."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from docs.build.pages import RESULTS, measured, provenance, table
from docs.build.reproduction.results import group, together
from unicornn.readouts import parse

PAGE = "docs/estimators.md"
HEADS = {
    "bank": "default (bank)", "minirocket": "MiniRocket + ridge", "network": 'model="network"', "both": 'model="both"',
    "lstm": "LSTM of the network's size", "guess": "guessing",
}  # fmt: skip
RATES = ("respiratory rate", "heart rate")


def blocks() -> dict[str, list[str]]:
    result = measured("estimators")
    sets = result["sets"]
    methods = [method for method in HEADS if any(method in own for own in sets.values())]
    classes = [name for name in sets if name not in RATES]
    rates = [name for name in sets if name in RATES]
    lines = table(["accuracy", *(HEADS[m] for m in methods)], [_row(name, sets[name], methods) for name in classes])
    lines += ["", *_means(sets, classes, methods), "", _ahead(sets)]
    if rates:
        head = ["root mean squared error, per minute", *(HEADS[m] for m in methods)]
        lines += ["", *table(head, [_row(name, sets[name], methods) for name in rates])]
    lines += ["", *_cost(sets, methods), "", provenance(result)]
    return {"results": lines, "bank": _bank(), "readouts": _readouts(), "spread": _spread()}


def _means(sets: dict[str, Any], classes: list[str], methods: list[str]) -> list[str]:
    """The mean accuracy of every method beside that of the default, over the sets that both have."""
    rows = []
    for method in methods:
        if method == "bank":
            continue
        common = [name for name in classes if {"bank", method} <= set(sets[name])]
        own, default = (np.mean([_mean(sets[name][m]) for name in common]) for m in (method, "bank"))
        rows.append([HEADS[method], len(common), f"{own:.3f}", f"{default:.3f}"])
    return table(["mean accuracy", "sets that both have", "of the method", "of the default there"], rows)


def _ahead(sets: dict[str, Any]) -> str:
    """Where MiniRocket is better than the default, and by how much; and where there is no difference."""
    ahead, level = [], []
    for name, own in sets.items():
        if not {"bank", "minirocket"} <= set(own):
            continue
        lead = _mean(own["minirocket"]) - _mean(own["bank"])
        lead = -lead if name in RATES else lead
        if lead > 0:
            ahead.append(f"{name} (by {lead:.3f}{' per minute' if name in RATES else ''})")
        elif lead == 0:
            level.append(name)
    return (
        f"MiniRocket is ahead on {', '.join(ahead) or 'none of the sets'}; on {', '.join(level) or 'none'} there is no "
        "difference, and on all others the default is ahead."
    )


def _mean(found: dict[str, Any]) -> float:
    return float(np.mean(found["scores"]))


def _bank() -> list[str]:
    """The time that a large table takes, if it was measured."""
    if not (RESULTS / "bank.json").exists():
        return []
    found = measured("bank")
    return [
        f"`OscillatorBank().fit_transform` of {found['n']:,} series of {found['N']:,} steps: {found['seconds']:.0f} s, "
        f"{found['processor_seconds']:.0f} s of the processor, {found['megabytes']:,} MB. " + provenance(found)
    ]


def _readouts() -> list[str]:
    """Scores of the same network with the last output and with energies, as far as they were trained."""
    runs = together(group("energies"), _setting)
    if not runs:
        return []
    rows = [[*setting[:-1], *(_score([run["result"][part] for run in found]) for part in ("valid", "test")), len(found)]
            for setting, found in sorted(runs.items())]  # fmt: skip
    head = ["task", "sequences", "readout", "segments", "epochs", "metric", "validation", "test", "runs"]
    return [
        "What each is worth by itself:",
        "",
        *table(head, rows),
        "",
        "`python -m reproduction energies`: all else is the same within a task and kind of sequences.",
    ]


def _spread() -> list[str]:
    """Validation scores by the range from which c is drawn."""
    found = measured("spread")
    ranges = list(next(iter(found["tasks"].values()))["scores"])
    rows = []
    for name, own in found["tasks"].items():
        counts = sorted({len(scores) for scores in own["scores"].values()})
        cells = [_score(own["scores"][ends]) for ends in ranges]
        rows.append([name, *cells, " or ".join(map(str, counts))])
    minutes = f"{found['seconds'] / 60:.0f} minutes of the processor in all. "
    return [*table(["c from", *ranges, "seeds"], rows), "", minutes + provenance(found)]


def _setting(run: dict[str, Any]) -> tuple[str, ...]:
    """What a run has in common with those of other folds and seeds; it ends with the name, without the fold."""
    options, reading = run["task_options"], run["model_options"]
    sequences = options.get("split") or run["variant"] or ("crops" if {"window", "crops"} & set(options) else "whole")
    sequences += ", stretched" if options.get("stretch") else ""
    readout = parse(reading.get("readout", "last"))
    sizes = (str(readout.segments), str(run["training"]["epochs"]))
    name = re.sub(r"-\d$", "", run["name"]) if run["task"] == "worms44" else run["name"]
    return run["title"], sequences, "+".join(part.name for part in readout.parts), *sizes, run["metric"], name


def _row(name: str, own: dict[str, Any], methods: list[str]) -> list[str]:
    return [name, *(_score(own[m]["scores"]) if m in own else "–" for m in methods)]


def _score(scores: list[float]) -> str:
    spread = f" ± {np.std(scores):.3f}" if len(scores) > 1 and np.std(scores) > 0 else ""
    return f"{np.mean(scores):.3f}{spread}"


def _cost(sets: dict[str, Any], methods: list[str]) -> list[str]:
    rows = []
    for name, own in sets.items():
        size = own["sizes"]
        cells = [_costs(own[m]) if m in own else "–" for m in methods]
        rows.append([name, f"{size['n']} × {size['N']:,} × {size['d']}", *cells])
    heads = [
        "seconds of the processor for fit and prediction, memory, seeds",
        "n × N × d",
        *(HEADS[m] for m in methods),
    ]
    return table(heads, rows)


def _costs(found: dict[str, Any]) -> str:
    return f"{np.mean(found['seconds']):.1f} s, {found['megabytes']:,} MB, {len(found['scores'])}"


def plots() -> dict[str, Figure]:
    return {}
