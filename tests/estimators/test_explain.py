"""Explanations: contributions add up to the scores, and are found where they belong."""

import numpy as np
import pytest

from unicornn.errors import BadValue
from unicornn.estimators import OscillatorBank, UnICORNNClassifier, UnICORNNRegressor
from unicornn.estimators._attribution import _weights
from unicornn.estimators._oscillators import Joined
from unicornn.estimators._pooling import pooled

ROUNDING = 1e-5  # of scores of size 1: the ridge computes in float32
NETWORK = {"max_epochs": 3, "dt": 0.1, "hidden_size": 8, "readout": "energy", "segments": 3}


def random_walks(n, d, seed=0):
    random = np.random.RandomState(seed)
    return [random.normal(size=(random.randint(17, 40), d)).cumsum(0) * (1 + i % 3) for i in range(n)]


def check_sums(explanation, scores, tolerance):
    e = explanation
    assert np.abs(e.scores - scores).max() <= 1e-12
    assert np.abs(e.gap).max() <= tolerance
    total = e.scores - e.base - e.gap
    for parts in (e.steps.sum(1), e.channels.sum(1), sum(e.views.values())):
        assert np.allclose(parts, total, atol=1e-9)
    assert np.allclose(sum(e.octaves.values(), sum(e.others.values())), total, atol=1e-9)
    for i, x in enumerate(e.series):
        assert not e.samples[i, len(x) :].any()
        assert all((w.begin >= 0).all() and (w.begin < len(x)).all() for w in e.windows[i])


@pytest.mark.parametrize(
    "options", [{}, {"live": True}, {"scale": "series"}, {"missing": "mask"}], ids=["default", "live", "series", "mask"]
)
def test_contributions_of_the_bank_add_up_to_the_logits(options):
    X = random_walks(9, 2)
    if "missing" in options:
        X[0][3:5, 0] = X[4][:9, 1] = np.nan
    model = UnICORNNClassifier(random_state=0, **options).fit(X, [f"class {i % 3}" for i in range(9)])
    X += [X[5][:1], X[6][:2], X[7][:9]]
    explanation = model.explain(X)
    assert explanation.samples.shape == (12, max(map(len, X)), 2, 3)
    check_sums(explanation, model.decision_function(X), ROUNDING)


def test_contributions_of_the_bank_add_up_to_several_targets():
    X = np.stack([x[:17, 0] for x in random_walks(10, 1)])
    y = np.stack([X.std(1), X[:, 0], 100 * X[:, -1]], 1)
    model = UnICORNNRegressor(random_state=0).fit(X, y)
    check_sums(model.explain(X), model.predict(X), 1000 * ROUNDING)  # of targets up to 1,000


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["network", "both"])
@pytest.mark.parametrize("estimator", [UnICORNNClassifier, UnICORNNRegressor])
def test_contributions_of_a_network_add_up_within_the_gap(kind, estimator):
    X, y = random_walks(12, 2), np.arange(12) % 3
    model = estimator(kind, random_state=0, **NETWORK).fit(X, y)
    scores = model.decision_function(X) if estimator is UnICORNNClassifier else model.predict(X)[:, None]
    explanation = model.explain(X)
    check_sums(explanation, scores, 0.05 * np.abs(explanation.scores - explanation.base).max())


def test_parts_of_windows_add_up_to_the_pooled_features():
    X = [x.astype(np.float32) for x in random_walks(6, 2)]
    X[0] = np.repeat(X[0], 60, axis=0)  # with more windows than are weighed at a time
    bank, one = OscillatorBank(random_state=0).fit(X), Joined.from_series(X[:1])
    for layer in bank._layers:
        features, F = pooled(one, layer)[0].astype(np.float64), len(layer.names)
        values = layer.values(one, [layer.view.starts(len(X[0]))])
        columns = np.ones(len(features) - 2 * F)  # without maxima and minima
        weights = _weights(layer, values, features, columns, -10 * columns)  # parts + 10, which is positive
        total = sum((each.astype(np.float64) - 10).sum(0) for _, each in weights)
        assert np.allclose(total, np.delete(features, np.s_[F : 3 * F]), atol=2e-3)


def bursts(n):
    """Noise, with a burst at a random place in every second series; the first steps of the places."""
    random = np.random.RandomState(0)
    X, places = random.normal(size=(n, 120)), random.randint(10, 90, n)
    for i in range(0, n, 2):
        X[i, places[i] : places[i] + 15] *= 4
    return X, places


def test_the_evidence_for_a_burst_is_in_the_burst():
    X, places = bursts(40)
    explanation = UnICORNNClassifier(random_state=0).fit(X[:30], np.arange(30) % 2 == 0).explain(X[30:])
    for i in range(0, 10, 2):
        best = explanation.evidence(explanation.steps[i], 1).argsort()[-10:]
        assert np.mean((best >= places[30 + i]) & (best < places[30 + i] + 15)) >= 0.8


def test_an_explanation_is_drawn_with_its_octaves():
    X = np.stack([np.tile(bursts(8)[0], 12), np.zeros((8, 1440))], 2)
    explanation = UnICORNNClassifier(random_state=0).fit(X, np.arange(8) % 2).explain(X[:2])
    figure = explanation.plot(1)
    rows = [axis.get_ylabel() for axis in figure.axes]
    assert rows.count("window") == 1
    assert "channel 0" in rows
    with pytest.raises(BadValue, match=r"^i: "):
        explanation.plot(2)
    with pytest.raises(BadValue, match=r"^output: "):
        explanation.plot(0, "other")
