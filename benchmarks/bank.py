"""Measures the features of a large table: ``python -m benchmarks.bank`` writes results/bank.json.

Fits an ``OscillatorBank`` with defaults to 10,000 random walks of 1,000 steps and transforms them. Kernels are compiled
beforehand. On a busy machine, CPU seconds divided by the number of threads are more meaningful than wall-clock seconds.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
import typer

from benchmarks import record
from unicornn.estimators import OscillatorBank
from unicornn.lab.bench._measure import peak


def main(series: int = 10_000, steps: int = 1_000, threads: int = 2, out: Path = record.RESULTS / "bank.json") -> None:
    torch.set_num_threads(threads)
    X = np.random.default_rng(0).normal(size=(series, steps)).cumsum(1).astype(np.float32)
    OscillatorBank(random_state=0).fit_transform(X[:4])  # compiles the kernels
    begin, processor = time.perf_counter(), time.process_time()
    F = OscillatorBank(random_state=0).fit_transform(X)
    found = {
        "seed": 0, "seconds": time.perf_counter() - begin, "processor_seconds": time.process_time() - processor,
        "megabytes": round(peak()), "n": series, "N": steps, "features": F.shape[1],
    }  # fmt: skip
    record.save_results(out, "bank", found)
    print(found)


if __name__ == "__main__":
    typer.run(main)
