"""Each example runs and prints its result."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NEEDS_DATA = {"respiratory_rate"}


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_example_runs(path, tmp_path):
    if path.stem in NEEDS_DATA and not os.environ.get("UNICORNN_DATA"):
        pytest.skip("UNICORNN_DATA is not set")
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=600, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    _, _, code = path.read_text(encoding="utf-8").split('"""', 2)
    assert len(code.splitlines()) <= 60, "an example is one screen"
