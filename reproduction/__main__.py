"""Runs the reproduction, or goes on with it: one process per core, each with one thread; finished runs are kept.

    python -m reproduction GROUP [--data DIR] [--runs DIR] [--workers 2] [--only NAME ...]

The numbers go to results/reproduction/GROUP.json, those of unfinished runs too; the runs themselves to DIR/GROUP, by
default runs/reproduction/GROUP. What the file has of runs whose folders are not there stays in it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.planned import Planned
from reproduction.plans import GROUPS, planned
from reproduction.record import recorded
from unicornn import UnICORNN
from unicornn._files import write_json
from unicornn.lab._run_folder import Run
from unicornn.lab.report import find_runs
from unicornn.lab.training import load_network

ROOT = Path(__file__).parent.parent


def carry_out(plan: Planned, folder: Path, data: list[str]) -> str:
    """Trains one run, from where it was; returns how it ended."""
    out = folder / plan.name
    if Run(out).finished:
        return f"{plan.name}: done before"
    command = [sys.executable, "-m", "unicornn", "train", *plan.arguments, "--out", str(out), *data]
    command += ["--resume"] if (out / "config.json").exists() else []
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{plan.name}.log").open("a") as log:
        status = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False).returncode
    return f"{plan.name}: " + ("done" if status == 0 else f"ended with status {status}, see {plan.name}.log")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("group", choices=sorted(GROUPS))
    parser.add_argument("--data", help="folder of the data files")
    parser.add_argument("--runs", type=Path, help="folder of the runs", default=ROOT / "runs" / "reproduction")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="*", help="names of single runs; none of them, to keep only what is there")
    options = parser.parse_args()
    folder = options.runs / options.group
    plans = [plan for plan in planned(options.group) if options.only is None or plan.name in options.only]
    data = ["--data", options.data] if options.data else []
    with ThreadPoolExecutor(options.workers) as pool:
        for outcome in pool.map(lambda plan: carry_out(plan, folder, data), plans):
            print(outcome, flush=True)
    keep(ROOT / "results" / "reproduction" / f"{options.group}.json", find_runs([folder]) if folder.exists() else [])


def keep(path: Path, runs: Iterable[Run]) -> None:
    """Writes what the runs gave beside what the file has of others. An unfinished run replaces no finished one."""
    records = (
        {record["name"]: record for record in json.loads(path.read_text(encoding="utf-8"))} if path.exists() else {}
    )
    for run in runs:
        name = run.path.name
        if run.finished or not records.get(name, {}).get("result"):
            records[name] = {"name": name} | recorded(run) | measured(run)
    write_json(path, list(records.values()))


def measured(run: Run) -> dict[str, Any]:
    """How many sequences were tested; the effective time steps Δt σ̂(c) of the best weights, (L, m), if drawn."""
    path = run.path / "predictions.npz"
    tested = {"test_sequences": len(np.load(path, allow_pickle=False)["target"])} if path.exists() else {}
    if not run.path.name.startswith("psmnist") or not (run.path / "best.safetensors").exists():
        return tested
    rnn = load_network(run).rnn
    if not isinstance(rnn, UnICORNN):
        return tested
    return tested | {"time_steps": [[float(f"{a:.3g}") for a in layer] for layer in rnn.time_steps().tolist()]}


if __name__ == "__main__":
    main()
