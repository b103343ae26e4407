"""The Triton kernels as machine code, without a GPU: registers, spills and instructions per step.

    python -m benchmarks.gpu_code              # every kernel, dtype and target; prints a table, writes results/gpu_code.json
    python -m benchmarks.gpu_code --target sm_90 --ragged    # some

Cross-compiles with the options of a launch. NVIDIA's code is disassembled by triton's own cuobjdump, AMD's is the
assembly that its compiler gives. Counts are of the time loop, divided by the steps that it is unrolled to.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks import float64_step
from benchmarks.layer import versions
from unicornn.ops import gpu, gpu_kernels

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_89": GPUTarget("cuda", 89, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
NAMES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
KERNELS = {
    "advance": ("advance", {}),
    "retreat": ("retreat", {"SHOW": True, "ADJOINT": False}),
    "adjoint": ("retreat", {"SHOW": False, "ADJOINT": True}),
    "retreat and adjoint": ("retreat", {"SHOW": True, "ADJOINT": True}),
}


@dataclass
class Code:
    """One kernel, compiled."""

    kernel: str
    dtype: str
    target: str
    ragged: bool
    registers: int
    spilled: int
    per_step: float
    instructions: dict[str, float]


def signature(kernel: Any, io: str, constants: dict[str, Any]) -> dict[str, str]:
    """Triton's names of the types of a kernel's arguments; x, y, g are of the io dtype, the state is int64."""
    full = "fp64" if io == "fp64" else "fp32"
    types = {"S": "*i64", "before": "*i64", "C": f"*{full}", "δ": f"*{full}", "T": "*fp64"}
    types |= dict.fromkeys(("x", "y", "g"), f"*{io}") | dict.fromkeys(("steps", "ends", "bad"), "*i32")
    types |= dict.fromkeys(("K", "E", "m"), "i32")
    return {name: "constexpr" if name in constants else types[name] for name in kernel.arg_names}
