"""Fits, predictions and features of many files: equal to those of one, resumed after an interruption."""

import numpy as np
import pandas as pd
import pytest

from tests.lab.cli.helpers import unicornn
from unicornn import load_model
from unicornn.errors import BadValue, MissingData
from unicornn.estimators import UnICORNNClassifier
from unicornn.lab.fit import _many, predict_file
from unicornn.lab.fit._many import Files, apply_to_files, fit_files, matching

rng = np.random.default_rng(0)
CLASS = np.arange(60) % 2
X = np.sin((0.4 + 0.6 * CLASS)[:, None] * np.arange(10) + rng.uniform(0, 6, (60, 1)))
LABELS = np.where(CLASS, "high", "low")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Three tables of lists, of which the sample holds a part."""
    monkeypatch.setattr(_many, "SAMPLE", 40)
    monkeypatch.setattr("unicornn.estimators._parts.FEATURES", 50)
    for i, rows in enumerate(np.split(np.arange(60), [30, 35])):
        table = pd.DataFrame({"series": [f"s{row}" for row in rows], "x": list(X[rows]), "label": LABELS[rows]})
        table.to_parquet(tmp_path / f"{i}.parquet")
    return Files(matching(tmp_path / "*.parquet"), "label", {})


class Killed(Exception):
    pass


def killed_after(count, function):
    def run(*arguments):
        nonlocal count
        if not count:
            raise Killed
        count -= 1
        return function(*arguments)

    return run


def test_an_interrupted_fit_is_resumed(files, tmp_path, monkeypatch):
    expected = UnICORNNClassifier(random_state=0).fit_parts([(X[:35], LABELS[:35]), (X[35:], LABELS[35:])], sample=40)
    monkeypatch.setattr(_many, "SAVE_SECONDS", 0.0)
    add = UnICORNNClassifier._add_part
    monkeypatch.setattr(UnICORNNClassifier, "_add_part", killed_after(2, add))
    with pytest.raises(Killed):
        fit_files(files, tmp_path / "model", random_state=0)
    monkeypatch.setattr(UnICORNNClassifier, "_add_part", add)
    with pytest.raises(BadValue, match=r"^--out: "):
        fit_files(files, tmp_path / "model", random_state=1)
    begun = []
    fit_files(files, tmp_path / "model", random_state=0, tell=lambda doing, done, series: begun.append((doing, series)))
    assert begun[0] == ("adding", 35)
    model = load_model(tmp_path / "model")
    assert np.array_equal(model.predict_proba(X), expected.predict_proba(X))
    assert (model.about_["series"], model.about_["target"]) == (60, "label")
    assert not (tmp_path / "model" / "unfinished").exists()


def test_interrupted_predictions_are_resumed(files, tmp_path, monkeypatch):
    model = UnICORNNClassifier(random_state=0).fit(X, LABELS)
    out, calls = tmp_path / "out" / "predictions.csv", []

    def predict(estimator, data):
        calls.append(data.ids[0])
        if len(calls) == 3:
            raise Killed
        return predict_file(estimator, data)

    with pytest.raises(Killed):
        apply_to_files(predict, model, files, out)
    assert apply_to_files(predict, model, files, out) == 60
    assert calls == ["s0", "s30", "s35", "s35"]
    table = pd.read_csv(out)
    assert table["series"].tolist() == [f"s{i}" for i in range(60)]
    assert np.allclose(table["p(high)"], model.predict_proba(X)[:, 0])
    assert [path.name for path in out.parent.iterdir()] == ["predictions.csv"]


def test_commands_take_patterns(files, tmp_path):
    pattern, model = str(tmp_path / "*.parquet"), str(tmp_path / "model")
    for arguments in (
        ["fit", pattern, "--target", "label", "--out", model],
        ["predict", model, pattern, "--target", "label", "--out", str(tmp_path / "predictions.csv")],
        ["features", model, pattern, "--target", "label", "--out", str(tmp_path / "features.csv")],
    ):
        unicornn(*arguments)
    assert len(pd.read_csv(tmp_path / "features.csv")) == 60
    table = pd.read_csv(tmp_path / "predictions.csv")
    assert (table["prediction"] == LABELS).mean() > 0.9
    with pytest.raises(MissingData):
        matching(tmp_path / "*.csv.gz")


def test_gaps_and_missing_targets_are_named(files, tmp_path):
    table = pd.read_parquet(files.paths[1])
    table["x"] = [[np.nan, *x[1:]] for x in table["x"]]
    table.to_parquet(files.paths[1])
    with pytest.raises(BadValue, match=r"^--missing: "):
        fit_files(files, tmp_path / "model")
    with pytest.raises(BadValue, match=r"^--target: "):
        fit_files(Files(files.paths, None, {"drop": ["label"]}), tmp_path / "model")
