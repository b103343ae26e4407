"""ONNX files of estimators: series in their own units in, probabilities or numbers out."""

import json

import numpy as np
import pytest
import torch

from unicornn import UnICORNN
from unicornn.errors import BadValue
from unicornn.models import Classifier

pytest.importorskip("onnxscript", reason="onnx, onnxscript and onnxruntime are not installed")
onnxruntime = pytest.importorskip("onnxruntime")

from unicornn import export  # noqa: E402
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor  # noqa: E402

RNG = np.random.default_rng(0)
X = (np.array([500.0, -3.0]) + RNG.standard_normal((12, 40, 2)) * [20.0, 1e-3]).astype(np.float32)
SMALL = {"hidden_size": 6, "max_epochs": 1, "dt": 0.2, "random_state": 0}


@pytest.fixture(autouse=True)
def _plain_memory():
    torch.use_deterministic_algorithms(False)  # the exporter has no translation of filling memory


def test_steps_of_a_classifier(tmp_path):
    model = UnICORNNClassifier("network", segments=1, **SMALL).fit(X, ["<b>", "ä\n"] * 6)
    run = onnxruntime.InferenceSession(export.onnx(model, tmp_path / "a.onnx", kind="step"))
    assert json.loads(run.get_modelmeta().custom_metadata_map["unicornn.classes"]) == ["<b>", "ä\n"]
    y = z = np.zeros((2, 12, 6))
    for n in range(40):
        output, y, z = run.run(None, {"u": X[:, n], "y": y, "z": z})
    np.testing.assert_allclose(output, model.predict_proba(X), atol=3e-5)  # float32, through logarithms of energies


@pytest.mark.slow
@pytest.mark.parametrize("columns", [0, 3])
def test_sequences_of_a_regressor(tmp_path, columns):
    y = 1000 + RNG.standard_normal((12, 3))
    model = UnICORNNRegressor("network", **SMALL).fit(X, y if columns else y[:, 0])
    run = onnxruntime.InferenceSession(export.onnx(model, tmp_path / "a.onnx"))
    lengths = np.array([40, 7] * 6)
    wanted = model.predict([x[:n] for x, n in zip(X, lengths, strict=True)])
    got = run.run(None, {"u": X.transpose(1, 0, 2), "lengths": lengths})[0]
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-3)


def test_what_cannot_be_exported(tmp_path):
    bank = UnICORNNClassifier(random_state=0).fit(X, ["a", "b"] * 6)
    gaps = UnICORNNClassifier("network", missing="mask", **SMALL).fit(X, ["a", "b"] * 6)
    for model, says in (
        (bank, r"model='network' \(unicornn fit --model network\), got one with bank"),
        (gaps, "missing='refuse', got 'mask'"),
        (UnICORNNClassifier("network"), "not fitted"),
    ):
        with pytest.raises(BadValue, match=says):
            export.onnx(model, tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", export.KINDS)
def test_a_model_in_which_rounding_grows_is_compared_over_fewer_steps(kind, caplog):
    torch.manual_seed(0)
    wild = Classifier(UnICORNN(2, 8, 2, dt=1.1), 2).eval()
    (u, *_), wanted = export._predictable(wild, wild.rnn, False, kind)
    assert 16 <= len(u) < export.STEPS
    assert f"over {len(u)} steps of noise" in caplog.text
    assert len(wanted) == 2
    caplog.clear()
    calm = Classifier(UnICORNN(2, 8, 2), 2).eval()
    assert len(export._predictable(calm, calm.rnn, False, kind)[0][0]) == export.STEPS
    assert not caplog.text
