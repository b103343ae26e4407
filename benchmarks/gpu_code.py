"""The Triton kernels as machine code, without a GPU: registers, spills, instructions and dependent cycles per step.

    python -m benchmarks.gpu_code                   # all, in some minutes: a table, and results/gpu_code.json
    python -m benchmarks.gpu_code --targets sm_90 --dtypes fp32 bf16 --out DIR

Kernels are cross-compiled with the options of a launch. NVIDIA's code is disassembled by the tool that triton brings
along, AMD's is the assembly of its compiler. The time loop is counted, divided by the steps that it is unrolled to.

The dependent cycles are what a step takes if nothing else is in the way: the longest chain through the loop, with the
latencies below, which are assumptions (the round numbers of published measurements), and loads that come in time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import re
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends import nvidia
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import unicornn
from benchmarks import float64_step
from unicornn._ops import gpu_kernels
from unicornn._state import RANGE, UNIT

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_89": GPUTarget("cuda", 89, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
DTYPES = ("fp32", "bf16", "fp16", "fp64")
KERNELS: dict[str, tuple[Any, dict[str, bool]]] = {
    "advance": (gpu_kernels.advance, {}),
    "retreat": (gpu_kernels.retreat, {"SHOW": True, "ADJOINT": False}),
    "adjoint": (gpu_kernels.retreat, {"SHOW": False, "ADJOINT": True}),
    "retreat and adjoint": (gpu_kernels.retreat, {"SHOW": True, "ADJOINT": True}),
    "advance in float64": (float64_step.advance, {}),  # the way not taken
}
LATENCY = {"D": 8, "F2F": 16, "F2I": 16, "I2FP": 6, "I2F": 16, "MUFU": 20, "LDG": 0}
ANY_OTHER = 5
"""Cycles until a result can be used, by the first letters of the instruction."""


@dataclass
class Code:
    """One kernel, compiled. ``instructions`` are those of a step, by name; ``cycles`` 0 where it is not known."""

    kernel: str
    dtype: str
    target: str
    ragged: bool
    warps: int
    registers: int
    spilled_bytes: int
    per_step: float
    cycles: float
    instructions: dict[str, float]


def compiled(name: str, dtype: str, target: str, ragged: bool, warps: int) -> Any:
    """Triton's compiled kernel, with the arguments and options of gpu.Recurrence."""
    kernel, flags = KERNELS[name]
    full = torch.float64 if dtype == "fp64" else torch.float32
    word, unit, machine = "fp64" if dtype == "fp64" else "fp32", UNIT[full], TARGETS[target]
    constants = {
        "B": warps * machine.warp_size, "UNIT": unit, "EDGE": round(RANGE / unit) >> 32, "DOUBLE": dtype == "fp64",
        "RAGGED": ragged, **flags,
    }  # fmt: skip
    state = "*fp64" if kernel is float64_step.advance else "*i64"
    types = dict.fromkeys("xyg", f"*{dtype}") | dict.fromkeys("wbδ", f"*{word}") | dict.fromkeys("aκT", "*fp64")
    types |= dict.fromkeys("KEm", "i32") | {"S": state, "before": state, "ends": "*i32", "bad": "*i32"}
    constants = {k: v for k, v in constants.items() if k in kernel.arg_names}
    signature = {k: "constexpr" if k in constants else types[k] for k in kernel.arg_names}
    options = {"num_warps": warps, "enable_fp_fusion": False}
    return triton.compile(ASTSource(kernel, signature, constants), target=machine, options=options)


def loop(lines: list[tuple[int, str]], jumps: re.Pattern[str], places: dict[str, int]) -> list[str]:
    """The instructions of the longest loop: from a place to the last jump back to it."""
    best: list[str] = []
    for at, text in lines:
        jump = jumps.search(text)
        if jump and (to := places.get(jump[1], at + 1)) < at:
            body = [t for place, t in lines if to <= place <= at]
            best = max(best, body, key=len)
    return best


def of_nvidia(binary: bytes) -> tuple[list[str], int, int]:
    """The loop of a cubin, its registers, and the bytes of its stack, which only spills use."""
    tool = Path(nvidia.__file__).parent / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        sass, usage = (
            subprocess.run([tool, option, file.name], capture_output=True, text=True, check=True).stdout
            for option in ("-sass", "-res-usage")
        )
    found = re.findall(r"/\*([0-9a-f]{4,5})\*/\s+(.*?)\s*;", sass)
    lines = [(int(at, 16), text) for at, text in found]
    places = {f"0x{at:x}": at for at, _ in lines}
    registers, stack = (int(re.search(rf"{word}:(\d+)", usage)[1]) for word in ("REG", "STACK"))  # type: ignore[index]
    return loop(lines, re.compile(r"BRA\S*\s(?:.*\s)?(0x[0-9a-f]+)"), places), registers, stack


def of_amd(assembly: str) -> tuple[list[str], int, int]:
    lines, places = [], {}
    for at, line in enumerate(assembly.splitlines()):
        if label := re.match(r"(\.LBB\w+):", line):
            places[label[1]] = at
        elif re.match(r"\t[a-z]\w+( |$)", line):
            lines.append((at, line.split(";")[0].strip()))
    numbers = {k: int(re.search(rf"\.{k}:\s+(\d+)", assembly)[1]) for k in ("vgpr_count", "private_segment_fixed_size")}  # type: ignore[index]
    body = loop(lines, re.compile(r"s_c?branch\w* (\.LBB\w+)"), places)
    return body, numbers["vgpr_count"], numbers["private_segment_fixed_size"]


def opcode(text: str) -> str:
    """Without predicate and variants, but those that tell 64-bit conversions and wide products."""
    word = re.sub(r"^@!?U?P\w+\s+", "", text).split()[0]
    head, *variants = word.split(".")
    telling = ("F64", "S64", "U64") if head.startswith(("F2", "I2")) else ("WIDE",)
    return ".".join([head, *(v for v in variants if v in telling)][:2])


def dependent_cycles(body: list[str]) -> float:
    """Cycles that one pass through the loop needs, issue and memory being free: when its last result is ready."""
    ready: Counter[str] = Counter()
    ends = []
    for _ in range(6):
        for text in body:
            words = re.sub(r"^@!?(U?P\w+)\s+", r"", text).split(None, 1)
            names = [re.findall(r"\bU?[RP]\d+\b", operand) for operand in words[1].split(",")] if words[1:] else []
            if words[0].startswith(("ST", "BRA")) or not names:
                continue
            results = 1
            while results < len(names) and re.fullmatch(r"\s*U?P(\d|T)", words[1].split(",")[results]):
                results += 1  # carries come after the result
            name = opcode(text)
            wide = "WIDE" in name or name.startswith("D") or "64" in name
            sources = [r for operand in names[results:] for r in operand]
            sources += [next_register(r) for r in sources] if wide else []
            latency = next((c for head, c in LATENCY.items() if name.startswith(head)), ANY_OTHER)
            start = max((ready[r] for r in sources), default=0)
            for r in (r for operand in names[:results] for r in operand):
                ready[r] = start + latency
                if wide:
                    ready[next_register(r)] = start + latency
        ends.append(max(ready.values()))
    return (ends[-1] - ends[1]) / (len(ends) - 2)


def next_register(name: str) -> str:
    """The other half of a pair."""
    return re.sub(r"\d+", lambda d: str(int(d[0]) + 1), name)


def look(case: tuple[str, str, str, bool, int]) -> Code:
    name, dtype, target, ragged, warps = case
    asm = compiled(*case).asm
    on_nvidia = "cubin" in asm
    body, registers, spilled = of_nvidia(asm["cubin"]) if on_nvidia else of_amd(asm["amdgcn"])
    steps = 1 if dtype == "fp64" else gpu_kernels.DEPTH.value
    count = {k: round(v / steps, 2) for k, v in Counter(map(opcode, body)).most_common()}
    cycles = round(dependent_cycles(body) / steps) if on_nvidia else 0
    return Code(name, dtype, target, ragged, warps, registers, spilled, round(len(body) / steps, 1), cycles, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--ragged", type=int, nargs="+", choices=(0, 1), default=[0], help="sequences of many lengths")
    parser.add_argument("--warps", type=int, nargs="+", choices=(1, 4), default=[1], help="per program")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    start, ragged = time.perf_counter(), [bool(r) for r in options.ragged]
    cases = list(product(KERNELS, options.dtypes, options.targets, ragged, options.warps))
    cases = [c for c in cases if KERNELS[c[0]][0] is not float64_step.advance or c[1:] == ("fp32", c[2], ragged[0], 1)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        codes = []
        for code in pool.imap(look, cases, chunksize=8):
            codes.append(code)
            print(
                f"{code.kernel:20} {code.dtype:5} {code.target:7} {'ragged' if code.ragged else '':6} "
                f"{code.warps} warps: {code.registers:3d} registers, {code.spilled_bytes} bytes spilled, "
                f"{code.per_step:5.1f} instructions and {code.cycles or '?'} dependent cycles per step",
                flush=True,
            )
    about = {
        "command": "python -m benchmarks.gpu_code",
        "protocol": "cross-compiled with the options of a launch; time loop, divided by the steps it is unrolled to",
        "seed": None,
        "latencies": LATENCY | {"others": ANY_OTHER},
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "triton": triton.__version__,
            "unicornn": unicornn.__version__,
        },
        "seconds": round(time.perf_counter() - start),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "gpu_code.json"
    rows = ",\n ".join(json.dumps(asdict(c)) for c in codes)
    path.write_text(f'{{"about": {json.dumps(about, indent=1)},\n"kernels": [\n {rows}\n]}}\n')
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
