"""Estimators: what is not finite is no class, wrong arguments are named, saved models that do not fit are refused."""

import hashlib
import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from unicornn.errors import BadCheckpoint, BadType, BadValue, Diverged
from unicornn.estimators import OscillatorBank, UnICORNNClassifier, UnICORNNRegressor, _saved, load
from unicornn.estimators import _network as networks

X = np.random.default_rng(0).normal(size=(16, 12))
Y = np.array(["a", "b"] * 8)
SMALL = {"hidden_size": 4, "max_epochs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return UnICORNNClassifier("both", **SMALL).fit(X, Y)


# What is not finite


@pytest.mark.parametrize("size", [1e39, 1e300])
def test_numbers_beyond_float32_are_not_finite_and_no_class(fitted, size):
    far = X.copy()
    far[3, 2] = size
    for method in (fitted.predict, fitted.predict_proba, fitted.transform):
        with pytest.raises(BadValue, match=r"X: expected numbers that float32 can hold when standardised, got 1e\+"):
            method(far)


@pytest.mark.parametrize("part", ["bank", "network"])
def test_answers_that_are_not_finite_are_no_class(fitted, part, tmp_path):
    fitted.save_pretrained(tmp_path)
    broken = load(tmp_path)
    if part == "bank":
        broken._ridge.intercept[:] = np.nan
    else:
        broken._network.linear.bias.data[:] = np.nan
    with pytest.raises(Diverged, match=f"X: expected series of which the {part} says finite numbers, got others"):
        broken.predict(X)


def test_squares_that_are_not_finite():
    far = X.copy()
    far[0, 0] = 1e200
    with pytest.raises(BadValue, match="X: expected numbers whose squares are finite"):
        UnICORNNClassifier().fit(far, Y)
    with pytest.raises(BadValue, match="y: expected numbers whose squares are finite"):
        UnICORNNRegressor().fit(X, np.r_[np.zeros(15), 1e200])


def test_a_validation_loss_that_is_not_finite_stops_the_fit(monkeypatch):
    monkeypatch.setattr(networks.NetworkTrainer, "validate", lambda _: {"valid_loss": float("nan")})
    with pytest.raises(Diverged, match=r"^valid_loss: "):
        UnICORNNClassifier("network", dt=0.1, **SMALL).fit(X, Y)


def test_what_a_mask_hides_is_missing():
    hidden = np.ma.masked_array(X, mask=X > 1)
    for form in (hidden, list(hidden)):
        with pytest.raises(BadValue, match="X: expected finite numbers, got NaN in series"):
            UnICORNNClassifier().fit(form, Y)
    gaps = X.copy()
    gaps[X > 1] = np.nan
    same = [OscillatorBank(missing="mask", random_state=0).fit_transform(form) for form in (hidden, gaps)]
    assert np.array_equal(*same)


# Arguments; tests/fuzz.py tries many more


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        (
            "fit",
            {"y": np.r_[np.zeros(15), np.nan]},
            r"y: expected a target for every series, got none \(NaN\) for series 15",
        ),
        ("fit", {"y": np.array(["a", None] * 8, dtype=object)}, "y: "),
        ("fit", {"X": X.astype("M8[s]")}, "X: expected an array of numbers"),
        ("fit", {"sample_weight": np.full(16, np.nan)}, "sample_weight: "),
        ("fit", {"groups": [None] * 8 + [1] * 8}, "groups: "),
        ("fit", {"groups": [[0, 1]] * 8 + [0] * 8}, "groups: "),
        ("fit", {"validation_data": (X[:2], ["a", "z"])}, "validation_data: y: expected classes among"),
        ("partial_fit", {"y": Y[:3]}, "y: expected one target for each of the 16 series, got 3"),
        ("partial_fit", {"y": []}, "y: "),
        ("partial_fit", {"sample_weight": -np.ones(16)}, "sample_weight: expected finite numbers >= 0"),
        ("fit", {"sample_weight": np.nan}, "sample_weight: expected finite numbers >= 0"),
    ],
)
def test_wrong_arguments_are_named(method, options, message):
    with pytest.raises((BadValue, BadType), match=message):
        getattr(UnICORNNClassifier("network", **SMALL), method)(**{"X": X, "y": Y} | options)


@pytest.mark.parametrize("weights", [{"a": np.nan, "b": 1}, {"a": -1, "b": 1}, {"a": 0, "b": 0}, "x"])
def test_a_wrong_class_weight_is_named(weights):
    with pytest.raises((BadValue, BadType), match="class_weight: "):
        UnICORNNClassifier(class_weight=weights).fit(X, Y)


def test_large_and_small_weights_are_weights():
    one, other = (UnICORNNClassifier(random_state=0).fit(X, Y, np.full(16, size)) for size in (1.0, 1e308))
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))


# Saved models


def forge(folder, change):
    """A model changed by ``change(config, preprocessing, tensors)``, with the checksums that it then has."""
    config = json.loads((folder / "config.json").read_bytes())
    about = json.loads((folder / "preprocessing.json").read_bytes())
    tensors = load_tensors((folder / "model.safetensors").read_bytes())
    change(config, about, tensors)
    files = {"preprocessing.json": json.dumps(about).encode(), "model.safetensors": save_tensors(tensors)}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if isinstance(config["sha256"], dict):
        config["sha256"] = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    config["checksum"] = _saved._checksum(config)
    (folder / "config.json").write_text(json.dumps(config))


def put(*path, value):
    def change(config, about, tensors):
        place = {"config": config, "about": about, "tensors": tensors}
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value(place[path[-1]]) if callable(value) else value

    return change


FORGERIES = {
    "class": put("config", "class", value=[]),
    "digests": put("config", "sha256", value=None),
    "no models": put("config", "models", value=[]),
    "huge": put("config", "settings", "hidden_size", value=10**6),
    "deep": put("config", "settings", "num_layers", value=10**9),
    "batches": put("config", "settings", "batch_size", value=-1),
    "alpha": put("config", "settings", "alpha", value=float("nan")),
    "layout": put("config", "settings", "layout", value="x"),
    "windows": put("config", "bank", "windows", value=["x", 12]),
    "overlap": put("config", "bank", "overlap", value=0),
    "channels": put("about", "channels", value=10**15),
    "names": put("about", "channel_names", value=3),
    "classes": put("about", "target", "classes", value=["a"]),
    "no classes": put("about", "target", "classes", value=None),
    "kind": put("about", "target", "dtype", value="S1000000000"),
    "temperature": put("about", "target", "temperature", value=float("nan")),
    "mean": put("about", "bank", "mean", value=[float("nan")]),
    "deviation": put("about", "network", "deviation", value=[0.0]),
    "bank deviation": put("about", "bank", "deviation", value="x"),
    "nan": put("tensors", "network.rnn.w.0", value=lambda t: t * float("nan")),
    "short": put("tensors", "bank.0.levels", value=lambda t: t[:, :1].contiguous()),
    "broadcast": put("tensors", "ridge.coefficients", value=lambda t: t[:, :1].contiguous()),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_model_is_refused(fitted, change, tmp_path):
    fitted.save_pretrained(tmp_path)
    forge(tmp_path, lambda *_: None)
    load(tmp_path)
    forge(tmp_path, change)
    with pytest.raises(BadCheckpoint, match=str(tmp_path)):
        load(tmp_path)


def test_a_damaged_config_that_is_deep(fitted, tmp_path):
    fitted.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(BadCheckpoint, match=r"config.json: expected JSON, got a damaged file"):
        load(tmp_path)


@pytest.mark.parametrize("fault", ["full_disk", "not fitted"])
def test_a_save_that_fails_leaves_the_model_that_was_there(fitted, fault, tmp_path, monkeypatch):
    fitted.save_pretrained(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    other = UnICORNNClassifier(random_state=1)
    if fault == "full_disk":
        other.fit(X, Y[::-1])
        synced = []

        def full(descriptor):
            synced.append(descriptor)
            if len(synced) == 3:
                raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
    with pytest.raises((OSError, ValueError)):
        other.save_pretrained(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_what_a_killed_save_left_is_swept_up(fitted, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    left = tmp_path / f".unicornn-{socket.gethostname()}-{process.pid}-0"
    others = tmp_path / ".model.safetensors.elsewhere-1"
    for path in (left, others):
        path.touch()
    fitted.save_pretrained(tmp_path)
    assert not left.exists()
    assert others.exists()
