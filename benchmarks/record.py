"""Keeps what runs gave: one small JSON file from their folders, and their learning curves as a picture.

python -m benchmarks.record RUNS --out results/NAME.json [--figure results/NAME.png] [--against seconds]
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np

from unicornn.lab._run_folder import Run, write_json, written_whole
from unicornn.lab.report import find_runs
from unicornn.lab.report._plots import learning_curves

KEPT = ("epoch", "seconds", "train_loss", "valid", "w_norm")  # columns of metrics.csv begin so
MOST = 60  # epochs of a curve, evenly spaced, the first and the last among them


def recorded(run: Run) -> dict[str, Any]:
    """A run's settings, protocol, versions, result and curve."""
    metrics = run.metrics[[name for name in run.metrics if name.startswith(KEPT) and name != "valid_loss"]]
    metrics = metrics.iloc[np.unique(np.linspace(0, len(metrics) - 1, MOST).round().astype(int))]
    curve = {name: [float(f"{value:.5g}") for value in metrics[name]] for name in metrics}
    result = run.result if run.finished else None
    again = {"command": without_places(run.config["command"])}
    return run.config | again | {"environment": run.environment, "result": result, "curve": curve}


def without_places(command: str) -> str:
    """A command without the folders of this machine."""
    return re.sub(r" --(?:(?:out|data) \S+|resume)", "", command)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--against", default="epoch", choices=("epoch", "seconds"))
    options = parser.parse_args()
    runs = find_runs(options.runs)
    write_json(options.out, [recorded(run) for run in runs])
    if options.figure:
        curves: dict[str, list[Any]] = {}
        for run in runs:
            curves.setdefault(run.config["model"], []).append(run.metrics)
        with written_whole(options.figure) as file:
            figure = learning_curves(curves, runs[0].config["metric"], options.against)
            figure.savefig(file, format=options.figure.suffix[1:], dpi=150)


if __name__ == "__main__":
    main()
