"""Values that are not finite."""

import numpy as np
import pytest

from tests.estimators.helpers import QUICK
from unicornn import load_model
from unicornn.errors import BadValue, Diverged
from unicornn.estimators import OscillatorBank, UnICORNNClassifier
from unicornn.estimators import _network as networks

X = np.random.default_rng(0).normal(size=(16, 12))
Y = np.array(["a", "b"] * 8)


@pytest.fixture(scope="module")
def fitted():
    return UnICORNNClassifier("both", **QUICK).fit(X, Y)


@pytest.fixture
def saved(fitted, tmp_path):
    fitted.save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("size", [1e39, 1e300])
def test_values_beyond_float32(fitted, size):
    far = X.copy()
    far[3, 2] = size
    for method in (fitted.predict, fitted.predict_proba, fitted.transform):
        with pytest.raises(BadValue, match=r"^X: .*float32.* 1e\+"):
            method(far)


@pytest.mark.parametrize("part", ["bank", "network"])
def test_predictions_that_are_not_finite(saved, part):
    broken = load_model(saved)
    if part == "bank":
        broken._ridge.intercept[:] = np.nan
    else:
        broken._network.linear.bias.data[:] = np.nan
    with pytest.raises(Diverged, match=f"^X: the {part}'s prediction for series 0"):
        broken.predict(X)


def test_a_validation_loss_that_is_not_finite_stops_the_fit(monkeypatch):
    monkeypatch.setattr(networks.NetworkTrainer, "validate", lambda _: {"valid_loss": float("nan")})
    with pytest.raises(Diverged, match=r"^valid_loss: "):
        UnICORNNClassifier("network", **QUICK).fit(X, Y)


def test_masked_values_are_missing():
    masked = np.ma.masked_array(X, mask=X > 1)
    for form in (masked, list(masked)):
        with pytest.raises(BadValue, match=r"^X: .*NaN in series"):
            UnICORNNClassifier().fit(form, Y)
    gaps = np.where(X > 1, np.nan, X)
    same = [OscillatorBank(missing="mask", random_state=0).fit_transform(form) for form in (masked, gaps)]
    assert np.array_equal(*same)
