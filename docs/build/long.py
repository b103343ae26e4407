"""The table and the plots of docs/long.md, from what ``python -m benchmarks.long`` left in results/long."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from docs.build.pages import RESULTS, measured, provenance, table

PAGE = "docs/long.md"
LONGEST = {"recall": 1_000_000, "adding": 10_000}
LABELS = {"recall": "accuracy in training", "adding": "mean square error in training"}
Result = Mapping[str, Any]


def runs(task: str) -> list[Result]:
    """The results of a task, UnICORNN's first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((RESULTS / "long").glob(f"{task}-*.json"))]
    return sorted(found, key=lambda run: run["model"] != "unicornn")


def row(run: Result) -> list[str]:
    """A model, the longest sequences that it mastered, and how it ended."""
    stages = run["stages"]
    mastered = [stage for stage in stages if stage["mastered"]]
    last = stages[-1] if stages else {"N": 0, "why": "nothing was measured"}
    tested = [f"{_metric(run, stage['test'])} at N = {stage['N']:,}" for stage in stages if "test" in stage]
    end = f"at N = {last['N']:,} {last['why']}"
    if last.get("mastered"):
        end = "all stages" if last["N"] >= LONGEST[run["task"]] else "it was stopped before its time was over"
    longest = f"{mastered[-1]['N']:,}" if mastered else "–"
    spent, memory = f"{run['CPU seconds'] / 60:.1f}", f"{run['peak memory, GiB']:.1f}"
    return [run["model"], f"{run['parameters']:,}", longest, tested[-1] if tested else "–", end, spent, memory]


def _metric(run: Result, value: float) -> str:
    return f"{value:.1%}" if run["task"] == "recall" else f"{value:.4f}"


HEAD = ["model", "parameters", "longest N mastered", "on fresh sequences", "ended", "CPU minutes", "peak memory, GiB"]


def memory(found: Sequence[Result]) -> list[str]:
    """A row for each model: the peak at each length, or why there is none."""
    lengths = sorted({step["N"] for run in found for step in run["steps of training"]})
    rows = []
    for run in found:
        steps = {step["N"]: step for step in run["steps of training"]}
        rows.append([run["model"], *(_peak(steps.get(N)) for N in lengths)])
    return table(["model", *(f"N = {N:,}" for N in lengths)], rows)


def _peak(step: Result | None) -> str:
    if step is None:
        return "–"
    return step["why"] if "why" in step else f"{step['peak memory, GiB']:.2f} GiB, {step['CPU seconds']:.1f} s"


def blocks() -> dict[str, list[str]]:
    tables = {task: table(HEAD, map(row, found)) for task in LABELS if (found := runs(task))}
    return tables | ({"memory": memory(found)} if (found := runs("memory")) else {}) | {"horizon": horizon()}


def horizon() -> list[str]:
    """What a horizon costs, from results/horizon.json."""
    found = measured("horizon")
    rows = [
        [row["setting"], row["gradient"], f"{row['without']:.0f} ms", f"{row['with']:.0f} ms", f"{row['ratio']:.3f}"]
        for row in found["milliseconds"]
    ]
    head = ["a step of training", "gradients", "without", f"horizon={found['horizon']}", "ratio"]
    return [*table(head, rows), "", provenance(found)]


def curve(found: Sequence[Result], label: str) -> Figure:
    """The metric during training against CPU time; a line for each model, a mark where sequences become longer."""
    figure = Figure(figsize=(7, 3.6), layout="constrained", facecolor="white")
    axis = figure.subplots()
    for run in found:
        points = run["curve"]["N, CPU seconds, loss, metric"]
        stages = [[p[3] for p in stage] for _, stage in itertools.groupby(points, key=lambda p: p[0])]
        values = [value for stage in stages for value in _smooth(stage)]
        line = axis.plot([p[1] / 60 for p in points], values, label=run["model"])[0]
        for before, after in itertools.pairwise(points):
            if after[0] != before[0]:
                axis.axvline(after[1] / 60, color=line.get_color(), linewidth=0.6, linestyle=":")
    axis.set(xlabel="CPU minutes", ylabel=label, xscale="log", yscale="log" if "error" in label else "linear")
    axis.grid(alpha=0.3)
    axis.legend()
    return figure


def memory_curve(found: Sequence[Result]) -> Figure:
    """The peak memory of a step of training against the length; beneath, what the input alone takes."""
    figure = Figure(figsize=(7, 3.6), layout="constrained", facecolor="white")
    axis = figure.subplots()
    for run in found:
        steps = [step for step in run["steps of training"] if "why" not in step]
        axis.plot([s["N"] for s in steps], [s["peak memory, GiB"] for s in steps], "o-", label=run["model"])
    steps = max((run["steps of training"] for run in found), key=len)
    known = [(s["N"], s["input, GiB"]) for s in steps if "why" not in s]
    axis.plot(*zip(*known, strict=True), "k:", label="the input alone")
    axis.set(xlabel="N", ylabel="peak memory, GiB", xscale="log", yscale="log")
    axis.grid(alpha=0.3)
    axis.legend()
    return figure


def _smooth(values: Sequence[float], over: int = 10) -> list[float]:
    windows = [values[max(0, i - over + 1) : i + 1] for i in range(len(values))]
    return [sum(window) / len(window) for window in windows]


def plots() -> dict[str, Figure]:
    drawn = {f"long_{task}": curve(found, label) for task, label in LABELS.items() if (found := runs(task))}
    return drawn | ({"long_memory": memory_curve(found)} if (found := runs("memory")) else {})
