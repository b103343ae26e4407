"""The Triton kernels as machine code, without a GPU: registers, spills and instructions per step.

    python -m tests.ops.machine_code --out FILE [--targets sm_90] [--dtypes fp32 bf16] [--ragged 0 1] [--warps 1 4]

Kernels are cross-compiled with the options of a launch. NVIDIA code is disassembled by the tool that comes with triton;
AMD code is the assembly of its compiler. Instructions of the time loop are divided by the steps it is unrolled to.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import subprocess
import tempfile
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends import nvidia
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from unicornn._ops.triton import kernels as gpu_kernels
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
    "retreat": (gpu_kernels.retreat, {"SHOW": True, "ADJOINT": False, "FADE": False}),
    "adjoint": (gpu_kernels.retreat, {"SHOW": False, "ADJOINT": True, "FADE": False}),
    "retreat and adjoint": (gpu_kernels.retreat, {"SHOW": True, "ADJOINT": True, "FADE": False}),
    "retreat and adjoint that fades": (gpu_kernels.retreat, {"SHOW": True, "ADJOINT": True, "FADE": True}),
}


def compiled(name: str, dtype: str, target: str, ragged: bool, warps: int) -> Any:
    """The compiled kernel, with the arguments and options of ``Recurrence``."""
    kernel, flags = KERNELS[name]
    full = torch.float64 if dtype == "fp64" else torch.float32
    word, unit, machine = "fp64" if dtype == "fp64" else "fp32", UNIT[full], TARGETS[target]
    constants = {
        "B": warps * machine.warp_size, "UNIT": unit, "EDGE": round(RANGE / unit) >> 32, "DOUBLE": dtype == "fp64",
        "RAGGED": ragged, **flags,
    }  # fmt: skip
    types = (
        dict.fromkeys("xyg", f"*{dtype}")
        | dict.fromkeys(("w", "b", "δ", "fade"), f"*{word}")
        | dict.fromkeys("aκT", "*fp64")
    )
    types |= dict.fromkeys("KEm", "i32") | {"S": "*i64", "before": "*i64", "ends": "*i32", "bad": "*i32"}
    constants = {k: v for k, v in constants.items() if k in kernel.arg_names}
    signature = {k: "constexpr" if k in constants else types[k] for k in kernel.arg_names}
    options = {"num_warps": warps, "enable_fp_fusion": False}
    return triton.compile(ASTSource(kernel, signature, constants), target=machine, options=options)


def loop(lines: list[tuple[int, str]], jumps: re.Pattern[str], places: dict[str, int]) -> list[str]:
    """Instructions of the longest loop: from a label to the last jump back to it."""
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
    """Opcode without predicate and variants, except those of 64-bit conversions and wide products."""
    word = re.sub(r"^@!?U?P\w+\s+", "", text).split()[0]
    head, *variants = word.split(".")
    telling = ("F64", "S64", "U64") if head.startswith(("F2", "I2")) else ("WIDE",)
    return ".".join([head, *(v for v in variants if v in telling)][:2])


def measure(case: tuple[str, str, str, bool, int]) -> dict[str, Any]:
    """Registers, spills and instructions per step, by name, of one compiled kernel."""
    name, dtype, target, ragged, warps = case
    asm = compiled(*case).asm
    body, registers, spilled = of_nvidia(asm["cubin"]) if "cubin" in asm else of_amd(asm["amdgcn"])
    steps = 1 if dtype == "fp64" else gpu_kernels.DEPTH.value
    count = {k: round(v / steps, 2) for k, v in Counter(map(opcode, body)).most_common()}
    return {
        "kernel": name, "dtype": dtype, "target": target, "ragged": ragged, "warps": warps, "registers": registers,
        "spilled_bytes": spilled, "per_step": round(len(body) / steps, 1), "instructions": count,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--ragged", type=int, nargs="+", choices=(0, 1), default=[0], help="sequences of many lengths")
    parser.add_argument("--warps", type=int, nargs="+", choices=(1, 4), default=[1], help="per program")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    cases = list(product(KERNELS, options.dtypes, options.targets, map(bool, options.ragged), options.warps))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        codes = pool.map(measure, cases, chunksize=8)
    options.out.write_text(json.dumps(codes, indent=1))


if __name__ == "__main__":
    main()
