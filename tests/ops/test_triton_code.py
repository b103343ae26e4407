"""Every Triton kernel, for every dtype, cross-compiled to binaries for the supported cards."""

import json
import os
from pathlib import Path

import pytest

from tests.ops.machine_code import CASES
from tests.processes import python

pytestmark = pytest.mark.slow  # minutes of compiling

ROOT = Path(__file__).parents[2]

REGISTERS = 168
"""Registers per thread, at most: a multiprocessor's 65,536 then suffice for 12 warps, three per scheduler. A step is a
chain of about 210 cycles and 90 to 120 instructions, of which a scheduler issues one per cycle, so three warps keep it
busy. AMD's 512 registers per lane suffice for three waves."""


def run(path, *command, **environment):
    """Runs a module with Triton's compiler instead of its interpreter and an empty cache."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "PYTEST_ADDOPTS")}
    environment = inherited | environment | {"TRITON_CACHE_DIR": str(path)}
    return python("-m", *command, cwd=ROOT, env=environment)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return list(map(json.loads, run(tmp_path_factory.mktemp("triton"), "tests.ops.machine_code").splitlines()))


def test_kernels_compile_without_spills(kernels):
    assert len(kernels) == len(CASES)
    for k in kernels:
        assert k["spilled_bytes"] == 0, k
        assert 0 < k["registers"] <= REGISTERS, k


def test_float32_kernels_use_no_float64_in_their_loop(kernels):
    """Nor conversions to 64 bits, which are just as slow on cards with slow float64."""
    for k in kernels:
        assert (k["dtype"] == "fp64") == bool(k["float64_in_loop"]), k


def test_no_kernel_has_atomics(kernels):
    assert not [k for k in kernels if k["atomics"]]


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
