"""Measures the features of a large table: ``python -m benchmarks.bank`` writes results/bank.json.

Fits an ``OscillatorBank`` with defaults to 10,000 random walks of 1,000 steps and transforms them. Kernels are compiled
beforehand. On a busy machine, CPU seconds divided by the number of threads are more meaningful than wall-clock seconds.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from benchmarks import record
from unicornn.estimators import OscillatorBank
from unicornn.lab.bench._measure import peak


def main() -> None:
    parser = record.arguments(__doc__, "bank.json")
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    X = np.random.default_rng(0).normal(size=(options.series, options.steps)).cumsum(1).astype(np.float32)
    OscillatorBank(random_state=0).fit_transform(X[:4])  # compiles the kernels
    begin, processor = time.perf_counter(), time.process_time()
    F = OscillatorBank(random_state=0).fit_transform(X)
    found = {
        "seed": 0, "seconds": time.perf_counter() - begin, "processor_seconds": time.process_time() - processor,
        "megabytes": round(peak()), "n": options.series, "N": options.steps, "features": F.shape[1],
    }  # fmt: skip
    record.save(options.out, "bank", found)
    print(found)


if __name__ == "__main__":
    main()
