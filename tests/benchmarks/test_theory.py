"""The measurements behind docs/theory.md run, on small sizes."""

import json

import pytest

from docs.build.theory import tables
from tests.benchmarks.run import run


@pytest.mark.slow
def test_the_script_runs(tmp_path):
    run("benchmarks.theory", "--quick", "--out", tmp_path)
    result = json.loads((tmp_path / "theory.json").read_text())
    assert {"command", "seed", "protocol", "date", "versions", "seconds"} <= set(result)
    assert len(list(tmp_path.glob("*.png"))) == 10
    assert all(tables(result).values())
