"""What is measured, and a run over it that can be killed and goes on: each measurement has a process of its own."""

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
from unicornn.errors import BadValue

LAYERS = {"unicornn": 2, "sru": 2, "indrnn": 2}
"""L of the paper's Fig. 2; 1 for all others."""
SECONDS = 10.0
PATIENCE = 300  # seconds for a process that measures, however slow the model
# At depth 2 and d = m = 128 the matrix of a signature NCDE would have 413 million entries.
OPTIONS: dict[str, dict[str, Any]] = {
    "sru": {"batch_norm": True}, "indrnn": {"batch_norm": True}, "sign-ncde": {"depth": 1},
}  # fmt: skip
NEEDS = {"sign-ncde": "pysiglib"}


@dataclass(frozen=True)
class Candidate:
    """A model with its number of layers and its options.

    Example:
        >>> from unicornn.lab.bench import Candidate
        >>> Candidate("lstm", layers=1).options
        {}
    """

    model: str
    layers: int
    options: Mapping[str, Any] = field(default_factory=dict)


def candidates(models: Iterable[str] | None = None) -> dict[str, Candidate]:
    """UnICORNN with both gradient methods, then the baselines, with the number of layers of the paper's Fig. 2.

    Args:
        models: names of ``unicornn.baselines.MODELS``, or NAME:L for L layers; if None, all whose libraries are
            installed. "unicornn:L" sets the number of layers of UnICORNN, which is there always.

    Example:
        >>> from unicornn.lab.bench import candidates
        >>> {name: each.layers for name, each in candidates(["lstm", "lstm:2", "sru"]).items()}
        {'unicornn, stored': 2, 'unicornn, reversible': 2, 'lstm': 1, 'lstm:2': 2, 'sru': 2}
    """
    from unicornn.baselines import MODELS

    if models is None:
        models = [name for name in MODELS if name not in NEEDS or importlib.util.find_spec(NEEDS[name]) is not None]
    found, ours = {}, LAYERS["unicornn"]
    for each in models:
        name, _, number = each.partition(":")
        checks.choice("models", name, ("unicornn", *MODELS))
        if number and not (number.isdecimal() and int(number) > 0):
            raise BadValue(f"models: expected NAME or NAME:L with L layers, got {each!r}")
        L = int(number) if number else LAYERS.get(name, 1)
        if name == "unicornn":
            ours = L
        else:
            found[each] = Candidate(name, L, OPTIONS.get(name, {}))
    return {
        f"unicornn, {way}": Candidate("unicornn", ours, {"gradient": way}) for way in ("stored", "reversible")
    } | found


@dataclass(frozen=True)
class Job:
    """One measurement of a candidate.

    Attributes:
        kind: "time" or "memory" of a training step, "forward" for the time of a pass without gradient, "step" for that
            of one step of a stream, "product" for the GFLOP/s of torch's matrix product, whatever the candidate.
        N, b, d, m: the sizes.
        ours: L of the UnICORNN that the candidate takes turns with.
        seconds: the limit of a time measurement.
        threads: of torch.

    Example:
        >>> from unicornn.lab.bench import Candidate, Job
        >>> Job("time", Candidate("lstm", 1), N=100, b=4, d=3, m=8).seconds
        10.0
    """

    kind: str
    candidate: Candidate
    N: int
    b: int
    d: int
    m: int
    ours: int = LAYERS["unicornn"]
    seconds: float = SECONDS
    threads: int = field(default_factory=torch.get_num_threads)


def as_json(job: Job) -> str:
    return json.dumps(asdict(job))


def fresh(job: Job) -> dict[str, Any]:
    """The job's result from a new process, or why there is none: {"failed": …}."""
    command = [sys.executable, "-m", "unicornn.lab.bench._measure", as_json(job)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {PATIENCE} s"}
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return {"failed": said[-1] if said and done.returncode > 0 else f"ended with status {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def collect(jobs: Mapping[str, Job], path: Path, console: Console | None = None) -> dict[str, dict[str, Any]]:
    """The results of all jobs. What is done is kept in a file, so a run that was killed goes on from there.

    Args:
        jobs: by name.
        path: of that file. What is in it is used for jobs of the same name and sizes, unless it failed.
        console: where progress is shown; None for none.

    Example:
        >>> import tempfile
        >>> from unicornn.lab.bench import collect
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     collect({}, Path(folder) / "results.json")
        {}
    """
    from unicornn._files import write_json

    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    results: dict[str, dict[str, Any]] = {}
    columns = (TextColumn("{task.description:36}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    quiet = Console(quiet=True)
    with Progress(*columns, TimeRemainingColumn(), console=console or quiet) as progress:
        bar = progress.add_task("", total=len(jobs))
        for name, job in jobs.items():
            progress.update(bar, description=name)
            asked = as_json(job)
            if kept.get(name, {}).get("job") == asked:
                results[name] = kept[name]["result"]
            else:
                results[name] = fresh(job)
                if "failed" not in results[name]:
                    kept[name] = {"job": asked, "result": results[name]}
                    write_json(path, kept)
            progress.advance(bar)
    return results
