"""Saved estimators."""

import json
import shutil

import numpy as np
import pytest
from huggingface_hub import HfApi, RepoUrl

from tests.estimators.freeze import FROZEN
from tests.estimators.helpers import QUICK, tones
from unicornn import load_model
from unicornn.errors import BadCheckpoint, MissingData
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor, _saved

FILES = ["README.md", "config.json", "model.safetensors"]
EXPECTED = json.loads((FROZEN / "expected.json").read_text())
SERIES = [np.asarray(x) for x in EXPECTED["X"]]


@pytest.mark.parametrize(
    ("model", "readout"), [("bank", "energy"), ("network", "energy"), ("network", "energy+state"), ("both", "state")]
)
def test_predictions_survive(model, readout, tmp_path):
    X, y, f = tones(12, d=2)
    settings = QUICK | {"readout": readout}
    for estimator in (
        UnICORNNClassifier(model, **settings).fit(X, y),
        UnICORNNRegressor(model, **settings).fit(X, np.stack([f, -f], 1)),
    ):
        estimator.save_pretrained(tmp_path)
        loaded = type(estimator).from_pretrained(tmp_path)
        assert np.array_equal(estimator.predict(X), loaded.predict(X))
        assert loaded.predict(X).dtype == estimator.predict(X).dtype
        assert np.array_equal(estimator.transform(X), loaded.transform(X))
        assert loaded.get_params() == estimator.get_params()
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    loaded.save_pretrained(tmp_path / "copy")
    assert (tmp_path / "copy/model.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


@pytest.mark.parametrize("labels", [[3, 7], [1.0, 2.0], [True, False], np.array(["a", "b"], dtype=object)])
def test_classes_keep_their_dtype(labels, tmp_path):
    X, _, _ = tones(8)
    y = np.asarray(labels)[np.arange(8) % 2]
    UnICORNNClassifier(random_state=0).fit(X, y).save_pretrained(tmp_path)
    loaded = load_model(tmp_path)
    assert loaded.classes_.dtype == y.dtype
    assert loaded.classes_.tolist() == sorted(labels)


def test_settings_may_be_numpy_scalars(tmp_path):
    X, y, _ = tones(8)
    drawn = {"hidden_size": np.int64(4), "max_epochs": np.int32(1), "lr": np.float32(0.01), "dt": np.float64(0.5)}
    UnICORNNClassifier("network", num_layers=1, random_state=0, **drawn).fit(X, y).save_pretrained(tmp_path)
    assert load_model(tmp_path).hidden_size == 4


def test_the_frozen_model_loads(tmp_path):
    load_model(FROZEN).save_pretrained(tmp_path)
    model = load_model(tmp_path)
    assert isinstance(model, UnICORNNClassifier)
    assert model.predict(SERIES).tolist() == EXPECTED["predict"]
    assert np.allclose(model.predict_proba(SERIES), EXPECTED["predict_proba"], atol=1e-3)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("harm", ["changed", "removed"])
def test_a_damaged_file_is_named(name, harm, tmp_path):
    shutil.copytree(FROZEN, tmp_path / "model")
    path = tmp_path / "model" / name
    content = path.read_bytes()
    if harm == "removed":
        path.unlink()
    else:
        digit = next(i for i in range(len(content) - 20, 0, -1) if content[i : i + 1].isdigit())
        path.write_bytes(content[:digit] + (b"2" if content[digit] == ord("1") else b"1") + content[digit + 1 :])
    with pytest.raises(BadCheckpoint, match=name.replace(".", r"\.")):
        load_model(tmp_path / "model")


def test_other_models_are_rejected(tmp_path):
    with pytest.raises(BadCheckpoint, match="expected a UnICORNNRegressor"):
        UnICORNNRegressor.from_pretrained(FROZEN)
    with pytest.raises(MissingData, match=r"^source: "):
        load_model(tmp_path / "nowhere")
    shutil.copytree(FROZEN, tmp_path / "later")
    config = json.loads((tmp_path / "later/config.json").read_text()) | {"format_version": 99}
    (tmp_path / "later/config.json").write_text(json.dumps(config))
    with pytest.raises(BadCheckpoint, match="format_version 1, got 99"):
        load_model(tmp_path / "later")


def test_a_model_is_pushed_to_the_hub_and_loaded(tmp_path, monkeypatch):
    """The client of the Hub is replaced by one that copies folders."""
    copies = tmp_path / "hub"

    def upload(api, *, repo_id, folder_path, **_):
        shutil.copytree(folder_path, copies / repo_id)
        return f"https://hub/{repo_id} {api.token}"

    def download(name, **options):
        assert options == {"allow_patterns": FILES[1:], "revision": "main"}
        return str(copies / name)

    monkeypatch.setattr(HfApi, "create_repo", lambda api, repo_id, **_: RepoUrl(f"https://hf.co/{repo_id}"))
    monkeypatch.setattr(HfApi, "upload_folder", upload)
    monkeypatch.setattr(_saved, "snapshot_download", download)
    model = load_model(FROZEN)
    address = model.save_pretrained(tmp_path / "m", push_to_hub=True, repo_id="owner/tones", token="hf_secret")
    assert address == "https://hub/owner/tones hf_secret"
    assert sorted(path.name for path in (copies / "owner/tones").iterdir()) == FILES
    loaded = UnICORNNClassifier.from_pretrained("owner/tones", revision="main")
    assert np.array_equal(loaded.predict_proba(SERIES), model.predict_proba(SERIES))
    (copies / "owner/tones/model.safetensors").unlink()
    with pytest.raises(BadCheckpoint, match=r"model\.safetensors: "):
        load_model("owner/tones", revision="main")


def test_an_unfitted_estimator_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        UnICORNNClassifier().save_pretrained(tmp_path)
