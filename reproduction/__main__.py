"""Runs or resumes a group of the reproduction: one process per core, each with one thread. Finished runs are kept.

    python -m reproduction GROUP [--data DIR] [--runs DIR] [--workers 2] [--only NAME ...]

Records of all runs, finished or not, go to results/reproduction/GROUP.json, and the run folders to DIR/GROUP (default:
runs/reproduction/GROUP). Records of runs whose folders are absent stay in the file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.plans import GROUPS, Planned, planned
from unicornn import UnICORNN
from unicornn._files import write_json
from unicornn.lab._run_folder import Run
from unicornn.lab.report import find_runs
from unicornn.lab.training import load_network

ROOT = Path(__file__).parent.parent
COLUMNS = ("epoch", "seconds", "train_loss", "valid", "w_norm")  # prefixes of the recorded columns of metrics.csv
MAX_EPOCHS = 60  # in a recorded curve, evenly spaced, including the first and the last


def train(plan: Planned, folder: Path, data: list[str]) -> str:
    """Starts or resumes one run, and returns a line about its outcome."""
    out = folder / plan.name
    if Run(out).finished:
        return f"{plan.name}: already finished"
    command = [sys.executable, "-m", "unicornn", "train", *plan.arguments, "--out", str(out), *data]
    command += ["--resume"] if (out / "config.json").exists() else []
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{plan.name}.log").open("a") as log:
        status = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False).returncode
    return f"{plan.name}: " + ("finished" if status == 0 else f"exit status {status}, see {plan.name}.log")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("group", choices=sorted(GROUPS))
    parser.add_argument("--data", help="folder with the data files")
    parser.add_argument("--runs", type=Path, help="folder for the runs", default=ROOT / "runs" / "reproduction")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--only", nargs="*", help="names of the runs to train; without names, only the records are updated"
    )
    options = parser.parse_args()
    folder = options.runs / options.group
    plans = [plan for plan in planned(options.group) if options.only is None or plan.name in options.only]
    data = ["--data", options.data] if options.data else []
    with ThreadPoolExecutor(options.workers) as pool:
        for outcome in pool.map(lambda plan: train(plan, folder, data), plans):
            print(outcome, flush=True)
    path = ROOT / "results" / "reproduction" / f"{options.group}.json"
    update_records(path, find_runs([folder]) if folder.exists() else [])


def update_records(path: Path, runs: Iterable[Run]) -> None:
    """Writes the records of the runs, beside those of other runs in the file. Finished runs are never replaced by
    unfinished ones."""
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    records = {record["name"]: record for record in old}
    for run in runs:
        name = run.path.name
        if run.finished or not records.get(name, {}).get("result"):
            records[name] = {"name": name} | run_record(run)
    write_json(path, list(records.values()))


def run_record(run: Run) -> dict[str, Any]:
    """Settings, protocol, versions, result and learning curve of a run; the number of its test sequences, and for
    psMNIST the effective time steps Δt σ̂(c) (L, m) of the best weights."""
    metrics = run.metrics[[name for name in run.metrics if name.startswith(COLUMNS) and name != "valid_loss"]]
    metrics = metrics.iloc[np.unique(np.linspace(0, len(metrics) - 1, MAX_EPOCHS).round().astype(int))]
    curve = {name: [float(f"{value:.5g}") for value in metrics[name]] for name in metrics}
    command = re.sub(r" --(?:(?:out|data) \S+|resume)", "", run.config["command"])  # without this machine's folders
    result = run.result if run.finished else None
    record = run.config | {"command": command, "environment": run.environment, "result": result, "curve": curve}
    if run.predictions is not None:
        record["test_sequences"] = len(run.predictions["target"])
    if run.path.name.startswith("psmnist") and (run.path / "best.safetensors").exists():
        rnn = load_network(run).rnn
        if isinstance(rnn, UnICORNN):
            record["time_steps"] = [[float(f"{a:.3g}") for a in layer] for layer in rnn.time_steps().tolist()]
    return record


if __name__ == "__main__":
    main()
