"""Speed measurements beyond ``unicornn bench``: ``python -m benchmarks.speed [PART …]`` writes results/speed.json.

    rivals    two layers in alternation with one of LSTM, and one layer in alternation with one of minGRU
    avx2      the same with kernels compiled for AVX2; torch's LSTM uses all instructions of the processor
    single    microseconds per step of one sequence of a million steps

Each part runs in a separate process, and leaves the results of other parts in the file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from llvmlite import binding
from torch import nn

from unicornn import UnICORNN
from unicornn._files import write_json
from unicornn.baselines import MinGRU
from unicornn.lab._environment import environment
from unicornn.lab.bench._measure import WARM_UP, forward_pass, ratio, rounds, training_step

ROOT = Path(__file__).parent.parent
SIZES = {"wide": (1000, 128, 128, 128), "long": (17_984, 8, 6, 32)}  # N, b, d, m
RATIO_SECONDS = 12.0  # time limit for one ratio


def rivals() -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, (N, b, d, m) in SIZES.items():
        u = torch.randn(N, b, d)
        stored, reversible = (UnICORNN(d, m, 2, gradient=gradient) for gradient in ("stored", "reversible"))
        for key, step, ours, theirs in (
            ("stored", _train, stored, nn.LSTM(d, m)),
            ("reversible", _train, reversible, nn.LSTM(d, m)),
            ("forward", forward_pass, reversible, nn.LSTM(d, m)),
            ("minGRU", _train, UnICORNN(d, m, 1, gradient="stored"), MinGRU(d, m)),
        ):
            for net in (ours, theirs):
                _train(net, u[:WARM_UP])
            result[f"{name}, {key}"] = ratio(rounds(partial(step, ours, u), partial(step, theirs, u), RATIO_SECONDS))
    return result


def _train(net: nn.Module, u: torch.Tensor) -> None:
    """A training step of any module, torch's included."""
    net.zero_grad()
    net(u)[0].mean().backward()


def avx2() -> dict[str, Any]:
    flags = binding.get_host_cpu_features()
    newer = ("avx512", "avx10", "amx", "evex")
    features = ",".join(("+" if on and not name.startswith(newer) else "-") + name for name, on in flags.items())
    return _in_process("rivals", os.environ | {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": features})


def single() -> dict[str, Any]:
    N, m, L = 1_000_000, 48, 3
    net, u = UnICORNN(1, m, L, dt=0.01, horizon=1000), torch.randn(N, 1, 1)
    training_step(net, u[: N // 10], "last")
    times = []
    for _ in range(3):
        start = time.perf_counter()
        training_step(net, u, "last")
        times.append(time.perf_counter() - start)
    return {"N": N, "m": m, "L": L, "us_a_step": 1e6 * statistics.median(times) / N}


PARTS = {"rivals": rivals, "avx2": avx2, "single": single}


def _in_process(part: str, environ: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.speed", "--here", part]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environ, cwd=ROOT)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    parser.add_argument("--here", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_flush_denormal(True)
    if options.here:
        print(json.dumps(PARTS[options.here]()))
    else:
        path = ROOT / "results" / "speed.json"
        results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for part in options.parts or PARTS:
            about = {"command": f"python -m benchmarks.speed {part}", "processor": binding.get_host_cpu_name()}
            results[part] = _in_process(part, dict(os.environ)) | about | environment()
            print(part, results[part], flush=True)
            write_json(path, results)


if __name__ == "__main__":
    main()
