"""Measurements as jobs, each in a separate process; finished ones are saved, so that a killed bench can be resumed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from unicornn import _checks as checks
from unicornn._files import write_json
from unicornn.errors import BadValue

LAYERS = {"unicornn": 2, "sru": 2, "indrnn": 2}
"""Number of layers (L) in the paper's Fig. 2; 1 for all others."""
SECONDS = 10.0
TIMEOUT = 300  # seconds, for one process
# At depth 2 and d = m = 128 the matrix of a signature NCDE would have 413 million entries.
OPTIONS: dict[str, dict[str, Any]] = {
    "sru": {"batch_norm": True}, "indrnn": {"batch_norm": True}, "sign-ncde": {"depth": 1},
}  # fmt: skip
NEEDED_LIBRARIES = {"sign-ncde": "pysiglib"}


@dataclass(frozen=True, kw_only=True)
class Job:
    """One measurement of a model.

    ``kind`` is "time" or "memory" of a training step; "forward", the time of a pass without gradient; or "step", that
    of one step of a stream.
    """

    kind: str
    model: str
    layers: int
    options: Mapping[str, Any] = field(default_factory=dict)
    N: int
    b: int
    d: int
    m: int
    reference_layers: int = LAYERS["unicornn"]  # of the UnICORNN that is measured alternately
    seconds: float = SECONDS  # limit of a time measurement
    threads: int = field(default_factory=torch.get_num_threads)

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def find_candidates(models: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
    """``model``, ``layers``, ``options`` of UnICORNN with both gradient methods, then of baselines; see ``bench``."""
    from unicornn.baselines import MODELS

    if models is None:
        needed = NEEDED_LIBRARIES
        models = [name for name in MODELS if name not in needed or importlib.util.find_spec(needed[name]) is not None]
    baselines, our_layers = {}, LAYERS["unicornn"]
    for text in models:
        name, _, number = text.partition(":")
        checks.choice("models", name, ("unicornn", *MODELS))
        if number and not (number.isdecimal() and int(number) > 0):
            raise BadValue(f"models: expected NAME or NAME:L with L layers, got {text!r}")
        layers = int(number) if number else LAYERS.get(name, 1)
        if name == "unicornn":
            our_layers = layers
        else:
            baselines[text] = {"model": name, "layers": layers, "options": OPTIONS.get(name, {})}
    ours: dict[str, Any] = {"model": "unicornn", "layers": our_layers}
    return {f"unicornn, {g}": ours | {"options": {"gradient": g}} for g in ("stored", "reversible")} | baselines


def run_in_process(job: Job) -> dict[str, Any]:
    """Runs a job in a new process: its result, or {"failed": reason}."""
    command = [sys.executable, "-m", "unicornn.lab.bench._measure", job.as_json()]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {TIMEOUT} s"}
    if done.returncode:
        errors = done.stderr.strip().splitlines()
        return {"failed": errors[-1] if errors and done.returncode > 0 else f"ended with status {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def run_jobs(jobs: Mapping[Any, Job], path: Path, console: Console | None = None) -> dict[Any, dict[str, Any]]:
    """The results of all jobs, by the same keys. The file ``path`` has the results so far; failed jobs are repeated."""
    saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    results: dict[Any, dict[str, Any]] = {}
    columns = (TextColumn("{task.description:36}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console or Console(quiet=True)) as progress:
        bar = progress.add_task("", total=len(jobs))
        for key, job in jobs.items():
            progress.update(bar, description=f"{job.model}, {job.kind}, N={job.N}")
            text = job.as_json()
            results[key] = saved[text] if text in saved else run_in_process(job)
            if text not in saved and "failed" not in results[key]:
                saved[text] = results[key]
                write_json(path, saved)
            progress.advance(bar)
    return results
