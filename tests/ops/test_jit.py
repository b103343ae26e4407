"""The kernel cache on disk: invalidated when any imported module changes; read-only and full disks."""

import os
import shutil
from pathlib import Path

import pytest

import unicornn
from tests import processes


@pytest.fixture
def copy(tmp_path):
    """A copy of the package that the test may change."""
    source = Path(unicornn.__file__).parent
    shutil.copytree(source, tmp_path / "src" / "unicornn", ignore=shutil.ignore_patterns("__pycache__", "lab"))
    return tmp_path / "src" / "unicornn"


def python(code, copy, **environment):
    """The output of code that runs with the copy."""
    keep = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    environment = {**keep, "PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    return processes.python("-c", code, env=environment)


TANH = """
import numba, numpy as np
from unicornn._ops.cpu.sizes import B
from unicornn._ops.cpu.recurrence import Constants, Layer, advance_row
x, y, P = np.ones(B, np.float32), np.zeros(B, np.float32), np.zeros(2 * B, np.float32)
S, A = np.zeros(2 * B), np.ones(2 * B) * 2.0**36  # in units of 2**-36, so that z = -tanh(1)
run = numba.njit(lambda *args: advance_row(*args))
run(x, y, Layer(S, A, P), Constants(np.float32(2.0**-36), 0.0, 2.0**60), 1)
print(-S[B] * 2.0**-36, sum(advance_row.stats.cache_hits.values()))
"""


def change(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


@pytest.mark.slow
def test_kernels_are_compiled_again_after_a_change_of_an_import(copy, tmp_path):
    (copy / "__init__.py").write_text("")  # the kernels need no torch, which takes seconds to import

    def tanh_of_one():
        result, hits = python(TANH, copy, NUMBA_CACHE_DIR=str(tmp_path / "cache")).split()
        return round(float(result), 4), int(hits)

    assert tanh_of_one() == (0.7616, 0)
    assert tanh_of_one() == (0.7616, 1), "from the disk"
    change(copy / "_ops" / "cpu" / "jit.py", "copysign(m / (_TWO + m), v)", "copysign((m + m) / (_TWO + m), v)")
    assert tanh_of_one() == (1.5232, 0)
    assert tanh_of_one() == (1.5232, 1)
    change(copy / "_ops" / "cpu" / "sizes.py", "B = 128", "B = 64")  # imported by a module that is imported
    assert tanh_of_one() == (1.5232, 0)


STEP = """
import logging, sys
logging.basicConfig(format="%(message)s", stream=sys.stdout)
import torch, unicornn
layer = unicornn.UnICORNN(2, 3)
layer(torch.randn(4, 1, 2))[0].sum().backward()
print(layer.w[0].grad.isfinite().all().item())
"""


@pytest.mark.slow
def test_kernels_are_compiled_without_a_writable_folder(copy):
    (copy / "_ops" / "cpu" / "__pycache__").write_text("a file where the folder would be")
    nowhere = {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull, "NUMBA_CACHE_DIR": os.devnull + "/cache"}
    printed = python(STEP, copy, **nowhere)
    assert printed.endswith("True\n")
    assert printed.count("NUMBA_CACHE_DIR") == 1
