"""Stream files: exact, undamaged or rejected, written completely or not at all."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from unicornn import UnICORNN
from unicornn.errors import BadCheckpoint, BadType, StreamFull
from unicornn.models import Classifier
from unicornn.streams import Stream


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
        assert file.get_tensor("1.grid").shape == (2, 2, 2, 8)


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
