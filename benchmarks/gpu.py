"""The paper's Fig. 2 and the memory of a training step, on a GPU.

    python -m benchmarks.gpu                           # on a machine with a GPU; some minutes
    python -m benchmarks.gpu --toy --out FILE.json     # without one: the same code on toy sizes, in the interpreter

Checks that the kernels are exact on this GPU, then times forward and backward passes as the paper does: the mean over
100 batches of 128 sequences, N = 1000 and 2000. The paper gives no width; here d = m = 128. Writes results/gpu.json,
which ``make docs`` shows in docs/gpu.md.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
import typer
from torch import nn
from torch.utils.benchmark import Timer

from benchmarks import record
from unicornn import UnICORNN
from unicornn.baselines import MODELS
from unicornn.lab.bench._measure import training_step

GRADIENTS = ("stored", "reversible")
BASELINES = {"LSTM, 1 layer": ("lstm", 1), "SRU, 2 layers": ("sru", 2), "IndRNN, 2 layers": ("indrnn", 2)}


class Size(NamedTuple):
    """Lengths, batch size, input size and hidden size."""

    N: tuple[int, ...]
    b: int
    d: int
    m: int


FULL = Size((1000, 2000), 128, 128, 128), Size((1000, 2000, 5000, 10_000, 20_000, 50_000), 32, 6, 128)
TOY = Size((2, 4), 2, 3, 3), Size((1, 2), 2, 3, 3)  # the interpreter takes about 25 ms per step, layer and pass


def unicornn(gradient: str, size: Size) -> UnICORNN:
    return UnICORNN(size.d, size.m, 2, gradient=gradient, backend="triton")


def exactness(dtype: torch.dtype, size: Size, device: torch.device) -> dict[str, Any]:
    """Whether inverse undoes forward, and both gradient methods agree, bit for bit, at the largest N."""
    layer = unicornn("stored", size).to(device, dtype)
    u = torch.randn(max(size.N), size.b, size.d, device=device, dtype=dtype, requires_grad=True)
    with torch.no_grad():
        start = layer.inverse(u, layer(u, output="last")[1])
    results = []
    for layer.gradient in GRADIENTS:
        output, _ = layer(u)
        results.append((output, *torch.autograd.grad(output.float().square().sum(), [u, *layer.parameters()])))
    same = all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    name = str(dtype).removeprefix("torch.")
    return {"dtype": name, "exact reversal": not any(bool(t.any()) for t in start), "equal gradients": same}


def speed(size: Size, batches: int, device: torch.device) -> list[dict[str, Any]]:
    """Milliseconds of forward and backward by length and model: means over batches."""
    nets: dict[str, nn.Module] = {f"UnICORNN, 2 layers, {g}": unicornn(g, size) for g in GRADIENTS}
    nets |= {name: MODELS[model](size.d, size.m, L) for name, (model, L) in BASELINES.items()}
    rows = []
    for N in size.N:
        u, means = torch.randn(N, size.b, size.d, device=device), {}
        for name, net in nets.items():
            step = partial(training_step, net.to(device), u)
            means[name] = 1e3 * Timer("step()", globals={"step": step}).timeit(batches).mean  # warms up, synchronises
        ours = next(iter(means.values()))
        rows += [{"N": N, "model": name, "ms": mean, "relative": mean / ours} for name, mean in means.items()]
    return rows


def step_memory(net: nn.Module, N: int, size: Size, device: torch.device) -> float | None:
    """Peak MiB of torch in a training step, beyond parameters and input; None without a GPU."""
    u = torch.randn(N, size.b, size.d, device=device)
    training_step(net, u, "last")  # allocates what stays: workspaces of cuBLAS and cuDNN, compiled kernels
    if device.type != "cuda":
        return None
    net.zero_grad()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    training_step(net, u, "last")
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def memory(size: Size, device: torch.device) -> list[dict[str, Any]]:
    """Memory against N, two layers, loss from the last output; a model ends where memory runs out."""
    nets: dict[str, nn.Module] = {f"UnICORNN, {g}": unicornn(g, size) for g in GRADIENTS}
    nets["LSTM"] = MODELS["lstm"](size.d, size.m, 2)
    rows = []
    for name, net in nets.items():
        net.to(device)
        for N in size.N:
            try:
                rows.append({"model": name, "N": N, "MiB": step_memory(net, N, size, device)})
            except torch.OutOfMemoryError:
                break
    return rows


def main(toy: bool = False, batches: int = 100, out: Path = record.RESULTS / "gpu.json") -> None:
    """Measures on a GPU, or with --toy and --out FILE toy sizes in Triton's interpreter."""
    if not toy and not torch.cuda.is_available():
        sys.exit("torch finds no GPU. --toy --out FILE runs the benchmark on toy sizes in Triton's interpreter.")
    os.environ["TRITON_INTERPRET"] = "1" if toy else "0"  # read when triton is imported, at the first call
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    device, sizes = (torch.device("cpu"), TOY) if toy else (torch.device("cuda"), FULL)
    dtypes = [torch.float32]
    if toy or torch.cuda.is_bf16_supported(including_emulation=False):
        dtypes.append(torch.bfloat16)
    start = time.perf_counter()
    result: dict[str, Any] = {
        "seed": 0,
        "protocol": f"mean of {batches} batches after a warm-up; float32 without TF32; input without gradient, mean of "
        f"all outputs; sizes of speed {sizes[0]}, of memory {sizes[1]}",
        "gpu_versions": {"cuda": torch.version.cuda, "hip": torch.version.hip, "cudnn": torch.backends.cudnn.version()},
        "checks": [exactness(dtype, sizes[0], device) for dtype in dtypes],
        "speed": speed(sizes[0], batches, device),
        "memory": memory(sizes[1], device),
        "seconds": round(time.perf_counter() - start),
    }
    for part in ("checks", "speed", "memory"):
        print(pd.DataFrame(result[part]).to_string(index=False), end="\n\n")
    record.save_results(out, f"gpu{' --toy' if toy else ''} --batches {batches}", result)


if __name__ == "__main__":
    typer.run(main)
