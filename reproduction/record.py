"""Keeps what runs gave, in one small JSON file: python -m reproduction.record RUNS --out results/NAME.json"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np

from unicornn._files import write_json
from unicornn.lab._run_folder import Run
from unicornn.lab.report import find_runs

RESULTS = Path(__file__).parent.parent / "results" / "reproduction"
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
    options = parser.parse_args()
    write_json(options.out, [recorded(run) for run in find_runs(options.runs)])


if __name__ == "__main__":
    main()
