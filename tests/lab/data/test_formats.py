"""idx, .npz, CIFAR-10 and .ts files, valid and malformed."""

import gzip

import numpy as np
import pytest

from tests.lab.tasks import helpers
from unicornn.errors import CorruptData
from unicornn.lab.data._formats import read_idx, read_npz
from unicornn.lab.data._ts import read_ts


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
