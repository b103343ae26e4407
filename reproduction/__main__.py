"""Repeats the recorded runs of a group: one process per core, each with one thread; finished ones are kept.

    python -m reproduction GROUP [--data DIR] [--runs DIR] [--workers 2] [--only NAME ...] [--record]

results/reproduction/GROUP.json has the command of every run, with its settings, protocol, versions, result and learning
curve. Run folders are DIR/GROUP/NAME (default: runs/reproduction/GROUP/NAME). Runs that ``unicornn train`` has put
there are recorded as well; with --record, nothing is trained. Records of runs without a folder stay in the file.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from reproduction import RESULTS
from unicornn import UnICORNN
from unicornn._files import write_json
from unicornn.lab._run_folder import Run
from unicornn.lab.report import find_runs
from unicornn.lab.training import load_network

COLUMNS = ("epoch", "seconds", "train_loss", "valid", "w_norm")  # prefixes of the recorded columns of metrics.csv
MAX_EPOCHS = 60  # in a recorded curve, evenly spaced, including the first and the last


def recorded(path: Path) -> dict[str, dict[str, Any]]:
    """The records of a group, by the names of the runs."""
    records = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return {record["name"]: record for record in records}


def train(out: Path, command: str) -> str:
    """Starts or resumes one run, and returns a line about its outcome."""
    if Run(out).finished:
        return f"{out.name}: already finished"
    words = [sys.executable, "-m", *shlex.split(command), "--out", str(out)]
    words += ["--resume"] if (out / "config.json").exists() else []
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.with_name(f"{out.name}.log").open("a") as log:
        status = subprocess.run(words, env=environment, stdout=log, stderr=log, check=False).returncode
    return f"{out.name}: " + ("finished" if status == 0 else f"exit status {status}, see {out.name}.log")


def main(
    group: str,
    data: Annotated[Path | None, typer.Option(envvar="UNICORNN_DATA")] = None,
    runs: Path = Path("runs/reproduction"),
    workers: int = os.cpu_count() or 1,
    only: list[str] = [],  # noqa: B006
    record: bool = False,
) -> None:
    """Repeats the recorded runs of GROUP, or those named by --only; --record trains nothing."""
    records, folder = recorded(RESULTS / f"{group}.json"), runs / group
    options = f" --data {shlex.quote(str(data))}" if data else ""
    chosen = {} if record else {name: known["command"] + options for name, known in records.items()}
    with ThreadPoolExecutor(workers) as pool:
        names = [name for name in chosen if not only or name in only]
        for outcome in pool.map(lambda name: train(folder / name, chosen[name]), names):
            print(outcome, flush=True)
    update_records(RESULTS / f"{group}.json", find_runs([folder]) if folder.exists() else [])


def update_records(path: Path, runs: Iterable[Run]) -> None:
    """Writes the records of the runs, beside those of other runs in the file. Finished runs are never replaced by
    unfinished ones."""
    records = recorded(path)
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
    typer.run(main)
