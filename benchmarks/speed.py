"""Speed measurements beyond ``unicornn bench``: ``python -m benchmarks.speed [PART …]`` writes results/speed.json.

    rivals    two layers in alternation with one of LSTM, and one layer in alternation with one of minGRU
    avx2      the same with kernels compiled for AVX2; torch's LSTM uses all instructions of the processor
    horizon   training steps with a horizon of 1,000 steps, in alternation with steps without one
    single    microseconds per step of one sequence of a million steps

A part leaves the results of other parts in the file.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from llvmlite import binding
from torch import nn

from benchmarks import record
from unicornn import UnICORNN
from unicornn._files import write_json
from unicornn.baselines import MinGRU
from unicornn.lab._environment import environment
from unicornn.lab.bench._measure import WARM_UP, forward_pass, ratio, rounds, seconds_per_call, training_step

SIZES = {"wide": (1000, 128, 128, 128), "long": (17_984, 8, 6, 32)}  # N, b, d, m
HORIZON = 1000
HORIZON_SIZES = ((17_984, 8, 6, 32, 2), (1000, 128, 128, 128, 2), (100_000, 1, 1, 48, 3))  # N, b, d, m, L
RATIO_SECONDS = 15.0  # time limit for one ratio


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


def horizon() -> dict[str, Any]:
    rows = []
    for N, b, d, m, L in HORIZON_SIZES:
        u = torch.randn(N, b, d)
        for gradient in ("reversible", "stored"):
            layers = [UnICORNN(d, m, L, dt=0.01, gradient=gradient, horizon=each) for each in (None, HORIZON)]
            for layer in layers:
                training_step(layer, u[:WARM_UP], "last")
            without, limited = (partial(training_step, layer, u, "last") for layer in layers)
            setting = f"N = {N:,}, b = {b}, d = {d}, m = {m}, L = {L}"
            rows.append({"setting": setting, "gradient": gradient, **ratio(rounds(without, limited, RATIO_SECONDS))})
    return {"horizon": HORIZON, "rows": rows}


def single() -> dict[str, Any]:
    N, m, L = 1_000_000, 48, 3
    net, u = UnICORNN(1, m, L, dt=0.01, horizon=HORIZON), torch.randn(N, 1, 1)
    training_step(net, u[: N // 10], "last")
    seconds = sorted(seconds_per_call(partial(training_step, net, u, "last")) for _ in range(3))
    return {"N": N, "m": m, "L": L, "us_a_step": 1e6 * seconds[1] / N}


PARTS = {"rivals": rivals, "avx2": rivals, "horizon": horizon, "single": single}


def main(
    parts: Annotated[list[str] | None, typer.Argument()] = None, out: Path = record.RESULTS / "speed.json"
) -> None:
    """Measures PARTS: rivals, avx2, horizon, single; all by default."""
    torch.manual_seed(0)
    torch.set_flush_denormal(True)
    for part in parts or PARTS:
        if part == "avx2" and "NUMBA_CPU_NAME" not in os.environ:  # Numba reads these variables when it is imported
            newer = ("avx512", "avx10", "amx", "evex")
            flags = binding.get_host_cpu_features().items()
            features = ",".join(("+" if on and not name.startswith(newer) else "-") + name for name, on in flags)
            env = os.environ | {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": features}
            subprocess.run([sys.executable, "-m", "benchmarks.speed", "avx2", "--out", str(out)], check=True, env=env)
            continue
        about = {"command": f"python -m benchmarks.speed {part}", "processor": binding.get_host_cpu_name()}
        results = record.load_results(out, {}) | {part: PARTS[part]() | about | environment()}
        print(part, results[part], flush=True)
        write_json(out, results)


if __name__ == "__main__":
    typer.run(main)
