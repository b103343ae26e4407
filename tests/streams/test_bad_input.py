"""Streams: what is refused, what is left as it was, who has to go, and files."""

import errno
import json
import logging
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unicornn import UnICORNN, streams
from unicornn.baselines import LSTM
from unicornn.errors import BadCheckpoint, BadType, BadValue, OutOfRange, StreamFull
from unicornn.models import Classifier, TextClassifier
from unicornn.streams import Stream


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return UnICORNN(2, 8, 2)


BAD = [
    (np.ones(3), BadValue, "shape"),
    (np.ones((4, 3)), BadValue, "shape"),
    (np.ones((0, 2)), BadValue, "k >= 1"),
    (np.ones((1, 1, 2)), BadValue, "shape"),
    (np.array([np.nan, 1.0]), BadValue, "finite"),
    (np.array([[1.0, 1.0], [1.0, np.inf]]), BadValue, "finite"),
    (np.array([1e39, 0.0]), BadValue, "finite"),
    ("text", BadType, "numbers"),
    (None, BadType, "numbers"),
    ([[1.0, 2.0], [3.0]], BadValue, "lengths"),
    (np.ones(2, complex), BadType, "numbers"),
    (torch.ones(2, device="meta"), BadType, "numbers"),
]


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(("bad", "error", "says"), BAD)
def test_bad_samples_change_nothing(layer, bad, error, says):
    stream, x = Stream(layer), np.ones((3, 2))
    stream.push({"a": x, "b": x})
    with pytest.raises(error, match=r"samples\[str 'c'\]|samples\['c'\]") as caught:
        stream.push({"a": np.ones(2), "c": bad})
    assert says in str(caught.value)
    assert len(stream) == 2
    np.testing.assert_array_equal(stream.push({"a": x})["a"], Stream(layer).push({"a": np.ones((6, 2))})["a"])


def test_bad_calls(layer):
    stream = Stream(layer)
    with pytest.raises(BadValue, match="at least one key"):
        stream.push({})
    with pytest.raises(BadType, match="mapping"):
        stream.push(np.ones(2))
    with pytest.raises(BadValue, match="key"):
        stream.drop("a")
    with pytest.raises(BadType, match="^return_all: "):
        stream.push({"a": np.ones(2)}, return_all=1)


@pytest.mark.parametrize(
    ("model", "options", "error"),
    [
        (torch.nn.LSTM(2, 8), {}, BadType),
        (None, {}, BadType),
        (Classifier(LSTM(2, 8), 2), {}, BadType),
        (UnICORNN(2, 8, bidirectional=True), {}, BadValue),
        (Classifier(UnICORNN(2, 8), 2, readout="energy(segments=2)"), {}, BadValue),
        (Classifier(UnICORNN(2, 8), 2, readout="energy(mirrored=True)"), {}, BadValue),
        (Classifier(UnICORNN(2, 8), 2), {"readout": "energy"}, BadValue),
        (UnICORNN(2, 8), {"readout": "nothing"}, BadValue),
        (UnICORNN(2, 8), {"hop": 3}, BadValue),
        (UnICORNN(2, 8), {"window": 0}, BadValue),
        (Classifier(UnICORNN(6, 8), 2, patch=3), {"window": 10}, BadValue),
        (UnICORNN(2, 8), {"capacity": 0}, BadValue),
        (UnICORNN(2, 8), {"on_full": "wait"}, BadValue),
        (UnICORNN(2, 8), {"ttl": -1.0}, BadValue),
    ],
)
def test_bad_models_and_settings(model, options, error):
    with pytest.raises(error):
        Stream(model, **options)


def test_words():
    stream = Stream(TextClassifier(UnICORNN(4, 8), 2, vectors=torch.randn(10, 4)))
    for bad in (10, -1, [3, 10]):
        with pytest.raises(BadValue, match="words"):
            stream.push({"a": bad})
    with pytest.raises(BadType, match="words"):
        stream.push({"a": 1.5})
    assert len(stream) == 0


@pytest.mark.parametrize("options", [{}, {"window": 400, "hop": 100}], ids=["all", "window"])
@pytest.mark.parametrize("patch", [1, 2])
def test_states_out_of_range(options, patch):
    """An unstable layer: what leaves the range stays where it was, the others move on, and their answers are there."""
    torch.manual_seed(0)
    net = Classifier(UnICORNN(2 * patch, 4, 1, dt=4.5, alpha=1.0), 2, patch=patch)
    stream, calm = Stream(net, **options), np.zeros((1, 2))
    stream.push({"a": calm, "b": calm})
    twin = Stream(net, **options)
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
    stream.push({"a": x})
    stream.push({"b": x})
    stream.push({"a": x})
    with caplog.at_level(logging.WARNING, "unicornn"):
        stream.push({"c": x})
    assert "'b'" in caplog.text
    assert stream.evicted == 1
    assert set(stream) == {"a", "c"}
    with pytest.raises(StreamFull):
        stream.push({"d": x, "e": x, "f": x})


def test_idle(layer, caplog, monkeypatch):
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
    assert "ttl" in caplog.text
    assert stream.evicted == 1
    np.testing.assert_array_equal(stream.push({"b": x})["b"], Stream(layer).push({"b": x})["b"])


# Files


@given(data=st.data())
@settings(max_examples=15)
def test_a_saved_stream_goes_on_exactly(data, tmp_path_factory):
    patch, readout = data.draw(st.sampled_from([1, 3])), data.draw(st.sampled_from(["last", "mean+energy+state"]))
    dtype, m = data.draw(st.sampled_from([torch.float32, torch.float64])), data.draw(st.sampled_from([5, 130]))
    options = data.draw(st.sampled_from([{}, {"window": 6, "hop": 3}]))
    net = Classifier(UnICORNN(2 * patch, m, 2), 3, patch=patch, readout=readout).to(dtype).eval()
    rng, keys = (
        np.random.default_rng(0),
        data.draw(st.lists(st.one_of(st.integers(), st.text()), unique=True, max_size=6)),
    )
    stream = Stream(net, **options)
    for key in keys:
        stream.push({key: rng.standard_normal((data.draw(st.integers(1, 20)), 2))})
    if keys:
        stream.drop(keys[0])
    again = Stream.load(stream.save(tmp_path_factory.mktemp("stream") / "s.safetensors"), net)
    assert list(again) == list(stream)
    push = {key: rng.standard_normal((7, 2)) for key in [*keys, "new"]}
    ours, theirs = (s.push(push, return_all=True) for s in (stream, again))
    for key in push:
        assert ours[key].tobytes() == theirs[key].tobytes()


def test_files_that_are_refused(layer, tmp_path):
    stream = Stream(layer)
    stream.push({"a": np.ones(2)})
    path = stream.save(tmp_path / "s.safetensors")
    for other in (UnICORNN(2, 8, 2), UnICORNN(2, 9, 2), Classifier(layer, 2)):
        with pytest.raises(BadCheckpoint, match="model"):
            Stream.load(path, other)
    layer.dt = 0.2
    with pytest.raises(BadCheckpoint, match="model"):
        Stream.load(path, layer)
    layer.dt = 0.1
    twice = Stream(layer)
    twice.push({"a": np.ones(2), "b": np.ones(2)})
    two = twice.save(tmp_path / "two.safetensors")
    with pytest.raises(StreamFull):
        Stream.load(two, layer, capacity=1)
    with pytest.raises(BadType, match="options"):
        Stream.load(path, layer, window=3)
    whole = path.read_bytes()
    for content in (b"", whole[:-1], whole[:20], b"x" * 100, whole.replace(b"unicornn.streams", b"unicornn.nothings")):
        path.write_bytes(content)
        with pytest.raises(BadCheckpoint, match="path"):
            Stream.load(path, layer)
    path.write_bytes(whole.replace(b'\\"version\\": 1', b'\\"version\\": 9'))
    with pytest.raises(BadCheckpoint, match="version"):
        Stream.load(path, layer)
    with pytest.raises(BadCheckpoint, match="path"):
        Stream.load(tmp_path / "nowhere", layer)
    stream.push({("a", 1): np.ones(2)})
    with pytest.raises(BadType, match="key"):
        stream.save(path)


def test_a_full_disk_leaves_the_old_file(layer, tmp_path, monkeypatch):
    stream = Stream(layer)
    stream.push({"a": np.ones(2)})
    path = stream.save(tmp_path / "s.safetensors")
    before = path.read_bytes()
    stream.push({"b": np.ones(2)})

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadValue, match="No space left"):
        stream.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["s.safetensors"]
    with pytest.raises(BadValue, match="path"):
        stream.save(tmp_path / "no" / "folder" / "s.safetensors")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_what_is_no_file_is_not_replaced(layer, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(BadValue, match="path: expected the path of a file to write"):
            Stream(layer).save(path)
    assert (tmp_path / "pipe").is_fifo()
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.slow
def test_killed_while_saving(layer, tmp_path):
    """Whenever it is killed, what is there can be loaded."""
    torch.save(layer.state_dict(), tmp_path / "weights.pt")
    script = """
import sys, numpy as np, torch
from unicornn import UnICORNN
from unicornn.streams import Stream
layer = UnICORNN(2, 8, 2)
layer.load_state_dict(torch.load(sys.argv[1] + "/weights.pt"))
stream = Stream(layer)
stream.push({key: np.ones(2) for key in range(20000)})
stream.save(sys.argv[1] + "/s.safetensors")
print("saved", flush=True)
while True:
    stream.save(sys.argv[1] + "/s.safetensors")
"""
    for wait in np.linspace(0.01, 0.4, 6):
        child = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"saved\n"
        time.sleep(wait)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        assert len(Stream.load(tmp_path / "s.safetensors", layer)) == 20000


def test_the_file_can_be_read_by_others(layer, tmp_path):
    from safetensors import safe_open

    stream = Stream(layer)
    stream.push({"a": np.ones(2), 7: np.ones(2)})
    with safe_open(stream.save(tmp_path / "s.safetensors"), framework="numpy") as file:
        assert json.loads(file.get_tensor("keys").tobytes()) == ["a", 7]
        assert file.get_tensor("grid").shape == (2, 2, 2, 8)
