"""Stream files: exact, undamaged or rejected, written completely or not at all."""

import errno
import hashlib
import json
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
from safetensors import safe_open
from safetensors.numpy import load, save

from unicornn import UnICORNN
from unicornn.errors import BadCheckpoint, BadType, BadValue, StreamFull
from unicornn.models import Classifier
from unicornn.streams import Stream
from unicornn.streams._file import NO_DIGEST


@given(data=st.data())
@settings(max_examples=15)
def test_a_restored_stream_continues_exactly(data, tmp_path_factory):
    patch, readout = data.draw(st.sampled_from([1, 3])), data.draw(st.sampled_from(["last", "mean+energy+state"]))
    dtype, m = data.draw(st.sampled_from([torch.float32, torch.float64])), data.draw(st.sampled_from([5, 130]))
    options = data.draw(st.sampled_from([{}, {"window": 6, "hop": 3}]))
    net = Classifier(UnICORNN(2 * patch, m, 2), 3, patch=patch, readout=readout).to(dtype).eval()
    keys = data.draw(st.lists(st.one_of(st.integers(), st.text()), unique=True, max_size=6))
    rng, stream = np.random.default_rng(0), Stream(net, **options)
    for key in keys:
        stream.push({key: rng.standard_normal((data.draw(st.integers(1, 20)), 2))})
    if keys:
        stream.drop(keys[0])
    restored = Stream.load(stream.save(tmp_path_factory.mktemp("stream") / "s.safetensors"), net)
    assert list(restored) == list(stream)
    push = {key: rng.standard_normal((7, 2)) for key in [*keys, "new"]}
    ours, theirs = (s.push(push, return_all=True) for s in (stream, restored))
    for key in push:
        assert ours[key].tobytes() == theirs[key].tobytes()


def test_other_programs_can_read_the_file(layer, tmp_path):
    stream = Stream(layer)
    stream.push({"a": np.ones(2), 7: np.ones(2)})
    with safe_open(stream.save(tmp_path / "s.safetensors"), framework="numpy") as file:
        assert json.loads(file.get_tensor("keys").tobytes()) == ["a", 7]
        assert file.get_tensor("grid").shape == (2, 2, 2, 8)


@pytest.fixture
def path(layer, tmp_path):
    stream = Stream(layer, window=8, hop=4)
    stream.push({"a": np.ones((5, 2)), "b": np.ones(2)})
    return stream.save(tmp_path / "s.safetensors")


def test_every_flipped_bit_is_detected(layer, path):
    """All bits of the keys, and random ones of the header and of the arrays."""
    content = path.read_bytes()
    header, keys = 8 + int.from_bytes(content[:8], "little"), content.index(b'["a", "b"]')
    rng = np.random.default_rng(0)
    random = *rng.integers(0, 8 * header, 300), *rng.integers(8 * header, 8 * len(content), 300)
    for bit in (*range(8 * keys, 8 * keys + 80), *map(int, random)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(BadCheckpoint):
            Stream.load(path, layer)
    path.write_bytes(content)
    assert len(Stream.load(path, layer)) == 2


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("path", lambda arrays: {"keys": np.frombuffer(b'["a", "a"]', np.uint8)}),
        ("path", lambda arrays: {"keys": np.frombuffer(b'["a", 1.5]', np.uint8)}),
        ("grid", lambda arrays: {"grid": np.full_like(arrays["grid"], 2**62)}),
        ("grid", lambda arrays: {"grid": arrays["grid"].astype(np.float64)}),
        ("steps", lambda arrays: {"steps": -1 - arrays["steps"]}),
        ("n", lambda arrays: {"n": arrays["n"] - 100}),
        ("waiting", lambda arrays: {"waiting": arrays["waiting"] + 1}),
        ("n", lambda arrays: {"n": arrays["n"][:1]}),
    ],
)
def test_invalid_content_with_a_valid_digest(layer, path, name, change):
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata() | {"sha256": NO_DIGEST.decode()}
    arrays = load(path.read_bytes())
    content = save(arrays | change(arrays), metadata)
    path.write_bytes(content.replace(NO_DIGEST, hashlib.sha256(content).hexdigest().encode(), 1))
    with pytest.raises(BadCheckpoint, match=rf"^{name}: "):
        Stream.load(path, layer)


def test_files_and_models_that_are_rejected(layer, path, tmp_path):
    for other in (UnICORNN(2, 8, 2), UnICORNN(2, 9, 2), Classifier(layer, 2)):
        with pytest.raises(BadCheckpoint, match=r"^model: "):
            Stream.load(path, other)
    layer.dt = 0.2
    with pytest.raises(BadCheckpoint, match=r"^model: "):
        Stream.load(path, layer)
    layer.dt = 0.1
    with pytest.raises(StreamFull):
        Stream.load(path, layer, capacity=1)
    with pytest.raises(BadType, match=r"^options: "):
        Stream.load(path, layer, window=3)
    content = path.read_bytes()
    for damaged in (
        b"", content[:-1], content[:20], b"x" * 100, content.replace(b"unicornn.streams", b"unicornn.nothings"),
        content.replace(b'\\"version\\": 1', b'\\"version\\": 9'),
    ):  # fmt: skip
        assert damaged != content
        path.write_bytes(damaged)
        with pytest.raises(BadCheckpoint, match=r"^path: "):
            Stream.load(path, layer)
    with pytest.raises(BadCheckpoint, match=r"^path: "):
        Stream.load(tmp_path / "nowhere", layer)
    stream = Stream(layer)
    stream.push({("a", 1): np.ones(2)})
    with pytest.raises(BadType, match=r"^key: "):
        stream.save(path)


def test_a_full_disk_leaves_the_previous_file(layer, path, tmp_path, monkeypatch):
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadValue, match="No space left"):
        Stream(layer).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["s.safetensors"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_only_regular_files_are_replaced(layer, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(BadValue, match=r"^path: "):
            Stream(layer).save(path)
    assert (tmp_path / "pipe").is_fifo()
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.slow
def test_a_process_killed_while_saving_leaves_a_valid_file(layer, tmp_path):
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
