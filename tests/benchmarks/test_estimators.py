"""The comparison of the estimators runs on a toy set."""

import json
import math
import os
import types
from pathlib import Path

import numpy as np
import pytest

from benchmarks import bank, estimators
from benchmarks.series import Split, splits
from unicornn.estimators import _network


@pytest.fixture
def toy(monkeypatch):
    X = list(np.random.default_rng(0).normal(size=(12, 30, 1)))
    y = np.arange(12) % 2
    monkeypatch.setattr(estimators, "splits", lambda name, folder: [Split(X, y, X[:4], y[:4])] * 2)
    monkeypatch.setattr(estimators, "BUDGET", 1e-3)
    monkeypatch.setattr(_network, "clock", _network.clock)


@pytest.mark.parametrize("name", ["ShapeletSim", "heart rate"])
@pytest.mark.parametrize("method", ["guess", "bank", "both", "lstm"])
def test_toy_set(name, method, toy, tmp_path):
    found = estimators.measure(name, method, 0, tmp_path)
    assert found.pop("sizes") == {"n": 12, "N": 30, "d": 1}
    assert set(found) == ({"both", "network"} if method == "both" else {method})
    for one in found.values():
        assert 0 <= one["score"] < math.inf
        assert one["megabytes"] > 0


def test_interrupted_benchmark_resumes(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(estimators, "NAMES", ["ShapeletSim"])
    monkeypatch.setattr(estimators, "METHODS", {name: estimators.METHODS[name] for name in ("guess", "bank")})
    for seeds in (1, 2):
        estimators.main(tmp_path, seeds, tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())["sets"]["ShapeletSim"]
    assert {method: len(found[method]["scores"]) for method in ("guess", "bank")} == {"guess": 1, "bank": 2}


@pytest.mark.slow
def test_separate_process_without_fork(monkeypatch):
    monkeypatch.setattr(estimators, "sys", types.SimpleNamespace(platform="win32"))
    assert estimators.in_new_process(os.getppid) == os.getpid()


def test_bank_benchmark(tmp_path):
    bank.main(series=5, steps=20, threads=1, out=tmp_path / "b")
    found = json.loads((tmp_path / "b").read_text())
    assert (found["n"], found["N"], found["threads"]) == (5, 20, 1)
    assert found["seconds"] > 0


@pytest.mark.skipif("UNICORNN_DATA" not in os.environ, reason="UNICORNN_DATA is not set")
@pytest.mark.parametrize(
    ("name", "sizes"),
    [("ShapeletSim", (20, 180)), ("JapaneseVowels", (270, 370)), ("worms44", (34, 9)), ("bearings", (330, 110))],
)
def test_data_sets_are_read(name, sizes):
    first = splits(name, Path(os.environ["UNICORNN_DATA"]))[0]
    assert (len(first.X), len(first.X_test)) == (len(first.y), len(first.y_test)) == sizes
