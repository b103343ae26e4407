"""Runs compiled Triton kernels without a GPU: the LLVM code for AMD cards, compiled for the CPU.

Threads share nothing in that code, and little in it is specific to a card except how a thread gets its number. So it
runs nearly unchanged, one thread after another, with the fused multiply-adds, integers and unrolled loop of a card,
none of which the interpreter has; and fast enough for long sequences."""

import ctypes
import re
import struct
from functools import cache
from types import SimpleNamespace

import llvmlite.binding as llvm
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from unicornn._ops.triton import kernels as gpu_kernels

CARD = GPUTarget("hip", "gfx942", 64)
NAMES = {
    torch.float32: "fp32", torch.float64: "fp64", torch.bfloat16: "bf16", torch.float16: "fp16", torch.int64: "i64",
    torch.int32: "i32",
}  # fmt: skip
# Replacements for functions that only a card has. The last one rounds to bfloat16.
REPLACED = {
    "amdgpu_kernel ": "", " addrspace(1)": "", " inreg": "", "+qnan": "0x7FF8000000000000",
    "+inf": "0x7FF0000000000000", "-inf": "0xFFF0000000000000", "bfloat +nan(0x3F)": "bfloat 0xR7FBF",
    "llvm.amdgcn.workitem.id.x": "thread_number", "llvm.amdgcn.workgroup.id.x": "program_number",
    "llvm.amdgcn.rcp.f64": "reciprocal", "llvm.amdgcn.readfirstlane.i32": "same_in_all_lanes",
}  # fmt: skip
FUNCTIONS = """
@thread = global i32 0
@program = global i32 0
define i32 @thread_number() {
  %v = load i32, ptr @thread
  ret i32 %v
}
define i32 @program_number() {
  %v = load i32, ptr @program
  ret i32 %v
}
define i32 @same_in_all_lanes(i32 %x) {
  ret i32 %x
}
define double @reciprocal(double %x) {
  %v = fdiv double 1.0, %x
  ret double %v
}
define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %last = lshr i32 %bits, 16
  %odd = and i32 %last, 1
  %half = add i32 %odd, 32767
  %sum = add i32 %bits, %half
  %high = lshr i32 %sum, 16
  %word = trunc i32 %high to i16
  %v = bitcast i16 %word to bfloat
  ret bfloat %v
}
"""


def _as_double(value):
    return f"0x{struct.pack('>d', value).hex().upper()}"


def _hexadecimal(match):
    digits = match[1]
    return _as_double(struct.unpack(">f", bytes.fromhex(digits))[0]) if len(digits) == 8 else f"0x{digits}"


def _decimal(match):
    return _as_double(struct.unpack("f", struct.pack("f", float(match[0])))[0])


def _line(line):
    """Numbers in the form that an older LLVM reads: float32 as the hexadecimal digits of a float64."""
    line = re.sub(r"\bf0x([0-9A-Fa-f]+)", _hexadecimal, line)
    if "float" in line and "double" not in line and "bfloat" not in line:
        line = re.sub(r"[-+]?\d\.\d+e[-+]\d+", _decimal, line)
    return re.sub(r",? !\w[\w.]* ![\w{}]+| #\d+(?=\s|$)", "", line)


def for_this_cpu(code):
    """LLVM code without the attributes and metadata of a card."""
    lines = [line for line in code.splitlines() if not re.match(r"target |attributes |!|declare .*amdgcn", line)]
    code = "\n".join(map(_line, lines))
    for old, new in REPLACED.items():
        code = code.replace(old, new)
    assert "amdgcn" not in code, re.findall(r"\S*amdgcn\S*", code)
    return code + FUNCTIONS


@cache
def _engine(code):
    """The compiled module, kept alive by the cache."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(code), machine)
    engine.finalize_object()
    return engine


@cache
def _compiled(name, types, constants, warps):
    """The kernel as a function of its arguments, and the variables that hold the thread and program numbers."""
    kernel, constants = getattr(gpu_kernels, name), dict(constants)
    rest = iter(types)
    signature = {k: "constexpr" if k in constants else next(rest) for k in kernel.arg_names}
    options = {"num_warps": warps, "enable_fp_fusion": False}
    code = triton.compile(ASTSource(kernel, signature, constants), target=CARD, options=options).asm["llir"]
    engine = _engine(for_this_cpu(code))
    arguments = [ctypes.c_int32 if t == "i32" else ctypes.c_void_p for t in types]
    arguments += [ctypes.c_void_p] * 2  # scratch memory, which no kernel uses
    function = ctypes.CFUNCTYPE(None, *arguments)(engine.get_function_address(name))
    numbers = [ctypes.c_int32.from_address(engine.get_global_value_address(n)) for n in ("thread", "program")]
    return function, *numbers


class Kernel:
    """Replaces a kernel in ``Recurrence``: ``kernel[grid](**arguments)``."""

    def __init__(self, name):
        self.name = name

    def __getitem__(self, grid):
        def launch(num_warps, enable_fp_fusion, **arguments):
            assert not enable_fp_fusion
            kernel, warps = getattr(gpu_kernels, self.name), arguments["B"] // CARD.warp_size
            constants = {k.name: arguments.pop(k.name) for k in kernel.params if k.is_constexpr}
            args = [arguments[name] for name in kernel.arg_names if name in arguments]
            types = tuple(f"*{NAMES[a.dtype]}" if isinstance(a, torch.Tensor) else "i32" for a in args)
            function, thread, program = _compiled(self.name, types, tuple(constants.items()), warps)
            values = [a.data_ptr() if isinstance(a, torch.Tensor) else a for a in args]
            for program.value in range(grid[0]):
                for thread.value in range(constants["B"]):
                    function(*values, None, None)

        return launch


kernels = SimpleNamespace(advance=Kernel("advance"), retreat=Kernel("retreat"))
