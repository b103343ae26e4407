"""Records of runs, small enough for results/: python -m reproduction.record RUNS --out results/NAME.json"""

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
COLUMNS = ("epoch", "seconds", "train_loss", "valid", "w_norm")  # prefixes of the recorded columns of metrics.csv
MAX_EPOCHS = 60  # in a recorded curve, evenly spaced, including the first and the last


def run_record(run: Run) -> dict[str, Any]:
    """Settings, protocol, versions, result and learning curve of a run."""
    metrics = run.metrics[[name for name in run.metrics if name.startswith(COLUMNS) and name != "valid_loss"]]
    metrics = metrics.iloc[np.unique(np.linspace(0, len(metrics) - 1, MAX_EPOCHS).round().astype(int))]
    curve = {name: [float(f"{value:.5g}") for value in metrics[name]] for name in metrics}
    command = re.sub(
        r" --(?:(?:out|data) \S+|resume)", "", run.config["command"]
    )  # without the folders of this machine
    result = run.result if run.finished else None
    return run.config | {"command": command, "environment": run.environment, "result": result, "curve": curve}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    write_json(options.out, [run_record(run) for run in find_runs(options.runs)])


if __name__ == "__main__":
    main()
