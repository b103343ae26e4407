"""The comparison of the estimators runs on a toy set; what it measures is not looked at."""

import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks import estimators
from benchmarks.series import Split, splits


@pytest.fixture
def toy(monkeypatch):
    X = list(np.random.default_rng(0).normal(size=(12, 30, 1)))
    y = np.arange(12) % 2
    monkeypatch.setattr(estimators, "splits", lambda name, folder: [Split(X, y, X[:4], y[:4])] * 2)
    monkeypatch.setattr(estimators, "BUDGET", 1e-3)


@pytest.mark.parametrize("name", ["ShapeletSim", "heart rate"])
@pytest.mark.parametrize("method", ["guess", "bank", "network", "lstm"])
def test_toy(name, method, toy, tmp_path):
    found = estimators.measure(name, method, [0, 1], tmp_path)
    assert len(found["scores"]) == len(found["seconds"]) == 2
    assert (found["n"], found["N"], found["d"]) == (12, 30, 1)
    assert found["megabytes"] > 0


@pytest.mark.skipif("UNICORNN_DATA" not in os.environ, reason="UNICORNN_DATA is not set")
@pytest.mark.parametrize(
    ("name", "sizes"),
    [("ShapeletSim", (20, 180)), ("JapaneseVowels", (270, 370)), ("worms44", (34, 9)), ("bearings", (330, 110))],
)
def test_sets_are_read(name, sizes):
    first = splits(name, Path(os.environ["UNICORNN_DATA"]))[0]
    assert (len(first.X), len(first.X_test)) == (len(first.y), len(first.y_test)) == sizes
