"""Streams of banks fitted with live=True: every answer is a prediction from all samples so far."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unicornn.errors import BadCheckpoint, BadValue
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor
from unicornn.streams import Stream

RNG = np.random.default_rng(0)
X, KIND, SIZE = 5 + RNG.standard_normal((8, 150, 2)), ["a", "b"] * 4, RNG.standard_normal((8, 2))


@pytest.fixture(scope="module")
def banks():
    """By number of channels."""
    return {
        1: UnICORNNClassifier(live=True, random_state=0).fit(X[:, :40, :1], KIND),
        2: UnICORNNRegressor(live=True, random_state=0).fit(X, SIZE),
    }


@given(data=st.data())
@pytest.mark.slow
@settings(max_examples=6)
def test_answers_are_predictions_however_the_samples_arrive(banks, data):
    d, hop = data.draw(st.sampled_from([1, 2])), data.draw(st.integers(15, 60))
    bank, N = banks[d], data.draw(st.integers(1, 200))
    u = 5 + np.random.default_rng(N).standard_normal((N, d)).cumsum(0) / 5
    stream, got, n = Stream(bank, hop=hop), [], 0
    while n < N:
        k = data.draw(st.integers(1, N - n))
        got += list(stream.push({"b": u[n : n + 1], "a": u[n : n + k]}, return_all=True)["a"])
        n += k
    prefixes = [u[:end] for end in range(hop, N + 1, hop)]
    if prefixes:
        wanted = bank.predict_proba(prefixes) if d == 1 else bank.predict(prefixes)
        np.testing.assert_allclose(got, wanted, atol=1e-6)
        alone = Stream(bank, hop=hop).push({"a": u}, return_all=True)["a"]
        assert alone.tobytes() == np.array(got).tobytes()


def test_answers_come_after_every_hop_and_survive_a_restart(banks, tmp_path):
    u = X[0, :, :1]
    stream = Stream(banks[1])  # the smallest hop of its windows
    assert stream.hop == 2
    assert stream.push({"a": u[:1], "b": u[:6]})["a"] is None
    restored = Stream.load(stream.save(tmp_path / "s.safetensors"), banks[1])
    for each in (stream, restored):
        assert each.push({"a": u[1:3]}, return_all=True)["a"].shape == (1, 2)
        assert each.predict_many({"a": u[3:41]}) == {"a": banks[1].predict([u[:40]])[0]}
        np.testing.assert_allclose(each.push({"a": u[41]})["a"], banks[1].predict_proba([u[:42]])[0], atol=1e-6)
        assert each.predict_one("a", u[42:44]) == banks[1].predict([u[:44]])[0]
    stream.drop("a")
    np.testing.assert_array_equal(stream.push({"a": u[:6]})["a"], stream.push({"c": u[:6]})["c"])
    with pytest.raises(BadCheckpoint, match=r"^model: "):
        Stream.load(tmp_path / "s.safetensors", banks[2])


def test_corrected_samples_leave_no_trace(banks):
    u = X[2, :60, :1]
    stream, fresh = Stream(banks[1], hop=5, history=60), Stream(banks[1], hop=5)
    stream.push({"a": np.concatenate([u[:27], X[0, :13, :1]]), "b": X[1, :9, :1]})
    stream.undo("a", 3)
    stream.correct("a", 27, u[27:37])
    wanted = fresh.push({"a": u}, return_all=True)["a"]
    assert stream.push({"a": u[37:]}, return_all=True)["a"].tobytes() == wanted[7:].tobytes()


def test_models_samples_and_corrections_that_are_rejected(banks):
    for options in ({"live": False}, {"live": True, "scale": "series"}, {"live": True, "missing": "mask"}):
        with pytest.raises(BadValue, match=r"^window: "):
            Stream(UnICORNNClassifier(random_state=0, **options).fit(X[:, :20, :1], KIND))
    stream = Stream(banks[1], history=10, hop=1)
    for sample in (1e30, 1e300, np.nan):
        with pytest.raises(BadValue, match=r"^samples(\['a'\])?: "):
            stream.push({"a": [sample]})
    assert len(stream) == 0
    stream.push({"a": X[0, :11, :1]})
    with pytest.raises(BadValue, match=r"^history: "):
        stream.undo("a", 1)
    assert Stream(banks[1], window=30).push({"a": X[0, :30, :1]})["a"].shape == (2,)
