"""Streams: samples that are taken back or corrected leave no trace."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unicornn import UnICORNN
from unicornn.errors import BadType, BadValue, OutOfRange
from unicornn.estimators import UnICORNNClassifier
from unicornn.models import Classifier, TextClassifier
from unicornn.streams import Stream

RNG = np.random.default_rng(0)


def same(stream, other, u):
    """Whether two streams answer with the same bits to the next samples."""
    answers = (each.push({"a": u}, return_all=True)["a"] for each in (stream, other))
    return len({answer.tobytes() for answer in answers}) == 1


@st.composite
def models(draw):
    """A model, options of its stream, and whether the state can be reversed without a history."""
    window = draw(st.sampled_from([None, (6, 3), (9, 6), (6, 9)]))
    patch = draw(st.sampled_from([1, 3]))
    readout = draw(st.sampled_from(["state", "last+energy+state", *(["mean+energy"] if window else [])]))
    dtype, m = draw(st.sampled_from([torch.float32, torch.float64])), draw(st.sampled_from([1, 10, 130]))
    torch.manual_seed(0)
    rnn = UnICORNN(2 * patch, m, 3, dt=0.3, skip_layers=2, dtype=dtype)
    options = {} if window is None else {"window": window[0], "hop": window[1]}
    return Classifier(rnn, 3, patch=patch, readout=readout).eval(), options, window is None and patch == 1


@given(models(), st.data())
@settings(max_examples=20)
def test_samples_that_are_taken_back_leave_no_trace(chosen, data):
    net, options, reversible = chosen
    n, k = data.draw(st.integers(0, 30)), data.draw(st.integers(1, 30))
    u = RNG.standard_normal((n + k + 20, 2))
    history = data.draw(st.sampled_from([0, 60])) if reversible else 60
    stream, fresh = (Stream(net, **options, history=history) for _ in range(2))
    stream.push({"a": u[: n + k], "b": u[:3]})
    if n:
        fresh.push({"a": u[:n]})
    stream.undo("a", k if history else u[n : n + k])
    assert same(stream, fresh, u[n + k :])


@given(models(), st.data())
@settings(max_examples=20)
def test_corrected_samples_leave_no_trace(chosen, data):
    net, options, _ = chosen
    n = data.draw(st.integers(1, 40))
    at = data.draw(st.integers(0, n - 1))
    k = data.draw(st.integers(1, n - at))
    right = RNG.standard_normal((n + 20, 2))
    wrong = right.copy()
    wrong[at : at + k] = 7 * RNG.standard_normal((k, 2))
    stream, fresh = (Stream(net, **options, history=60) for _ in range(2))
    stream.push({"a": wrong[:n]})
    wanted = fresh.push({"a": right[:n]})["a"]
    answer = stream.correct("a", at - n * data.draw(st.booleans()), right[at : at + k])
    if "window" not in options:
        assert answer.tobytes() == wanted.tobytes()
    assert same(stream, fresh, right[n:])


def test_estimators_words_and_restored_streams(tmp_path):
    bank = UnICORNNClassifier(random_state=0).fit(RNG.standard_normal((8, 12, 2)), [0, 1] * 4)
    text = TextClassifier(UnICORNN(4, 8), 2, vectors=torch.randn(9, 4)).eval()
    words = RNG.integers(0, 9, 40)
    for model, u, options in ((bank, RNG.standard_normal((40, 2)), {"window": 10, "hop": 2}), (text, words, {})):
        stream, fresh = (Stream(model, history=30, **options) for _ in range(2))
        stream.push({"a": np.concatenate([u[:20], u[:2], u[22:25]])})
        stream = Stream.load(stream.save(tmp_path / "s.safetensors"), model)
        fresh.push({"a": u[:25]})
        stream.correct("a", 20, u[20:22])
        assert same(stream, fresh, u[25:35])


def test_corrections_that_are_rejected_change_nothing(layer):
    u = RNG.standard_normal((30, 2))
    stream, fresh, other = (Stream(layer, history=10) for _ in range(3))
    stream.push({"a": u[:20]})
    fresh.push({"a": u[:20]})
    for name, call in (
        ("key", lambda: stream.undo("b", 1)),
        ("samples", lambda: stream.undo("a", 0)),
        ("samples", lambda: stream.undo("a", 11)),  # beyond the history
        (r"samples\['a'\]", lambda: stream.undo("a", [np.nan, 0])),
        (r"samples\['a'\]", lambda: stream.correct("a", 1, np.ones(3))),
        ("at", lambda: stream.correct("a", 9, u[0])),
        ("at", lambda: stream.correct("a", 19, u[:2])),
        ("history", lambda: Stream(layer, history=-1)),
    ):
        with pytest.raises((BadValue, BadType), match=rf"^{name}: "):
            call()
    assert same(stream, fresh, u[20:])
    mean = Stream(layer, readout="mean", history=10)
    mean.push({"a": u[0]})
    with pytest.raises(BadValue, match=r"^samples: .* mean"):
        mean.undo("a", 1)
    window = Stream(layer, window=8, history=10)
    window.push({"a": u[:20]})
    with pytest.raises(BadValue, match=r"^history: "):
        window.undo("a", 5)
    other.push({"a": u[0]})
    other.undo("a", 1)
    assert same(other, Stream(layer), u)


def test_a_correction_out_of_range_changes_nothing():
    torch.manual_seed(0)
    unstable = Classifier(UnICORNN(2, 4, dt=4.5), 2)
    stream, fresh, calm = Stream(unstable, history=300), Stream(unstable), np.zeros((300, 2))
    stream.push({"a": calm})
    fresh.push({"a": calm})
    with pytest.raises(OutOfRange, match="'a'"):
        stream.correct("a", 0, np.ones(2))
    assert same(stream, fresh, calm[:3])
