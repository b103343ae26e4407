"""Estimators as folders."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.estimators.hub import hub
from tests.estimators.test_estimators import SMALL, tones
from unicornn.errors import BadCheckpoint, MissingData
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor, load

VERSIONS = Path(__file__).parent / "frozen"  # as each version of the format wrote it: python -m tests.estimators.freeze
FROZEN = VERSIONS / "4"


@pytest.mark.parametrize(
    ("model", "readout"), [("bank", "energy"), ("network", "energy"), ("network", "energy+state"), ("both", "state")]
)
def test_predictions_survive(model, readout, tmp_path):
    X, y, f = tones(12, d=2)
    settings = {"dt": 0.5, "max_epochs": 2, "readout": readout, **SMALL}
    for estimator in (
        UnICORNNClassifier(model, **settings).fit(X, y),
        UnICORNNRegressor(model, **settings).fit(X, np.stack([f, -f], 1)),
    ):
        estimator.save_pretrained(tmp_path)
        again = type(estimator).from_pretrained(tmp_path)
        assert np.array_equal(estimator.predict(X), again.predict(X))
        assert np.array_equal(estimator.transform(X), again.transform(X))
        assert again.get_params() == estimator.get_params()
        if model != "bank":
            assert again.predict(X).dtype == estimator.predict(X).dtype
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "README.md", "config.json", "model.safetensors", "preprocessing.json",
    ]  # fmt: skip
    again.save_pretrained(tmp_path / "copy")
    assert (tmp_path / "copy/model.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


@pytest.mark.parametrize("labels", [[3, 7], [1.0, 2.0], [True, False], np.array(["a", "b"], dtype=object)])
def test_classes_keep_their_kind(labels, tmp_path):
    X, _, _ = tones(8)
    y = np.asarray(labels)[np.arange(8) % 2]
    UnICORNNClassifier(random_state=0).fit(X, y).save_pretrained(tmp_path)
    again = UnICORNNClassifier.from_pretrained(tmp_path)
    assert again.classes_.dtype == y.dtype
    assert again.classes_.tolist() == sorted(labels)


def test_numbers_as_a_search_draws_them(tmp_path):
    X, y, _ = tones(8)
    drawn = {"hidden_size": np.int64(4), "max_epochs": np.int32(1), "lr": np.float32(0.01), "dt": np.float64(0.5)}
    UnICORNNClassifier("network", num_layers=1, random_state=0, **drawn).fit(X, y).save_pretrained(tmp_path)
    assert load(tmp_path).hidden_size == 4


def test_the_card_says_what_and_how_well(tmp_path):
    X, y, _ = tones(8)
    UnICORNNClassifier(random_state=0).fit(X, y).save_pretrained(tmp_path)
    text = (tmp_path / "README.md").read_text()
    for part in ("| series | 8 |", "high (4), low (4)", "left out accuracy", "`'bank'`", "| torch |"):
        assert part in text


@pytest.mark.parametrize("version", ["1", "2", "3", "4"])
def test_a_frozen_model_loads(version, tmp_path):
    wanted = json.loads((VERSIONS / version / "expected.json").read_text())
    model = load(VERSIONS / version)
    model.save_pretrained(tmp_path)
    model = load(tmp_path)
    assert isinstance(model, UnICORNNClassifier)
    X = [np.asarray(x) for x in wanted["X"]]
    assert model.predict(X).tolist() == wanted["predict"]
    assert np.allclose(model.predict_proba(X), wanted["predict_proba"], atol=1e-3)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "preprocessing.json"])
@pytest.mark.parametrize("harm", ["changed", "truncated", "gone", "foreign"])
def test_a_harmed_file_is_named(name, harm, tmp_path):
    shutil.copytree(FROZEN, tmp_path / "model")
    path = tmp_path / "model" / name
    content = path.read_bytes()
    if harm == "gone":
        path.unlink()
    elif harm == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif harm == "foreign":
        path.write_bytes(b'{"architectures": ["BertModel"]}')
    else:
        at = len(content) - 20
        digit = next(i for i in range(at, 0, -1) if content[i : i + 1].isdigit())
        path.write_bytes(
            content[:digit] + (b"1" if content[digit : digit + 1] != b"1" else b"2") + content[digit + 1 :]
        )
    with pytest.raises(BadCheckpoint, match=name.replace(".", r"\.")):
        load(tmp_path / "model")


def test_other_models_are_refused(tmp_path):
    with pytest.raises(BadCheckpoint, match="expected a UnICORNNRegressor, got a UnICORNNClassifier"):
        UnICORNNRegressor.from_pretrained(FROZEN)
    with pytest.raises(MissingData, match="expected a folder with config"):
        load(tmp_path / "nowhere")
    shutil.copytree(FROZEN, tmp_path / "later")
    config = json.loads((tmp_path / "later/config.json").read_text()) | {"format_version": 99}
    (tmp_path / "later/config.json").write_text(json.dumps(config))
    with pytest.raises(BadCheckpoint, match="format_version up to 4, got 99"):
        load(tmp_path / "later")


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # huggingface_hub's own
def test_a_model_is_pushed_and_loaded_from_the_hub(tmp_path, monkeypatch):
    with hub(monkeypatch) as server:
        address = load(FROZEN).push_to_hub("somebody/tones", token="hf_secret")
        assert address.startswith(server.url)
        assert server.tokens == {"Bearer hf_secret"}
        assert server.files.keys() == {"README.md", "config.json", "model.safetensors", "preprocessing.json"}
        assert server.files["model.safetensors"] == (FROZEN / "model.safetensors").read_bytes()
        again = UnICORNNClassifier.from_pretrained("somebody/tones", cache_dir=tmp_path, token=False)
        assert again.classes_.tolist() == ["high", "low"]
        X = [np.asarray(x) for x in json.loads((FROZEN / "expected.json").read_text())["X"]]
        assert np.array_equal(again.predict_proba(X), load(FROZEN).predict_proba(X))
        server.files.pop("preprocessing.json")
        with pytest.raises(BadCheckpoint, match=r"preprocessing\.json: expected a part of the model"):
            load("somebody/tones", cache_dir=tmp_path / "other", token=False)


def test_an_unfitted_estimator_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        UnICORNNClassifier().save_pretrained(tmp_path)
