"""The paper's Fig. 2 and the memory of a training step, on a GPU.

    python -m benchmarks.gpu                       # on a machine with a GPU; some minutes
    python -m benchmarks.gpu --toy --out DIR       # without one: the same code on toy sizes, by Triton's interpreter

First it looks whether the kernels are exact on this card. Then it times forward and backward together, as the paper
does: the mean over 100 batches of 128 sequences, N = 1000 and 2000. The paper gives no width; here d = m = 128.
Prints tables and writes results/gpu.json, or DIR/gpu-toy.json of a toy; ``make docs`` then shows them in docs/gpu.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unicornn import UnICORNN
from unicornn._files import write_json
from unicornn.baselines import MODELS
from unicornn.lab._environment import environment
from unicornn.lab.bench._measure import training_step

HALF = torch.bfloat16
WAYS = ("stored", "reversible")
BASELINES = {"LSTM, 1 layer": ("lstm", 1), "SRU, 2 layers": ("sru", 2), "IndRNN, 2 layers": ("indrnn", 2)}


class Size(NamedTuple):
    """Lengths, batch, input and hidden size."""

    N: tuple[int, ...]
    b: int
    d: int
    m: int


FULL = Size((1000, 2000), 128, 128, 128), Size((1000, 2000, 5000, 10_000, 20_000, 50_000), 32, 6, 128)
TOY = Size((2, 4), 2, 3, 3), Size((1, 2), 2, 3, 3)  # the interpreter takes some 25 ms per step, layer and pass


class InHalf(nn.Module):
    """A model in bfloat16: by autocast on a GPU; on the CPU, where autocast means float32 to the layer, altogether."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.model = model if device.type == "cuda" else model.to(HALF)

    def forward(self, u: Tensor, output: str = "all") -> Any:
        if not u.is_cuda:
            return self.model(u.to(HALF), output=output)
        with torch.autocast("cuda", dtype=HALF):
            return self.model(u, output=output)


def dtypes(device: torch.device) -> list[torch.dtype]:
    """Those that the kernels can have: Triton makes no bfloat16 for cards without it (the paper's is one)."""
    lacking = device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False)
    return [torch.float32] if lacking else [torch.float32, HALF]


def ours(way: str, d: int, m: int) -> nn.Module:
    return UnICORNN(d, m, 2, gradient=way, backend="triton")


def models(d: int, m: int, device: torch.device) -> tuple[dict[str, nn.Module], dict[str, str]]:
    """Those of Fig. 2 and ours in bfloat16; and those that had to be left out, with the reason."""
    nets = {f"UnICORNN, 2 layers, {way}": ours(way, d, m) for way in WAYS}
    nets |= {name: MODELS[model](d, m, L) for name, (model, L) in BASELINES.items()}
    left_out: dict[str, str] = {}
    half = {f"UnICORNN, 2 layers, {way}, bfloat16": way for way in WAYS}
    if HALF in dtypes(device):
        nets |= {name: InHalf(ours(way, d, m), device) for name, way in half.items()}
    else:
        left_out |= dict.fromkeys(half, "the card has no bfloat16")
    return {name: net.to(device) for name, net in nets.items()}, left_out


def is_exact(dtype: torch.dtype, size: Size, device: torch.device) -> dict[str, bool]:
    """Whether inverse undoes forward, and both gradient methods give the same, bit for bit, at the largest N."""
    layer = UnICORNN(size.d, size.m, 2, backend="triton", device=device, dtype=dtype)
    u = torch.randn(max(size.N), size.b, size.d, device=device, dtype=dtype, requires_grad=True)
    with torch.no_grad():
        start = layer.inverse(u, layer(u, output="last")[1])
    results = {}
    for way in WAYS:
        layer.gradient = way
        output, _ = layer(u)
        results[way] = (output, *torch.autograd.grad(output.float().square().sum(), [u, *layer.parameters()]))
    same = all(torch.equal(a, b) for a, b in zip(results["reversible"], results["stored"], strict=True))
    return {"exact reversal": not any(bool(t.any()) for t in start), "invert = store": same}


def milliseconds(f: Callable[[], Any], device: torch.device) -> float:
    """Of one call, by the GPU's own clock from an idle start; without a GPU by the processor's."""
    if device.type != "cuda":
        begin = time.perf_counter()
        f()
        return (time.perf_counter() - begin) * 1e3
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    f()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def speed(nets: dict[str, nn.Module], size: Size, batches: int, device: torch.device) -> dict[str, dict[str, float]]:
    """Milliseconds of forward and backward by length and model: means over batches on which the models take turns."""
    result, warm_up = {}, max(1, batches // 20)
    for N in size.N:
        times: dict[str, list[float]] = {name: [] for name in nets}
        for _ in range(warm_up + batches):
            u = torch.randn(N, size.b, size.d, device=device)
            for name, net in nets.items():
                times[name].append(milliseconds(partial(training_step, net, u), device))
        result[str(N)] = {name: sum(t[-batches:]) / batches for name, t in times.items()}
    return result


def step_bytes(net: nn.Module, N: int, size: Size, device: torch.device) -> int | None:
    """Most memory that torch holds at once in a training step, beyond parameters and input; None without a GPU."""
    u = torch.randn(N, size.b, size.d, device=device)
    training_step(net, u, "last")  # leaves behind what stays: workspaces of cuBLAS and cuDNN, compiled kernels
    if device.type != "cuda":
        return None
    net.zero_grad()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    training_step(net, u, "last")
    return torch.cuda.max_memory_allocated() - before


def memory(size: Size, device: torch.device) -> dict[str, Any]:
    """Bytes against N, two layers, loss from the last output. Where memory runs out, a model's curve ends (None)."""
    nets = {f"UnICORNN, {way}": ours(way, size.d, size.m) for way in WAYS} | {"LSTM": MODELS["lstm"](size.d, size.m, 2)}
    result: dict[str, Any] = {**size._asdict(), "bytes": {}, "out_of_memory": {}}
    for name, net in nets.items():
        result["bytes"][name] = values = []
        net.to(device)
        for N in size.N:
            try:
                values.append(None if name in result["out_of_memory"] else step_bytes(net, N, size, device))
            except torch.OutOfMemoryError:
                result["out_of_memory"][name] = N
                values.append(None)
    return result


def table(result: dict[str, Any]) -> str:
    """All that was measured, as text."""
    lines = []
    for check in ("exact reversal", "invert = store"):
        failed = [dtype for dtype, passed in result["checks"].items() if not passed[check]]
        lines.append(f"{check}: " + (f"no ({', '.join(failed)})" if failed else "yes"))
    size = result["speed"]
    for N, times in size["milliseconds"].items():
        lines.append(f"\nForward and backward, N={N}, b={size['b']}, d={size['d']}, m={size['m']}")
        lines.append(f"  {'':37} {'ms':>10}  {'/ store':>8}")
        lines += [f"  {name:37} {t:10.3f}  {t / times['UnICORNN, 2 layers, stored']:8.2f}" for name, t in times.items()]
    lines += [f"  left out: {name} ({reason})" for name, reason in result["left_out"].items()]
    size = result["memory"]
    lines.append(f"\nMemory of a training step in MiB, b={size['b']}, d={size['d']}, m={size['m']}, two layers")
    lines.append(f"  {'N':18}" + "".join(f"{N:>10,d}" for N in size["N"]))
    for name, values in size["bytes"].items():
        lines.append(f"  {name:18}" + "".join(f"{'-' if v is None else format(v / 2**20, '.1f'):>10}" for v in values))
    lines += [f"  {name}: out of memory at N={N:,d}" for name, N in size["out_of_memory"].items()]
    return "\n".join(lines)


def about(toy: bool, batches: int, device: torch.device) -> dict[str, Any]:
    """How it was measured, on what."""
    card = None
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        card = f"{found.name}, {found.multi_processor_count} multiprocessors, {found.total_memory / 2**30:.0f} GiB"
    return {
        "command": f"python -m benchmarks.gpu{' --toy' if toy else ''} --batches {batches}",
        "seed": 0,
        "protocol": f"mean of {batches} batches, models in turn, after some to warm up; float32 without TF32, or "
        "bfloat16 where named (on a GPU by autocast); input without gradient, mean of all outputs; the width is ours",
        **environment(),
        "card": card or "Triton's interpreter",
        "gpu_versions": {"cuda": torch.version.cuda, "hip": torch.version.hip, "cudnn": torch.backends.cudnn.version()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, help="to average over (100; toy: 2)")
    parser.add_argument("--toy", action="store_true", help="toy sizes without a GPU, to see that it runs; needs --out")
    parser.add_argument("--out", type=Path, help="folder of the JSON file (results/)")
    options = parser.parse_args()
    if options.toy and not options.out:
        parser.error("--toy needs --out DIR: toy numbers do not belong in results/")
    if not options.toy and not torch.cuda.is_available():
        sys.exit("There is no GPU that torch can use. --toy --out DIR runs this on a toy size by Triton's interpreter.")
    os.environ["TRITON_INTERPRET"] = "1" if options.toy else "0"  # read when triton is imported: at the first call
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # cuDNN's default is True, alone
    torch.manual_seed(0)
    device, sizes = (torch.device("cpu"), TOY) if options.toy else (torch.device("cuda"), FULL)
    batches, start = options.batches or (2 if options.toy else 100), time.perf_counter()
    result = about(options.toy, batches, device)
    print("exactness …", file=sys.stderr)
    result["checks"] = {str(t).removeprefix("torch."): is_exact(t, sizes[0], device) for t in dtypes(device)}
    print("forward and backward …", file=sys.stderr)
    nets, result["left_out"] = models(sizes[0].d, sizes[0].m, device)
    result["speed"] = {**sizes[0]._asdict(), "milliseconds": speed(nets, sizes[0], batches, device)}
    print("memory against N …", file=sys.stderr)
    result["memory"] = memory(sizes[1], device)
    result["seconds"] = round(time.perf_counter() - start)
    print(table(result))
    path = (options.out or Path("results")) / ("gpu-toy.json" if options.toy else "gpu.json")
    write_json(path, result)
    print(f"\nwrote {path}")


if __name__ == "__main__":
    main()
