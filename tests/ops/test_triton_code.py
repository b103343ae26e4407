"""Every Triton kernel, for every dtype, cross-compiled to binaries for the supported cards."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ops.machine_code import KERNELS

pytestmark = pytest.mark.slow  # minutes of compiling

ROOT = Path(__file__).parents[2]
CARDS = ("sm_80", "sm_90", "sm_100", "gfx942")

REGISTERS = 168
"""Registers per thread, at most: a multiprocessor's 65,536 then suffice for 12 warps, three per scheduler. A step is a
chain of about 210 cycles and 90 to 120 instructions, of which a scheduler issues one per cycle, so three warps keep it
busy. AMD's 512 registers per lane suffice for three waves."""


def run(path, *command, **environment):
    """Runs a module with Triton's compiler instead of its interpreter and an empty cache."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "PYTEST_ADDOPTS")}
    environment = inherited | environment | {"TRITON_CACHE_DIR": str(path)}
    command = [sys.executable, "-m", *command]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def codes(path, *options):
    run(path, "tests.ops.machine_code", "--out", str(path / "code.json"), *options)
    return json.loads((path / "code.json").read_text())


def check(kernels, count):
    assert len(kernels) == len(KERNELS) * count
    for k in kernels:
        assert k["spilled_bytes"] == 0, k
        assert 0 < k["registers"] <= REGISTERS, k
        assert k["per_step"] > 20, k  # the time loop was found


@pytest.fixture(scope="module")
def ragged(tmp_path_factory):
    """The largest kernels: those for sequences of different lengths."""
    return codes(tmp_path_factory.mktemp("triton"), "--targets", *CARDS, "--ragged", "1")


def test_kernels_compile_without_spills(ragged):
    check(ragged, 4 * len(CARDS))


def test_float32_kernels_use_no_float64_in_their_loop(ragged):
    """Nor conversions to 64 bits, which are just as slow on cards with slow float64."""
    for k in ragged:
        if k["dtype"] != "fp64" and k["target"].startswith("sm_"):
            slow = [name for name in k["instructions"] if name.startswith("D") or name.endswith(("F64", "S64", "U64"))]
            assert not slow, k


def test_no_kernel_has_atomics(ragged):
    for k in ragged:
        assert not [i for i in k["instructions"] if i.startswith(("ATOM", "RED", "global_atomic", "buffer_atomic"))], k


def test_the_compiled_kernels_pass_the_tests_of_all_kernels(tmp_path):
    """Runs the tests of all levels on compiled kernels instead of Triton's interpreter, and over long sequences."""
    files = [f"tests/{name}.py" for name in ("ops/test_ladder", "test_exact", "ops/test_triton")]
    interpreted = "test_tanh_to or test_increments_are"  # kernels of the tests, which only the interpreter runs
    which = f"(triton or cpu_kernels or gradcheck) and not ({interpreted})"
    out = run(tmp_path, "pytest", *files, "-k", which, "-q", UNICORNN_TRITON="compiled")
    assert " passed" in out
    assert "skipped" not in out


def test_launches_bind_and_compile(tmp_path):
    assert "24 launches" in run(tmp_path, "tests.ops.warm_up")


def test_other_variants_compile_without_spills(tmp_path):
    """For one card of each vendor and two dtypes; the others differ from these in the same way as above."""
    fewer = "--targets", "sm_90", "gfx942", "--dtypes", "fp32", "fp64"
    check(codes(tmp_path, *fewer, "--ragged", "0", "1", "--warps", "4"), 2 * 2 * 2)
