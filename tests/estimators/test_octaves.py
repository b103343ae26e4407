"""Octaves, with which the network of the estimators starts."""

import numpy as np
import pytest
import torch

from tests.estimators.helpers import SMALL, tones
from unicornn import export, load_model
from unicornn.errors import BadValue
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor
from unicornn.estimators._octaves import Octaves
from unicornn.streams import Stream

LENGTHS = (300, 3, 40, 8, 129, 300, 77)


def test_octaves_do_not_depend_on_padding_and_have_gradients():
    rng = np.random.default_rng(0)
    series = [rng.standard_normal((n, 2)).astype(np.float32) for n in LENGTHS]
    octaves = Octaves.fit(series)
    u = torch.full((max(LENGTHS), len(series), 2), 9.0)
    for i, x in enumerate(series):
        u[: len(x), i] = torch.from_numpy(x)
    u.requires_grad_()
    together = octaves(u, torch.tensor(LENGTHS))
    assert together.shape == (len(series), octaves.size)
    alone = torch.cat([octaves(torch.from_numpy(x)[:, None]) for x in series])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
    together.sum().backward()
    assert u.grad.isfinite().all()
    assert all((u.grad[n:, i] == 0).all() and u.grad[:n, i].any() for i, n in enumerate(LENGTHS))
    assert all(p.grad.isfinite().all() and p.grad.any() for p in octaves.parameters())


@pytest.mark.parametrize("kind", [UnICORNNClassifier, UnICORNNRegressor])
def test_the_default_network_starts_with_octaves(kind, tmp_path):
    X, y, f = tones(40)
    y = f if kind is UnICORNNRegressor else y
    estimator = kind("network", max_epochs=5, **SMALL).fit(X[:20], y[:20])
    assert estimator.stopped_by_ == "octaves"  # too few series to validate anything else
    assert estimator.n_iter_ == 0
    assert estimator.score(X[20:], y[20:]) > 0.9
    assert estimator.transform(X).shape[1] == len(estimator.get_feature_names_out())
    estimator.save_pretrained(tmp_path)
    assert (load_model(tmp_path).predict(X) == estimator.predict(X)).all()
    explanation = estimator.explain(X[:2])
    total = explanation.base + explanation.steps.sum(1)
    np.testing.assert_allclose(total, explanation.scores, atol=0.1 * np.abs(explanation.scores).max())
    with pytest.raises(BadValue, match="octaves"):
        export.onnx(estimator, tmp_path / "model.onnx")
    with pytest.raises(BadValue, match="window"):
        Stream(estimator)


def test_networks_are_only_added_to_octaves_where_they_help():
    X, _, _ = tones(80)
    y = np.random.default_rng(1).permutation(80) % 2
    estimator = UnICORNNClassifier("network", dt=0.5, max_epochs=2, **SMALL).fit(X, y)
    assert estimator.n_iter_ == 2
    assert not estimator._network.linear.weight.any()  # nothing can be learnt


@pytest.mark.parametrize("options", [{"segments": 1}, {"frames": 0}, {"readout": "last"}])
def test_other_networks_have_no_octaves(options):
    X, y, _ = tones(12)
    estimator = UnICORNNClassifier("network", dt=0.5, max_epochs=1, **options, **SMALL).fit(X, y)
    assert estimator._network.beside is None
    assert not estimator._network.frames


@pytest.mark.parametrize("N", [1, 2, 4])
def test_very_short_series(N):
    X = np.random.default_rng(0).standard_normal((30, N))
    y = X[:, 0] > 0
    assert UnICORNNClassifier("network", max_epochs=1, **SMALL).fit(X[:20], y[:20]).score(X[20:], y[20:]) > 0.7


def test_warm_start_keeps_the_octaves():
    X, y, _ = tones(40)
    estimator = UnICORNNClassifier("network", dt=0.5, max_epochs=1, warm_start=True, **SMALL).fit(X[:20], y[:20])
    before = estimator._network.beside.octaves
    assert estimator.fit(X[20:], y[20:])._network.beside.octaves is before
    assert estimator.score(X[:20], y[:20]) > 0.9
    head = estimator._network.beside.linear.weight.clone()
    estimator.partial_fit(X, y)
    assert torch.equal(estimator._network.beside.linear.weight, head)
    assert estimator.score(X, y) > 0.9
