"""The benchmark of very long sequences runs on short ones, and its results fill the page."""

import json

import pytest

from docs.build import long
from docs.build.pages import FIGURES
from tests.benchmarks.run import run


@pytest.mark.slow
@pytest.mark.parametrize(("task", "model"), [("recall", "unicornn"), ("adding", "mingru")])
def test_benchmark_runs(task, model, tmp_path, monkeypatch):
    small = ["--stages", 40, "--stages", 60, "--minutes", 0.02, "--quick"]
    run("benchmarks.long", task, "--model", model, *small, "--out", tmp_path / "long")
    result = json.loads((tmp_path / "long" / f"{task}-{model}.json").read_text())
    assert result["stages"][0]["N"] == 40
    assert result["stages"][0]["test"] >= 0
    assert {"command", "protocol", "versions", "CPU seconds", "peak memory, GiB", "gate"} <= set(result)
    monkeypatch.setattr(long, "RESULTS", tmp_path)
    (row,) = long.learning(task)
    assert row["model"] == model
    assert row["tested"]
    assert FIGURES[f"long_{task}"]().axes


@pytest.mark.slow
def test_memory_is_measured_at_each_length(tmp_path, monkeypatch):
    run("benchmarks.long", "memory", "--stages", 40, "--stages", 60, "--quick", "--out", tmp_path / "long")
    monkeypatch.setattr(long, "RESULTS", tmp_path)
    heading, _, row = long.memory_by_length()
    assert heading == "| model | N = 40 | N = 60 |"
    assert row.count("GiB") == 2
