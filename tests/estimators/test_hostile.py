"""Values that are not finite; saved models that were tampered with."""

import hashlib
import json
import os

import numpy as np
import pytest
from safetensors.torch import load as read_tensors
from safetensors.torch import save as write_tensors

from tests.estimators.helpers import QUICK
from unicornn import load_model
from unicornn.errors import BadCheckpoint, BadValue, Diverged
from unicornn.estimators import OscillatorBank, UnICORNNClassifier, _saved
from unicornn.estimators import _network as networks

X = np.random.default_rng(0).normal(size=(16, 12))
Y = np.array(["a", "b"] * 8)


@pytest.fixture(scope="module")
def fitted():
    return UnICORNNClassifier("both", frames=0, **QUICK).fit(X, Y)


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
        UnICORNNClassifier("network", frames=0, **QUICK).fit(X, Y)


def test_masked_values_are_missing():
    masked = np.ma.masked_array(X, mask=X > 1)
    for form in (masked, list(masked)):
        with pytest.raises(BadValue, match=r"^X: .*NaN in series"):
            UnICORNNClassifier().fit(form, Y)
    gaps = np.where(X > 1, np.nan, X)
    same = [OscillatorBank(missing="mask", random_state=0).fit_transform(form) for form in (masked, gaps)]
    assert np.array_equal(*same)


# Saved models


def forge(folder, change):
    """Applies ``change(config, tensors)`` to a saved model, and updates the checksums."""
    config = json.loads((folder / "config.json").read_bytes())
    tensors = read_tensors((folder / "model.safetensors").read_bytes())
    change(config, tensors)
    content = write_tensors(tensors)
    (folder / "model.safetensors").write_bytes(content)
    config["sha256"] = hashlib.sha256(content).hexdigest()
    config["checksum"] = _saved._checksum(config)
    (folder / "config.json").write_text(json.dumps(config))


FORGERIES = {
    "class": lambda config, tensors: config.update({"class": []}),
    "huge": lambda config, tensors: config["settings"].update(hidden_size=10**6),
    "dt": lambda config, tensors: config["network"].update(dt=-1),
    "classes": lambda config, tensors: config["target"].update(classes=["a"]),
    "nan": lambda config, tensors: tensors["network.rnn.w.0"].fill_(float("nan")),
    "short": lambda config, tensors: tensors.update({"bank.0.levels": tensors["bank.0.levels"][:, :1].contiguous()}),
}


@pytest.mark.filterwarnings("ignore:the state of layer")  # of a prediction from NaN
@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_model_is_rejected(saved, change):
    forge(saved, lambda config, tensors: None)
    load_model(saved)
    forge(saved, change)
    with pytest.raises(BadCheckpoint, match=str(saved)):
        load_model(saved)


def test_a_failed_save_keeps_the_old_model(saved, monkeypatch):
    before, synced = {path.name: path.read_bytes() for path in saved.iterdir()}, []
    other = UnICORNNClassifier(random_state=1).fit(X, Y[::-1])

    def full(descriptor):
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises((OSError, ValueError)):
        other.save_pretrained(saved)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
