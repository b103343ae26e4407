"""Generated parts of docs/long.md, from results/long."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from docs.build.pages import RESULTS, figure, fill_in, part, table
from unicornn.theory.plots import Line, Panel, Plot

LAST_STAGE = {"recall": 1_000_000, "adding": 10_000}
PEAK = "{peak memory, GiB:.2f} GiB, {CPU seconds:.1f} s"
METRIC = {"recall": "{:.1%}", "adding": "{:.4f}"}
SMOOTHED = 10  # batches averaged in a learning curve
Result = dict[str, Any]


def results_of_task(task: str) -> list[Result]:
    """The results of a task, UnICORNN's first."""
    paths = sorted((RESULTS / "long").glob(f"{task}-*.json"))
    results = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return sorted(results, key=lambda run: run["model"] != "unicornn")


def longest_mastered(run: Result) -> int:
    """The longest sequences that a model mastered; 0 for none."""
    return max((stage["N"] for stage in run["stages"] if not stage["why"]), default=0)


def _tested(run: Result) -> str | None:
    tests = [stage for stage in run["stages"] if "test" in stage]
    return f"{METRIC[run['task']].format(tests[-1]['test'])} at N = {tests[-1]['N']:,}" if tests else None


def _outcome(run: Result) -> str:
    last = run["stages"][-1]
    if last["why"]:
        return f"at N = {last['N']:,}: {last['why']}"
    return "all stages mastered" if last["N"] >= LAST_STAGE[run["task"]] else "stopped early"


@part
def learning(task: str) -> list[Result]:
    return [
        run | {"longest": longest_mastered(run) or None, "tested": _tested(run), "outcome": _outcome(run)}
        | {"minutes": run["CPU seconds"] / 60}
        for run in results_of_task(task)
    ]  # fmt: skip


@part
def memory_by_length() -> list[str]:
    rows = []
    for run in results_of_task("memory"):
        steps = {f"N{step['N']}": step for step in run["stages"]}
        rows.append({N: step.get("why") or fill_in(PEAK, step) for N, step in steps.items()} | {"model": run["model"]})
    lengths = sorted({int(N[1:]) for row in rows for N in row if N != "model"})
    heading = "model" + "".join(f" | N = {N:,}" for N in lengths)
    return table(rows, heading, "{model}" + "".join(f" | {{N{N}}}" for N in lengths))


def _learning_curves(task: str, label: str, scale: str) -> Figure:
    """The metric during training against CPU time, smoothed within each stage of sequence lengths."""
    lines = []
    for run in results_of_task(task):
        curve = pd.DataFrame(run["curve"]["N, CPU seconds, loss, metric"], columns=["N", "seconds", "loss", "metric"])
        smoothed = curve.groupby("N", sort=False)["metric"].rolling(SMOOTHED, min_periods=1).mean()
        lines.append(Line(run["model"], (curve["seconds"] / 60).tolist(), smoothed.tolist()))
    return Plot("", [Panel("CPU minutes", label, lines, {"xscale": "log", "yscale": scale})]).draw()


figure("long_recall")(partial(_learning_curves, "recall", "accuracy in training", "linear"))
figure("long_adding")(partial(_learning_curves, "adding", "mean square error in training", "log"))
