"""The GPU benchmark runs on toy sizes, by Triton's interpreter; what it measures is not looked at, its checks are."""

import json
import subprocess
import sys

import pytest
import torch

from benchmarks import gpu
from docs.build import gpu as page
from tests.benchmarks.run import ROOT, run
from unicornn.baselines import MODELS

CPU = torch.device("cpu")
NAMES = {f"UnICORNN, 2 layers, {way}{dtype}" for way in ("stored", "reversible") for dtype in ("", ", bfloat16")}
NAMES |= {"LSTM, 1 layer", "SRU, 2 layers", "IndRNN, 2 layers"}


@pytest.mark.slow
def test_toy(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    printed = run("benchmarks.gpu", "--toy", "--out", tmp_path)
    assert "exact reversal: yes\ninvert = store: yes\n" in printed
    text = (tmp_path / "gpu-toy.json").read_text()
    assert str(tmp_path) not in text
    result = json.loads(text)
    assert {"command", "seed", "protocol", "versions", "card", "seconds"} <= set(result)
    assert result["checks"] == {
        dtype: {"exact reversal": True, "invert = store": True} for dtype in ("float32", "bfloat16")
    }
    times, left_out = result["speed"]["milliseconds"], result["left_out"]
    assert set(times) == {str(N) for N in gpu.TOY[0].N}
    for of in times.values():
        assert set(of) == NAMES
        assert min(of.values()) > 0
    assert not left_out
    assert set(result["memory"]["bytes"]) == {"UnICORNN, invert", "UnICORNN, store", "LSTM"}
    assert [path.name for path in tmp_path.iterdir()] == ["gpu-toy.json"]
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    monkeypatch.setattr(page, "measured", lambda name: result)
    assert page.blocks()["measured"] == ["Nothing has been measured on a card yet."]
    (tmp_path / "gpu.json").touch()
    assert "exact reversal: yes" in "\n".join(page.blocks()["measured"])
    bars = page.plots()["gpu"].axes[0].patches
    assert len(bars) == len(NAMES) * len(times)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_names_the_toy():
    command = [sys.executable, "-m", "benchmarks.gpu"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1
    assert "no GPU" in done.stderr
    assert "--toy" in done.stderr
    assert not done.stdout


def test_a_curve_ends_where_memory_does(monkeypatch):
    tried = []

    def step_bytes(net, N, size, device):
        tried.append(N)
        if isinstance(net, MODELS["lstm"]) and N >= 20:
            raise torch.OutOfMemoryError
        return N << 20

    monkeypatch.setattr(gpu, "step_bytes", step_bytes)
    result = gpu.memory(gpu.Size((10, 20, 30), 2, 3, 4), CPU)
    assert result["bytes"]["LSTM"] == [10 << 20, None, None]
    assert result["bytes"]["UnICORNN, store"] == [10 << 20, 20 << 20, 30 << 20]
    assert result["out_of_memory"] == {"LSTM": 20}
    assert tried == [10, 20, 30, 10, 20, 30, 10, 20]
