"""idx, .npz, CIFAR-10 and .ts files, valid and malformed."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tests.lab.tasks import helpers
from unicornn.errors import CorruptData
from unicornn.lab.data._formats import read_cifar10, read_idx, read_npz
from unicornn.lab.data._ts import read_ts


@given(npst.arrays(np.uint8, npst.array_shapes(min_dims=1, max_dims=3, min_side=0)), st.booleans())
def test_idx(tmp_path_factory, array, packed):
    path = tmp_path_factory.mktemp("idx") / "file"
    path.write_bytes(gzip.compress(helpers.idx(array)) if packed else helpers.idx(array))
    read = read_idx(path, array.ndim)
    assert read.dtype == np.uint8
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "got an empty file"),
        (b"<html>", "got 3c 68 74 6d"),
        (helpers.idx(np.zeros(5)), "00 00 08 03, got 00 00 08 01"),
        (helpers.idx(np.zeros((2, 3, 4)))[:-1], r"24 bytes for its shape \(2, 3, 4\), got 39"),
        (gzip.compress(helpers.idx(np.zeros((2, 3, 4))), mtime=0)[:-4], "damaged or cut short"),
    ],
)
def test_idx_malformed(tmp_path, content, message):
    path = tmp_path / "train-images"
    path.write_bytes(content)
    with pytest.raises(CorruptData, match=f"train-images: .*{message}"):
        read_idx(path, 3)


def test_npz(tmp_path):
    path, shapes = tmp_path / "x.npz", {"a": (3,), "b": (2, 2)}
    np.savez(path, **{name: np.zeros(shape) for name, shape in shapes.items()})
    for names in (("b", "a"), ("a",), ()):
        assert {k: v.shape for k, v in read_npz(path, *names).items()} == {k: shapes[k] for k in names or shapes}
    with pytest.raises(CorruptData, match=r"x\.npz: .* c"):
        read_npz(path, "c")


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b"PK\x03\x04 and so on"),
        lambda path: np.savez(path, a=np.array([print], dtype=object)),
    ],
    ids=["damaged", "pickled"],
)
def test_npz_malformed(tmp_path, make):
    make(tmp_path / "x.npz")
    with pytest.raises(CorruptData, match=r"x\.npz"):
        read_npz(tmp_path / "x.npz", "a")


def test_cifar10():
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (7, 3, 32, 32), np.uint8), np.arange(7, dtype=np.uint8)
    content = b"".join(bytes([label]) + image.tobytes() for image, label in zip(images, labels, strict=True))
    read = read_cifar10(content, "batch")
    np.testing.assert_array_equal(read[0], images)
    np.testing.assert_array_equal(read[1], labels)
    for wrong, message in (
        (content[:-1], "batch: expected a multiple of 3073 bytes"),
        (b"", "got 0"),
        (bytes([10]) + content[1:], "batch: expected labels from 0 to 9, got 10"),
    ):
        with pytest.raises(CorruptData, match=message):
            read_cifar10(wrong, "batch")


def test_ts(tmp_path):
    u = np.random.default_rng(0).normal(size=(4, 30, 2))
    helpers.ts(tmp_path / "a.ts", u, ["a", "b", "a", "c"])
    read, labels = read_ts(tmp_path / "a.ts")
    assert read.dtype == np.float32
    np.testing.assert_allclose(read, u, rtol=1e-5)
    assert labels.tolist() == ["a", "b", "a", "c"]
    helpers.ts(tmp_path / "r.ts", u, [1.5, 2.0, -3.0, 4.0], regression=True)
    assert read_ts(tmp_path / "r.ts")[1].tolist() == [1.5, 2.0, -3.0, 4.0]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-40],
        lambda text: text.replace(",", ",?,", 1),
    ],
)
def test_ts_malformed(tmp_path, change):
    path = tmp_path / "a.ts"
    helpers.ts(path, np.random.default_rng(0).normal(size=(4, 30, 2)), ["a", "b", "a", "c"])
    path.write_text(change(path.read_text()))
    with pytest.raises(CorruptData, match=r"a\.ts(, line \d+)?: expected"):
        read_ts(path)
