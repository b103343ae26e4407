"""The benchmark of fits to files, in a small size."""

import json

import pytest

from benchmarks import scale


@pytest.mark.slow
def test_scale_benchmark(tmp_path):
    scale.main(series=60, in_memory=40, steps=10, out=tmp_path / "scale.json")
    found = json.loads((tmp_path / "scale.json").read_text())
    assert (found["files"]["series"], found["memory"]["series"]) == (60, 60)  # whole files
    assert found["ratio"] > 0
