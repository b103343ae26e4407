"""Runs the reproduction, or goes on with it: one process per core, each with one thread; finished runs are kept.

    python -m reproduction GROUP [--data DIR] [--workers 2] [--only NAME ...]

The numbers go to results/reproduction/GROUP.json; the runs themselves to runs/reproduction/GROUP.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.plans import GROUPS, Planned, planned
from reproduction.record import recorded
from unicornn.lab._run_folder import Run
from unicornn.lab._whole_files import write_json
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
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="*", help="names of single runs; none of them, to keep only what is there")
    options = parser.parse_args()
    folder = ROOT / "runs" / "reproduction" / options.group
    plans = [plan for plan in planned(options.group) if options.only is None or plan.name in options.only]
    data = ["--data", options.data] if options.data else []
    with ThreadPoolExecutor(options.workers) as pool:
        for outcome in pool.map(lambda plan: carry_out(plan, folder, data), plans):
            print(outcome, flush=True)
    finished = [run for run in find_runs([folder]) if run.finished]
    kept = [{"name": run.path.name} | recorded(run) | measured(run) for run in finished]
    write_json(ROOT / "results" / "reproduction" / f"{options.group}.json", kept)


def measured(run: Run) -> dict[str, Any]:
    """How many sequences were tested; the effective time steps Δt σ̂(c) after training, (L, m), where they are drawn."""
    path = run.path / "predictions.npz"
    tested = {"test_sequences": len(np.load(path, allow_pickle=False)["target"])} if path.exists() else {}
    if run.path.name != "psmnist":
        return tested
    rnn = load_network(run).rnn
    return tested | {"time_steps": [[float(f"{a:.3g}") for a in layer] for layer in rnn.time_steps().tolist()]}  # type: ignore[operator]


if __name__ == "__main__":
    main()
