"""Measures the features of a large table: ``python -m benchmarks.bank``.

Fits an ``OscillatorBank`` with defaults to 10,000 random walks of 1,000 steps, transforms them, and writes
results/bank.json. Kernels are compiled beforehand. On a busy machine, CPU seconds divided by the number of threads are
more meaningful than wall-clock seconds.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unicornn._files import write_json
from unicornn.estimators import OscillatorBank
from unicornn.lab._environment import environment
from unicornn.lab.bench._measure import peak

RESULT = Path(__file__).parent.parent / "results" / "bank.json"


def measure(n: int, N: int) -> dict[str, Any]:
    """Wall-clock and CPU seconds of ``fit_transform``, and peak megabytes."""
    X = np.random.default_rng(0).normal(size=(n, N)).cumsum(1).astype(np.float32)
    OscillatorBank(random_state=0).fit_transform(X[:4])  # compiles the kernels
    begin, processor = time.perf_counter(), time.process_time()
    F = OscillatorBank(random_state=0).fit_transform(X)
    return {
        "seconds": time.perf_counter() - begin,
        "processor_seconds": time.process_time() - processor,
        "megabytes": round(peak()),
        "n": n, "N": N, "features": F.shape[1],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found = measure(options.series, options.steps)
    write_json(options.out, {"command": "python -m benchmarks.bank", "seed": 0, **found, **environment()})
    print(found)


if __name__ == "__main__":
    main()
