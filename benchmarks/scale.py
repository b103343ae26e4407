"""Measures fits to files larger than memory: ``python -m benchmarks.scale`` writes results/scale.json.

Writes Parquet files of series of 500 steps (a row per series) and fits a classifier to them, once by ``fit_files`` and
once, with the first ``--in-memory`` series, by ``fit``; each in a separate process. Reports CPU seconds by phase,
because other programs may run, and the peak memory. ``growing`` is what grows with the number of series, reading
twice and adding, per series; ``ratio`` divides it by reading and ``fit`` per series. Kernels are compiled beforehand.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks import record
from unicornn.estimators import OscillatorBank, UnICORNNClassifier
from unicornn.lab.bench._measure import peak
from unicornn.lab.fit import read
from unicornn.lab.fit._many import Files, fit_files

FILE = 2_500  # series per file
CLASSES = 4


def write(folder: Path, series: int, steps: int) -> list[Path]:
    """Noisy tones of four frequencies in files of 2,500 series."""
    paths = []
    for i in range(0, series, FILE):
        rng = np.random.default_rng(i)
        n = min(FILE, series - i)
        label = rng.integers(0, CLASSES, n)
        x = np.sin((0.1 + 0.02 * label)[:, None] * np.arange(steps) + rng.uniform(0, 6, (n, 1)))
        x = (x + 2 * rng.normal(size=(n, steps))).astype(np.float32)
        values = pa.ListArray.from_arrays(np.arange(n + 1) * steps, x.ravel())
        paths.append(folder / f"{i:09d}.parquet")
        pq.write_table(pa.table({"series": [f"{i + j}" for j in range(n)], "x": values, "label": label}), paths[-1])
    return paths


def measure(kind: str, folder: Path, series: int) -> dict[str, Any]:
    """Fits to the first files, in this process."""
    OscillatorBank(random_state=0).fit_transform(np.random.default_rng(0).normal(size=(4, 100)))  # compiles the kernels
    files = Files(sorted(folder.glob("*.parquet"))[: -(-series // FILE)], "label", {})
    begin, processor = time.perf_counter(), time.process_time()
    phases: dict[str, float] = {}
    if kind == "files":
        starts: dict[str, float] = {}
        model = fit_files(
            files,
            folder / "model",
            random_state=0,
            tell=lambda doing, _, __: starts.setdefault(doing, time.process_time()),
        )
        ends = [*list(starts.values())[1:], time.process_time()]
        phases = {name: end - start for (name, start), end in zip(starts.items(), ends, strict=True)}
    else:
        parts = [read(path, "label") for path in files.paths]
        X, y = [x for part in parts for x in part.series], np.concatenate([part.target for part in parts])
        model = UnICORNNClassifier(random_state=0).fit(X, y)
    n, used = model.about_["series"], time.process_time() - processor
    return {
        "series": n, "seconds": time.perf_counter() - begin, "processor_seconds": used,
        "milliseconds_per_series": 1000 * used / n, "megabytes": round(peak()),
        "features": int(np.count_nonzero(model._ridge.coefficients.any(1))), **phases,
    }  # fmt: skip


def main(
    series: int = 10_000, in_memory: int = 5_000, steps: int = 500, measured: str = "", folder: Path = Path(),
    out: Path = record.RESULTS / "scale.json",
) -> None:  # fmt: skip
    """Measures both in separate processes, or in this one what is ``measured``: "files" or "memory"."""
    if measured:
        print(json.dumps(measure(measured, folder, series)))
        return
    found = {}
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), series, steps)
        for kind, n in (("memory", in_memory), ("files", series)):
            command = ["-m", "benchmarks.scale", "--measured", kind, "--folder", name, "--series", str(n)]
            done = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True)
            found[kind] = json.loads(done.stdout.splitlines()[-1])
            print(kind, found[kind], flush=True)
    record.save_results(out, f"scale --series {series} --in-memory {in_memory}", summary(found, steps))


def summary(found: dict[str, dict[str, Any]], steps: int) -> dict[str, Any]:
    """The content of scale.json."""
    files = found["files"]
    files["fixed"] = files["fitting the sample"] + files["solving"]
    files["growing"] = 1000 * (files["sampling"] + files["adding"]) / files["series"]
    files["hours"] = 1e9 * files["growing"] / 1000 / 3600  # of a processor, for 10⁹ series
    files["minutes"] = 60 * files["hours"] / 1600  # on a hundred machines of 16 cores
    ratio = files["growing"] / found["memory"]["milliseconds_per_series"]
    return {"seed": 0, "steps": steps, "runs": found, "ratio": ratio}


if __name__ == "__main__":
    typer.run(main)
