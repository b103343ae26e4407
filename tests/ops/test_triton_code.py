"""The Triton kernels, compiled without a card."""

import os
from pathlib import Path

import pytest

from tests.processes import python

pytestmark = pytest.mark.slow  # minutes of compiling

ROOT = Path(__file__).parents[2]


def run(path, *command, **environment):
    """Runs a module with Triton's compiler instead of its interpreter and an empty cache."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "PYTEST_ADDOPTS")}
    environment = inherited | environment | {"TRITON_CACHE_DIR": str(path)}
    return python("-m", *command, cwd=ROOT, env=environment)


def test_the_compiled_kernels_pass_the_tests_of_all_kernels(tmp_path):
    """Runs the tests of all levels on compiled kernels instead of Triton's interpreter, and over long sequences."""
    files = [f"tests/{name}.py" for name in ("ops/test_ladder", "test_exact", "ops/test_triton")]
    interpreted = "test_tanh_to or test_increments_are"  # kernels of the tests, which only the interpreter runs
    which = f"(triton or cpu_kernels or gradcheck) and not ({interpreted})"
    out = run(tmp_path, "pytest", *files, "-k", which, "-q", UNICORNN_TRITON="compiled")
    assert " passed" in out
    assert "skipped" not in out


def test_launches_bind_and_compile(tmp_path):
    assert run(tmp_path, "tests.ops.warm_up").splitlines() == ["12 launches"] * 2
