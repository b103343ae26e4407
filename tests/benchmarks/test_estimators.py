"""The comparison of the estimators runs on a toy set."""

import json
import math

import numpy as np
import pytest

from benchmarks import bank, estimators
from benchmarks.series import Split
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


def test_bank_benchmark(tmp_path):
    bank.main(series=5, steps=20, threads=1, out=tmp_path / "b")
    found = json.loads((tmp_path / "b").read_text())
    assert (found["n"], found["N"], found["threads"]) == (5, 20, 1)
    assert found["seconds"] > 0
