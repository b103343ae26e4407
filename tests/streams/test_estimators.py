"""Streams of estimators that predict from whole windows: every answer is a prediction of the estimator."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unicornn.errors import BadCheckpoint, BadValue
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor
from unicornn.streams import Stream

RNG = np.random.default_rng(0)
X, KIND, SIZE = 50 + RNG.standard_normal((12, 40, 2)), ["a", "b"] * 6, np.arange(12.0)
SMALL = {"hidden_size": 4, "num_layers": 1, "max_epochs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def bank():
    return UnICORNNClassifier(random_state=0, layout="channels_first").fit(X.transpose(0, 2, 1), KIND)


@pytest.fixture(scope="module")
def gaps():
    return UnICORNNRegressor("both", missing="mask", **SMALL).fit(X, SIZE)


@given(data=st.data())
@settings(max_examples=10)
def test_answers_are_predictions_however_the_samples_arrive(bank, data):
    window, hop = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 9))
    N = data.draw(st.integers(1, 40))
    u = 50 + np.random.default_rng(N).standard_normal((N, 2))
    stream, got, n = Stream(bank, window=window, hop=hop), [], 0
    while n < N:
        k = data.draw(st.integers(1, N - n))
        got += list(stream.push({"a": u[n : n + k], "b": u[n : n + 1]}, return_all=True)["a"])
        n += k
    wanted = [bank.predict_proba([u[end - window : end].T])[0] for end in range(window, N + 1, hop)]
    np.testing.assert_array_equal(np.reshape(got, (-1, 2)), np.reshape(wanted, (-1, 2)))


def test_gaps_are_valid_samples(gaps, tmp_path):
    u = X[0].copy()
    u[3:30, 1] = np.nan
    stream = Stream(gaps, window=25, hop=5)
    assert stream.push({"a": u[:24], "b": u[:2]}) == {"a": None, "b": None}
    again = Stream.load(stream.save(tmp_path / "s.safetensors"), gaps)
    for each in (stream, again):
        assert each.predict_many({"a": u[24:31], "b": u[0]}) == {"a": gaps.predict([u[5:30]])[0], "b": None}
        assert each.push({"b": u[:2]}, return_all=True)["b"].shape == (0,)
    stream.drop("a")
    assert stream.push({"a": u[:24]}) == {"a": None}


def test_samples_are_standardised_in_float64():
    """Large numbers with small differences, which float32 would round away."""
    u = 1e7 + RNG.standard_normal((6, 30, 1))
    model = UnICORNNRegressor("network", frames=0, **SMALL).fit(u, SIZE[:6])
    assert Stream(model).push({"a": u[0]})["a"] == pytest.approx(model.predict(u[:1])[0], rel=1e-5)


def test_rejected_models_and_samples(bank, gaps, tmp_path):
    with pytest.raises(BadValue, match=r"^model: .* not fitted"):
        Stream(UnICORNNClassifier())
    for model in (bank, gaps):
        with pytest.raises(BadValue, match=r"^window: "):
            Stream(model)
    for sample in ([np.nan, 1], [1e60, 1], [1]):
        stream = Stream(bank, window=2)
        with pytest.raises(BadValue, match=r"^samples(\['b'\])?: "):
            stream.push({"a": [1, 1], "b": sample})
        assert len(stream) == 0
    with pytest.raises(BadValue, match=r"^samples\['a'\]: "):
        Stream(gaps, window=2).push({"a": [np.inf, 1]})
    stream.push({"a": [1, 1]})
    path = stream.save(tmp_path / "s.safetensors")
    other = UnICORNNClassifier(random_state=1).fit(X, KIND)
    with pytest.raises(BadCheckpoint, match=r"^model: "):
        Stream.load(path, other)


def test_segments_need_a_window():
    rng = np.random.default_rng(0)
    u, kind = rng.standard_normal((8, 64, 2)), [0, 1] * 4
    model = UnICORNNClassifier("network", dt=0.3, max_epochs=1, hidden_size=4, random_state=0).fit(u, kind)
    with pytest.raises(BadValue, match=r"^window: "):
        Stream(model)
    told = Stream(model, window=64).push({"a": u[3]})["a"]
    np.testing.assert_array_equal(told, model.predict_proba(u[3:4])[0])
    Stream(UnICORNNClassifier("network", segments=1, dt=0.3, max_epochs=1, random_state=0).fit(u, kind))
