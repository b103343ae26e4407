"""Each example runs and prints its result."""

import os
from pathlib import Path

import pytest

from tests.processes import python

ROOT = Path(__file__).parent.parent
NEEDS_DATA = {"respiratory_rate"}


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_example_runs(path, tmp_path):
    if path.stem in NEEDS_DATA and not os.environ.get("UNICORNN_DATA"):
        pytest.skip("UNICORNN_DATA is not set")
    assert python(path, cwd=tmp_path).strip()
    _, _, code = path.read_text(encoding="utf-8").split('"""', 2)
    assert len(code.splitlines()) <= 60, "an example is one screen"
