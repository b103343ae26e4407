"""The Triton kernels as machine code, without a GPU: ``python -m tests.ops.machine_code`` prints lines of JSON.

Kernels are cross-compiled with the options of a launch. NVIDIA's registers and stack, which only spills use, come from
the tool that comes with triton, AMD's from its compiler's assembly.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import subprocess
import tempfile
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
    "sm_80": GPUTarget("cuda", 80, 32), "sm_90": GPUTarget("cuda", 90, 32), "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}  # fmt: skip
DTYPES = ("fp32", "bf16", "fp16", "fp64")
KERNELS: dict[str, tuple[Any, dict[str, bool]]] = {
    "advance": (gpu_kernels.advance, {}),
    "retreat": (gpu_kernels.retreat, {"SHOW": True, "ADJOINT": False, "FADE": False}),
    "adjoint": (gpu_kernels.retreat, {"SHOW": False, "ADJOINT": True, "FADE": False}),
    "retreat and adjoint": (gpu_kernels.retreat, {"SHOW": True, "ADJOINT": True, "FADE": False}),
    "retreat and adjoint that fades": (gpu_kernels.retreat, {"SHOW": True, "ADJOINT": True, "FADE": True}),
}
# The largest kernels, those for sequences of different lengths, for every card and dtype; some of the others.
CASES = [
    *product(KERNELS, DTYPES, TARGETS, [True], [1]),
    *product(KERNELS, ("fp32", "fp64"), ("sm_90", "gfx942"), [False, True], [4]),
]


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


def found(pattern: str, text: str) -> int:
    return int(re.search(pattern, text)[1])  # type: ignore[index]


def measure(case: tuple[str, str, str, bool, int]) -> dict[str, Any]:
    """Registers, bytes of spills, and what the code of a kernel contains."""
    asm = compiled(*case).asm
    if "cubin" in asm:
        tool = Path(nvidia.__file__).parent / "bin" / "cuobjdump"
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(asm["cubin"])
            file.flush()
            usage = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
        registers, spilled = found(r"REG:(\d+)", usage), found(r"STACK:(\d+)", usage)
    else:
        registers = found(r"\.vgpr_count:\s+(\d+)", asm["amdgcn"])
        spilled = found(r"\.private_segment_fixed_size:\s+(\d+)", asm["amdgcn"])
    code = asm["ttgir"]
    loop = code[code.index("scf.for") : code.rindex("scf.yield")]
    return dict(zip(("kernel", "dtype", "target", "ragged", "warps"), case, strict=True)) | {
        "registers": registers, "spilled_bytes": spilled, "atomics": "atomic" in code,
        "float64_in_loop": re.findall(r".*f64.*", loop) + re.findall(r".*(?:fptosi|sitofp).*i64.*", loop),
    }  # fmt: skip


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for result in pool.imap(measure, CASES, chunksize=8):
            print(json.dumps(result))
