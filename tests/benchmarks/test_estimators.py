"""The comparison of the estimators runs on a toy set; what it measures is not looked at."""

import numpy as np
import pytest

from benchmarks import estimators
from benchmarks.series import Split


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
