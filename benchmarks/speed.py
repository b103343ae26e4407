"""What ``unicornn bench`` does not measure: ``python -m benchmarks.speed [PART …]`` writes results/speed.json.

    rivals    two layers against one of LSTM, in turns, and one layer against one of minGRU
    avx2      the same with kernels compiled for AVX2, whatever this processor has; torch runs LSTM as it likes
    single    one sequence of a million steps: microseconds a step
    together  two programs at once: the time of a training step in each, against one program alone

Each part is a process of its own, and what other parts found stays in the file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from llvmlite import binding
from torch import Tensor, nn

from unicornn import UnICORNN
from unicornn._files import write_json
from unicornn.baselines import MinGRU
from unicornn.lab._environment import environment
from unicornn.lab.bench._measure import forward_pass, ratio, rounds, training_step

ROOT = Path(__file__).parent.parent
WIDE, LONG = (1000, 128, 128, 128), (17_984, 8, 6, 32)  # N, b, d, m
LIMIT = 12.0  # seconds for one ratio
WARM_UP = 20  # time steps: enough to compile all kernels


def compare(ours: Callable[[], Any], theirs: Callable[[], Any]) -> dict[str, Any]:
    return ratio(rounds(ours, theirs, LIMIT))


def train(net: nn.Module, u: Tensor) -> None:
    net.zero_grad()
    net(u)[0].mean().backward()


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


def own_time(threads: int, until: float) -> float:
    """The mean time of a training step in milliseconds, up to a moment."""
    torch.set_num_threads(threads)
    N, b, d, m = LONG
    net, u = UnICORNN(d, m, 2, gradient="stored"), torch.randn(N, b, d)
    train(net, u)
    start, count = time.time(), 0
    while count == 0 or time.time() < until:
        train(net, u)
        count += 1
    return 1e3 * (time.time() - start) / count


def together() -> dict[str, Any]:
    """By the threads of each program: alone, and each of two."""
    found: dict[str, Any] = {}
    for threads in sorted({1, torch.get_num_threads()}):
        times: dict[int, list[float]] = {}
        for programs in (1, 2, 1):
            command = [sys.executable, "-m", "benchmarks.speed", "--own-time", str(threads), str(time.time() + 9)]
            running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(programs)]
            times[programs] = [float(each.communicate()[0]) for each in running]
        found[str(threads)] = {"alone_ms": times[1][0], "each_of_two_ms": statistics.mean(times[2])}
    return found


def rivals() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (N, b, d, m) in (("wide", WIDE), ("long", LONG)):
        u, lstm = torch.randn(N, b, d), nn.LSTM(d, m)
        for way in ("stored", "reversible"):
            net = UnICORNN(d, m, 2, gradient=way)
            train(net, u[:WARM_UP])
            found[f"{name}, {way}"] = compare(partial(train, net, u), partial(train, lstm, u))
        found[f"{name}, forward"] = compare(partial(forward_pass, net, u), partial(forward_pass, lstm, u))
        one, mingru = UnICORNN(d, m, 1, gradient="stored"), MinGRU(d, m)
        for each in (one, mingru):
            train(each, u[:WARM_UP])
        found[f"{name}, minGRU"] = compare(partial(train, one, u), partial(train, mingru, u))
    return found


def avx2() -> dict[str, Any]:
    flags = binding.get_host_cpu_features()
    off = {name: name.startswith(("avx512", "avx10", "amx", "evex")) for name in flags}
    features = ",".join(("+" if on and not off[name] else "-") + name for name, on in flags.items())
    return in_process("rivals", os.environ | {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": features})


PARTS = {
    "rivals": rivals, "avx2": avx2, "single": single, "together": together,
}  # fmt: skip


def in_process(part: str, environ: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.speed", "--here", part]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environ, cwd=ROOT)
    if done.returncode < 0:  # an instruction that the processor says it has, and has not
        return {"failed": f"ended by signal {-done.returncode}"}
    done.check_returncode()
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    parser.add_argument("--here", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--own-time", nargs=2, type=float, help=argparse.SUPPRESS)
    told = parser.parse_args()
    torch.manual_seed(0)
    torch.set_flush_denormal(True)
    if told.own_time:
        print(own_time(int(told.own_time[0]), told.own_time[1]))
    elif told.here:
        print(json.dumps(PARTS[told.here]()))
    else:
        path = ROOT / "results" / "speed.json"
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for part in told.parts or PARTS:
            command = f"python -m benchmarks.speed {part}"
            about = {"command": command, "processor": binding.get_host_cpu_name(), **environment()}
            found[part] = in_process(part, dict(os.environ)) | about
            print(part, found[part], flush=True)
            write_json(path, found)


if __name__ == "__main__":
    main()
