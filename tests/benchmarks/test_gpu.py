"""The GPU benchmark runs on toy sizes, in Triton's interpreter."""

import json
import subprocess
import sys

import pytest
import torch

from benchmarks import gpu
from docs.build import guides
from tests.benchmarks.run import ROOT, run
from unicornn.baselines import MODELS


@pytest.mark.slow
def test_toy_sizes(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    printed = run("benchmarks.gpu", "--toy", "--out", tmp_path)
    assert printed.startswith("exact reversal: yes\nequal gradients: yes\n")
    result = json.loads((tmp_path / "gpu-toy.json").read_text())
    assert str(tmp_path) not in str(result)
    assert {"command", "seed", "protocol", "versions", "device", "seconds"} <= set(result)
    assert set(result["checks"]) == {"float32", "bfloat16"}
    assert all(all(checks.values()) for checks in result["checks"].values())
    names = {f"UnICORNN, 2 layers, {gradient}" for gradient in gpu.GRADIENTS} | set(gpu.BASELINES)
    times = result["speed"]["milliseconds"]
    assert {N: set(each) for N, each in times.items()} == {str(N): names for N in gpu.TOY[0].N}
    assert min(min(each.values()) for each in times.values()) > 0
    assert set(result["memory"]["bytes"]) == {"UnICORNN, reversible", "UnICORNN, stored", "LSTM"}
    monkeypatch.setattr(guides, "RESULTS", tmp_path)
    monkeypatch.setattr(guides, "load_results", lambda name: result)
    assert "No measurements" in guides.gpu_measurements()[0]
    (tmp_path / "gpu.json").touch()
    assert "exact reversal: yes" in guides.gpu_measurements()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_error_names_toy():
    command = [sys.executable, "-m", "benchmarks.gpu"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "--toy" in done.stderr


def test_curve_ends_where_memory_runs_out(monkeypatch):
    tried = []

    def step_bytes(net, N, size, device):
        tried.append(N)
        if isinstance(net, MODELS["lstm"]) and N >= 20:
            raise torch.OutOfMemoryError
        return N << 20

    monkeypatch.setattr(gpu, "step_bytes", step_bytes)
    result = gpu.memory(gpu.Size((10, 20, 30), 2, 3, 4), torch.device("cpu"))
    assert result["bytes"]["LSTM"] == [10 << 20, None, None]
    assert result["bytes"]["UnICORNN, stored"] == [10 << 20, 20 << 20, 30 << 20]
    assert result["out_of_memory"] == {"LSTM": 20}
    assert tried == [10, 20, 30, 10, 20, 30, 10, 20]
