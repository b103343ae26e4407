"""`unicornn show` and `unicornn export` of a run and of an estimator."""

import re

import numpy as np
import pandas as pd
import pytest

from tests.browser import complaints, opened
from tests.lab.cli.helpers import unicornn
from unicornn.errors import BadValue
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor
from unicornn.lab import tasks
from unicornn.lab.training import resolve, train


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    settings = {"epochs": 1, "hidden_size": 8, "readout": "last+energy+state"}
    train(resolve(tasks.find("digits"), settings=settings), folder)
    return folder


def test_page_of_a_run(run, tmp_path):
    unicornn("show", run, "--out", tmp_path / "page.html", "--samples", 12)
    page = (tmp_path / "page.html").read_text()
    assert page.count('"name": "test ') == 12
    assert all(f'"target": {k}' in page for k in range(10))


def test_onnx_file_of_a_run(run, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    unicornn("export", run, "--to", tmp_path / "a.onnx", "--kind", "step")
    names = [value.name for value in onnxruntime.InferenceSession(str(tmp_path / "a.onnx")).get_outputs()]
    assert names == ["output", "y_next", "z_next"]


RNG = np.random.default_rng(0)
SIGNALS, KIND, SIZE = 70 + RNG.standard_normal((9, 50, 2)), np.array(["a", "<b>", "c"] * 3), 70 + RNG.standard_normal(9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Saved estimators, and files of series."""
    folder = tmp_path_factory.mktemp("models")
    small = {"hidden_size": 6, "frames": 0, "max_epochs": 1, "random_state": 0}
    gaps = SIGNALS.copy()
    gaps[0, 5:9, 1] = np.nan
    UnICORNNClassifier("network", **small).fit(SIGNALS, KIND).save_pretrained(folder / "classes")
    UnICORNNClassifier("network", missing="mask", **small).fit(gaps, KIND).save_pretrained(folder / "gaps")
    UnICORNNRegressor("network", segments=1, **small).fit(SIGNALS, SIZE).save_pretrained(folder / "numbers")
    UnICORNNClassifier(random_state=0).fit(SIGNALS, KIND).save_pretrained(folder / "bank")
    for name, X in {"whole": SIGNALS, "narrow": SIGNALS[:, :, :1], "gaps": gaps}.items():
        np.savez(folder / f"{name}.npz", X=X, kind=KIND, size=SIZE, wrong=np.array(["z"] * 9))
    return folder


@pytest.mark.parametrize(
    ("model", "file", "target"),
    [("classes", "whole", "kind"), ("gaps", "gaps", "kind"), ("numbers", "whole", "size"), ("classes", "whole", None)],
)
def test_page_of_an_estimator_with_a_file(folder, tmp_path, model, file, target):
    page = tmp_path / "a [b] page.html"
    wanted = [] if target is None else ["--target", target]
    unicornn("show", folder / model, folder / f"{file}.npz", "--out", page, "--samples", 4, *wanted)
    document, log = opened(page, tmp_path)
    assert not complaints(log)
    difference, rest = re.search(r'<output id="agreement">(.*?); (.*?)</output>', document).groups()
    assert float(difference) < 1e-4
    assert rest == "back at the start, all oscillators are at rest"
    assert document.count("<option") == 4
    assert "the signal is standardised as in fit" in document
    assert ('<span id="truth">truth: ' in document) == (target is not None)


def test_a_file_is_read_as_the_fitted_one(tmp_path):
    rows = [(walk, n, RNG.standard_normal(), "ab"[walk % 2]) for walk in range(8) for n in range(30)]
    pd.DataFrame(rows, columns=["walk", "at", "x", "kind"]).to_csv(tmp_path / "t.csv", index=False)
    options = "--target", "kind", "--id", "walk", "--time", "at", "--model", "network", "--segments", 1
    unicornn("fit", tmp_path / "t.csv", *options, "--out", tmp_path / "m")
    unicornn("show", tmp_path / "m", tmp_path / "t.csv", "--out", tmp_path / "page.html", "--samples", 3)
    assert (tmp_path / "page.html").read_text().count('"length": 30') == 3


def test_page_of_a_run_with_a_file(run, tmp_path):
    np.savez(tmp_path / "a.npz", X=RNG.standard_normal((3, 64, 1)), y=np.array([9, 1, 1]))
    unicornn("show", run, tmp_path / "a.npz", "--target", "y", "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert [page.count(f'"target": {k}') for k in (9, 1)] == [1, 2]


@pytest.mark.parametrize(
    ("model", "file", "target", "name"),
    [("bank", "narrow", "kind", "X"), ("classes", "narrow", "kind", "X"), ("classes", "gaps", "kind", "X"),
     ("classes", "whole", "wrong", "target"), ("numbers", "whole", "kind", "target")],
)  # fmt: skip
def test_models_and_files_that_are_rejected(folder, tmp_path, model, file, target, name):
    with pytest.raises(BadValue, match=rf"^{name}: "):
        unicornn("show", folder / model, folder / f"{file}.npz", "--out", tmp_path / "page.html", "--target", target)
    assert not list(tmp_path.iterdir())


def test_models_that_are_rejected(folder, tmp_path):
    out = tmp_path / "page.html"
    with pytest.raises(BadValue, match=r"^file: "):
        unicornn("show", folder / "classes", "--out", out)
    with pytest.raises(BadValue, match="made by `unicornn train` or `unicornn fit`"):
        unicornn("export", folder, "--to", out)
    with pytest.raises(BadValue, match=r"^kind: .*segments=1"):
        unicornn("export", folder / "classes", "--kind", "step", "--to", out)
    with pytest.raises(BadValue, match=r"^kind: "):
        unicornn("export", folder / "bank", "--kind", "step", "--to", out)
    assert not list(tmp_path.iterdir())


def test_onnx_file_of_a_bank(folder, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    unicornn("export", folder / "bank", "--to", tmp_path / "a.onnx")
    assert [each.name for each in onnxruntime.InferenceSession(tmp_path / "a.onnx").get_inputs()] == ["u"]


def test_page_and_script_of_a_bank(folder, tmp_path):
    unicornn("show", folder / "bank", folder / "whole.npz", "--target", "kind", "--out", tmp_path / "page.html")
    assert "new Bank" in (tmp_path / "page.html").read_text()
    assert "wrote" in unicornn("export", folder / "bank", "--to", tmp_path / "bank.js")
    assert "<b>" in (tmp_path / "bank.js").read_text()


@pytest.mark.slow
def test_onnx_file_of_an_estimator(folder, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    path = tmp_path / "new folder" / "a [red] file.onnx"
    assert f"wrote {path}" in unicornn("export", folder / "numbers", "--kind", "step", "--to", path)
    assert onnxruntime.InferenceSession(path).get_inputs()[0].shape[1] == 2
