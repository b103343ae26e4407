"""How a process that torchrun has started ends."""

import os
import subprocess
import sys

import pytest

ABORTS = "import atexit, os; atexit.register(os.abort)"  # as if a thread let go of a tensor too late
LEAVES = "from unicornn.lab.training._processes import leave; print('done', end=''); leave()"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals to be ended by")
@pytest.mark.parametrize(("more", "status"), [({"TORCHELASTIC_RUN_ID": "1"}, 0), ({}, -6)])
def test_a_worker_ends_before_the_interpreter_is_taken_down(more, status):
    done = subprocess.run(
        [sys.executable, "-c", f"{ABORTS}; {LEAVES}"], env=os.environ | more, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == status, done.stderr
    assert status or done.stdout == "done"
