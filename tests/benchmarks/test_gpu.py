"""The GPU benchmark runs on toy sizes, in Triton's interpreter."""

import json

import pytest

from benchmarks import gpu
from docs.build import guides
from tests.benchmarks.run import run


@pytest.mark.slow
def test_toy_sizes(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setattr(guides, "RESULTS", tmp_path)
    assert "No measurements" in guides.gpu_measurements()[0]
    printed = run("benchmarks.gpu", "--toy", "--batches", 1, "--out", tmp_path / "gpu.json")
    assert "IndRNN, 2 layers" in printed
    result = json.loads((tmp_path / "gpu.json").read_text())
    assert str(tmp_path) not in str(result)
    assert {"command", "seed", "protocol", "versions", "device", "seconds"} <= set(result)
    assert {row["dtype"] for row in result["checks"]} == {"float32", "bfloat16"}
    assert all(row["exact reversal"] and row["equal gradients"] for row in result["checks"])
    names = {f"UnICORNN, 2 layers, {gradient}" for gradient in gpu.GRADIENTS} | set(gpu.BASELINES)
    assert {(row["N"], row["model"]) for row in result["speed"]} == {(N, name) for N in gpu.TOY[0].N for name in names}
    assert min(row["ms"] for row in result["speed"]) > 0
    monkeypatch.setattr(guides, "load_results", lambda name: result)
    assert "| float32 | True | True |" in guides.gpu_measurements()
