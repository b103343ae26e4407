"""Intervals of the regressor's predictions."""

import numpy as np
import pytest

from tests.estimators.helpers import QUICK, SMALL, tones
from unicornn import load_model
from unicornn.errors import BadValue
from unicornn.estimators import UnICORNNRegressor


@pytest.mark.parametrize("model", ["bank", "network"])
def test_intervals_cover_new_targets(model, tmp_path):
    rng = np.random.default_rng(0)
    f = rng.uniform(0.2, 0.4, 400)
    X = np.sin(f[:, None] * np.arange(60) + rng.uniform(0, 6, (400, 1)))
    Y = np.stack([f + 0.05 * rng.normal(size=400), rng.normal(size=400)], 1)
    fitted = UnICORNNRegressor(model, **QUICK | {"max_epochs": 3}, validation_fraction=0.5).fit(X[:200], Y[:200])
    intervals = fitted.predict_interval(X[200:], coverage=0.8)
    low, high = intervals[..., 0], intervals[..., 1]
    assert intervals.shape == (200, 2, 2)
    assert np.allclose((low + high) / 2, fitted.predict(X[200:]))
    assert (np.abs(((low <= Y[200:]) & (Y[200:] <= high)).mean(0) - 0.8) < 0.12).all()
    fitted.save_pretrained(tmp_path)
    assert np.array_equal(load_model(tmp_path).predict_interval(X, 0.8), fitted.predict_interval(X, 0.8))
    with pytest.raises(BadValue, match=r"^coverage: "):
        fitted.predict_interval(X, coverage=0.999)


def test_intervals_need_errors_of_left_out_series():
    X, _, f = tones(8)
    assert UnICORNNRegressor(**SMALL).fit(X, f).predict_interval(X, 0.5).shape == (8, 2)
    with pytest.raises(BadValue, match=r"^model: "):
        UnICORNNRegressor("network", frames=0, **QUICK).fit(X[:3], f[:3]).predict_interval(X)
    with pytest.raises(BadValue, match=r"^model: "):
        UnICORNNRegressor("both", **QUICK).fit(X, f).predict_interval(X)
