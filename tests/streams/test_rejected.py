"""Streams: rejected samples, models and settings; states out of range; capacity and time to live."""

import logging

import numpy as np
import pytest
import torch

from unicornn import UnICORNN, streams
from unicornn.errors import BadType, BadValue, OutOfRange, StreamFull
from unicornn.models import Classifier
from unicornn.streams import Stream


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (np.ones(3), BadValue),
        (np.ones((0, 2)), BadValue),
        (np.array([np.nan, 1.0]), BadValue),
        (np.array([[1.0, 1.0], [1.0, np.inf]]), BadValue),
        (np.array([1e39, 0.0]), BadValue),
        ("text", BadType),
        ([[1.0, 2.0], [3.0]], BadValue),
    ],
)
def test_rejected_samples_change_nothing(layer, bad, error):
    stream, x = Stream(layer), np.ones((3, 2))
    stream.push({"a": x, "b": x})
    with pytest.raises(error, match=r"^samples\['c'\]: "):
        stream.push({"a": np.ones(2), "c": bad})
    assert len(stream) == 2
    np.testing.assert_array_equal(stream.push({"a": x})["a"], Stream(layer).push({"a": np.ones((6, 2))})["a"])


@pytest.mark.parametrize("options", [{}, {"window": 400, "hop": 100}], ids=["all", "window"])
@pytest.mark.parametrize("patch", [1, 2])
def test_states_out_of_range(options, patch):
    """A sequence that leaves the range keeps its state; the others advance, and the error has their answers."""
    torch.manual_seed(0)
    unstable = Classifier(UnICORNN(2 * patch, 4, 1, dt=4.5, alpha=1.0), 2, patch=patch)
    stream, calm = Stream(unstable, **options), np.zeros((1, 2))
    stream.push({"a": calm, "b": calm})
    twin = Stream(unstable, **options)
    twin.push({"a": calm, "b": calm})
    with pytest.raises(OutOfRange, match="'b'") as caught:
        stream.push({"a": calm, "b": np.ones((300, 2))})
    assert set(caught.value.answers) == {"a"}
    twin.push({"a": calm})
    for n in (1, 2, 3):
        ours, theirs = (s.push({"a": calm, "b": n * calm}) for s in (stream, twin))
        for key in ours:
            np.testing.assert_array_equal(ours[key], theirs[key])


def test_capacity(layer, caplog):
    x = np.ones(2)
    stream = Stream(layer, capacity=2)
    stream.push({"a": x, "b": x})
    with pytest.raises(StreamFull, match="at most 2"):
        stream.push({"a": x, "c": x})
    assert len(stream) == 2
    np.testing.assert_array_equal(stream.push({"a": x})["a"], Stream(layer).push({"a": np.ones((2, 2))})["a"])
    stream = Stream(layer, capacity=2, on_full="evict")
    for key in "aba":
        stream.push({key: x})
    with caplog.at_level(logging.WARNING, "unicornn"):
        stream.push({"c": x})
    assert "'b'" in caplog.text
    assert stream.evicted == 1
    assert set(stream) == {"a", "c"}
    with pytest.raises(StreamFull):
        stream.push({"d": x, "e": x, "f": x})


def test_time_to_live(layer, caplog, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(streams._stream.time, "monotonic", lambda: clock[0])
    stream, x = Stream(layer, ttl=10), np.ones(2)
    stream.push({"a": x, "b": x})
    clock[0] = 9.0
    stream.push({"a": x})
    clock[0] = 18.0
    with caplog.at_level(logging.WARNING, "unicornn"):
        stream.push({"a": x})
    assert "b" not in stream
    assert "idle for more than 10 s" in caplog.text
    assert stream.evicted == 1
    np.testing.assert_array_equal(stream.push({"b": x})["b"], Stream(layer).push({"b": x})["b"])
