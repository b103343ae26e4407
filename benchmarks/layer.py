"""Speed and memory of the layer against torch's own recurrent layers, in one run on this machine.

    python -m benchmarks.layer              # everything, about ten minutes; make bench
    python -m benchmarks.layer --quick      # small sizes, to see that it runs

Machines are noisy, so everything is a ratio within one run: models take turns, and the best of several rounds counts.
Prints a table and writes results/layer.json; `python -m benchmarks.report` makes the page and the plot from it.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import torch
from torch import Tensor, nn
from torch.profiler import profile

import unicornn
from unicornn import UnICORNN
from unicornn._ops import memory

SETTINGS = {
    "N=1000, b=128, d=m=128": (1000, 128, 128, 128),
    "N=17984, b=8, d=6, m=32": (17984, 8, 6, 32),
}
QUICK = {"N=50, b=4, d=m=8": (50, 4, 8, 8)}


def models(d: int, m: int) -> dict[str, nn.Module]:
    """Ours, both gradient methods, and the baselines."""
    return {
        "UnICORNN, 2 layers, store": UnICORNN(d, m, 2, backward="store"),
        "UnICORNN, 2 layers, invert": UnICORNN(d, m, 2, backward="invert"),
        "LSTM, 1 layer": nn.LSTM(d, m, 1),
        "LSTM, 2 layers": nn.LSTM(d, m, 2),
        "GRU, 2 layers": nn.GRU(d, m, 2),
        "UnICORNN, 2 layers, reference": UnICORNN(d, m, 2, backend="reference"),
    }


def training_step(model: nn.Module, u: Tensor) -> None:
    """Forward and backward from the mean of all outputs."""
    model.zero_grad()
    model(u)[0].mean().backward()


def seconds(f: Callable[[], Any], repeat: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        f()
    return (time.perf_counter() - start) / repeat


def best(candidates: dict[str, Callable[[], Any]], rounds: int, repeat: int = 1) -> dict[str, float]:
    """Seconds of each, the best of some rounds in which they take turns, after one to warm up."""
    for f in candidates.values():
        f()
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, f in candidates.items():
            times[name].append(seconds(f, repeat))
    return {name: min(t) for name, t in times.items()}


def sgemm_peak(rounds: int) -> float:
    """FLOP/s of torch's matrix product in float32, the best over shapes."""
    rates = []
    for rows, inner, columns in ((2048, 2048, 2048), (4096, 128, 128), (8192, 256, 256)):
        a, b = torch.randn(rows, inner), torch.randn(inner, columns)
        out = torch.empty(rows, columns)
        work = 2 * rows * inner * columns
        repeat = max(1, int(2e9 / work))
        time_ = best({"mm": lambda a=a, b=b, out=out: torch.mm(a, b, out=out)}, rounds, repeat)["mm"]  # type: ignore[misc]
        rates.append(work / time_)
    return max(rates)


def matrix_flops(N: int, b: int, d: int, m: int) -> float:
    """Of the matrix products that a training step of two layers needs, the input being data without gradient."""
    forward, weights, below = d * m + m * m, d * m + m * m, m * m
    return 2.0 * N * b * (forward + weights + below)


def speed(setting: tuple[int, int, int, int], rounds: int) -> dict[str, Any]:
    N, b, d, m = setting
    torch.manual_seed(0)
    u, nets = torch.randn(N, b, d), models(d, m)
    slow = {"UnICORNN, 2 layers, reference": nets.pop("UnICORNN, 2 layers, reference")}
    if N > 10_000:
        slow["GRU, 2 layers"] = nets.pop("GRU, 2 layers")
    peak = sgemm_peak(rounds)
    times = best({name: lambda net=net: training_step(net, u) for name, net in nets.items()}, rounds)  # type: ignore[misc]
    for name, net in slow.items():
        training_step(net, u[:20])
        times[name] = seconds(lambda net=net: training_step(net, u))  # type: ignore[misc]
    peak = max(peak, sgemm_peak(rounds))
    share = {k: matrix_flops(*setting) / t / peak for k, t in times.items() if k.endswith(("store", "invert"))}
    return {"seconds": times, "sgemm_peak_flops": peak, "share_of_peak": share}


def stream(rounds: int) -> dict[str, float]:
    """Seconds of one step of a stream, b=1, d=m=128, two layers."""
    layer, lstm, u = UnICORNN(128, 128, 2), nn.LSTM(128, 128, 2), torch.randn(1, 128)
    with torch.no_grad():
        _, ours = layer.step(u)
        _, theirs = lstm(u[None])
        calls = {"UnICORNN.step": lambda: layer.step(u, ours), "LSTM, one step": lambda: lstm(u[None], theirs)}
        return best(calls, rounds, repeat=200)


def growth(lengths: list[int], rounds: int) -> dict[str, float]:
    """Seconds per time step of a training step (invert, last output) against the length; b=1, d=1, m=48, L=3."""
    layer = UnICORNN(1, 48, 3)

    def run(u: Tensor) -> None:
        layer.zero_grad()
        layer(u, output="last")[0].sum().backward()

    longest = max(lengths)
    inputs = {str(N): torch.randn(N, 1, 1) for N in lengths}
    total = {}
    for _ in range(rounds):
        for name, u in inputs.items():
            repeat = max(1, longest // 10 // len(u))
            total[name] = min(total.get(name, 1e9), seconds(lambda u=u: run(u), repeat) / len(u))  # type: ignore[misc]
    return total


def peak_bytes(model: nn.Module, u: Tensor, output: str | None) -> int:
    """Most memory that torch holds at once in a training step, beyond parameters and input, as its profiler sees it."""

    def run() -> None:
        model.zero_grad()
        result = model(u)[0] if output is None else model(u, output=output)[0]
        (result[-1] if output is None else result).sum().backward()

    run()
    memory.release()
    with profile(profile_memory=True) as p:
        run()
    level = top = 0
    for event in p.profiler.kineto_results.events():
        if event.name() == "[memory]":
            level += event.nbytes()
            top = max(top, level)
    return top


def curves(lengths: list[int], rounds: int) -> dict[str, Any]:
    """Time and memory of a training step against N, from the last output; b=8, d=6, m=32, two layers."""
    result: dict[str, Any] = {"N": lengths, "seconds": {}, "bytes": {}}
    nets: dict[str, tuple[nn.Module, str | None]] = {
        "UnICORNN, invert": (UnICORNN(6, 32, 2), "last"),
        "UnICORNN, store": (UnICORNN(6, 32, 2, backward="store"), "last"),
        "LSTM": (nn.LSTM(6, 32, 2), None),
    }
    for name, (net, output) in nets.items():
        result["seconds"][name], result["bytes"][name] = [], []
        for N in lengths:
            u = torch.randn(N, 8, 6)

            def run(net: nn.Module = net, u: Tensor = u, output: str | None = output) -> None:
                net.zero_grad()
                (net(u)[0][-1] if output is None else net(u, output=output)[0]).sum().backward()

            result["seconds"][name].append(best({name: run}, rounds)[name])
            result["bytes"][name].append(peak_bytes(net, u, output))
    return result


def table(result: dict[str, Any]) -> str:
    lines = []
    for setting, r in result["speed"].items():
        store, invert = (r["seconds"][f"UnICORNN, 2 layers, {way}"] for way in ("store", "invert"))
        lines.append(f"\nTraining step, {setting}")
        lines.append(f"  {'':32} {'ms':>9}  {'/ store':>8} {'/ invert':>8}  share of SGEMM peak")
        for name, t in r["seconds"].items():
            share = f"{r['share_of_peak'][name]:6.0%}" if name in r["share_of_peak"] else ""
            lines.append(f"  {name:32} {t * 1e3:9.1f}  {t / store:8.2f} {t / invert:8.2f}  {share}")
    ours, theirs = result["stream"].values()
    lines.append(
        f"\nOne step of a stream, b=1, d=m=128, two layers: UnICORNN {ours * 1e6:.0f} µs, LSTM {theirs * 1e6:.0f} µs"
    )
    lines.append(f"  ({theirs / ours:.1f} times)")
    lines.append("\nTime per step against N (b=1, m=48, three layers, invert)")
    lines += [f"  N={int(N):9,d}  {t * 1e6:7.3f} µs" for N, t in result["growth"].items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    settings, rounds = (QUICK, 1) if options.quick else (SETTINGS, options.rounds)
    start, result = time.perf_counter(), {}
    print("one step of a stream …", file=sys.stderr)
    result["stream"] = stream(rounds)
    result["speed"] = {}
    for name, setting in settings.items():
        print(f"training step, {name} …", file=sys.stderr)
        result["speed"][name] = speed(setting, rounds)
    print("time against N …", file=sys.stderr)
    result["growth"] = growth([100, 200] if options.quick else [10_000, 100_000, 1_000_000], 1 if options.quick else 3)
    print("time and memory against N …", file=sys.stderr)
    lengths = [50, 100] if options.quick else [1_000, 2_000, 5_000, 10_000, 20_000, 50_000]
    result["curves"] = curves(lengths, min(rounds, 3))
    result["about"] = {
        "command": "python -m benchmarks.layer" + (" --quick" if options.quick else ""),
        "seed": 0,
        "protocol": f"best of {rounds} rounds in turn, flush-to-zero on, input without gradient, mean of all outputs",
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numba": numba.__version__,
            "unicornn": unicornn.__version__,
        },
        "machine": ", ".join(
            (platform.machine(), f"{torch.get_num_threads()} threads", torch.backends.cpu.get_cpu_capability())
        ),
        "seconds": round(time.perf_counter() - start),
    }
    print(table(result))
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / ("layer-quick.json" if options.quick else "layer.json")
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\nwrote {path}")


if __name__ == "__main__":
    main()
