"""Bearings: splits by load, windows that stay within their recording, damaged files."""

import numpy as np
import pytest

from tests.lab.tasks import helpers
from unicornn.errors import BadValue, CorruptData
from unicornn.lab.tasks.bearings import FILE, TASK

LOADS = {"train": (0, 1), "valid": (2,), "test": (3,)}


def load(source, seed=0, **changes):
    return helpers.load(TASK, source, seed, **{"window": 20} | changes)


def test_whole_recordings_by_load(bearings_source):
    source, recordings, labels, loads = bearings_source
    splits = load(source, window=0)
    training = np.concatenate([recordings[i] for i in np.flatnonzero(loads < 2)])
    for name in LOADS:
        u, target, lengths = helpers.everything(getattr(splits, name), draw=5)
        rows = np.flatnonzero(np.isin(loads, LOADS[name]))
        assert target.tolist() == labels[rows].tolist()
        for i, row in enumerate(rows):
            assert lengths[i] == len(recordings[row])
            expected = (recordings[row] - training.mean()) / training.std()
            np.testing.assert_allclose(u[: lengths[i], i, 0], expected, rtol=1e-4, atol=1e-4)
            assert not u[lengths[i] :, i].any()


@pytest.mark.parametrize("window", [7, 16])
def test_windows_never_leave_their_recording(bearings_source, window):
    source, recordings, labels, loads = bearings_source
    lengths = np.array(list(map(len, recordings)))
    ends = np.cumsum(lengths)
    numbered = np.arange(ends[-1], dtype=np.float32)  # each value is its own position
    np.savez(source.data / FILE.path, values=numbered, lengths=lengths, labels=labels, loads=loads)
    splits = load(source, window=window)
    training = numbered[np.repeat(loads < 2, lengths)].astype(np.float64)
    for name in LOADS:
        split, rows = getattr(splits, name), np.flatnonzero(np.isin(loads, LOADS[name]))
        assert len(split) == (lengths[rows] // window).sum()
        for draw in (0, 1, 2) if name == "train" else (-1,):
            u, target, sizes = helpers.everything(split, draw)
            assert sizes is None
            at = (u[:, :, 0].double().numpy() * training.std() + training.mean()).round().astype(int)
            assert (np.diff(at, axis=0) == 1).all()
            first, last = np.searchsorted(ends, at[0], "right"), np.searchsorted(ends, at[-1], "right")
            assert (first == last).all()
            assert set(first) <= set(rows)
            assert target.tolist() == labels[first].tolist()


def test_validation_on_the_end_of_the_training_recordings(bearings_source):
    source, recordings, labels, loads = bearings_source
    lengths = np.array(list(map(len, recordings)))
    splits = load(source, window=0, validation="end")
    assert splits.train.lengths.tolist() == (lengths - lengths // 5)[loads < 3].tolist()
    assert splits.valid.lengths.tolist() == (lengths // 5)[loads < 3].tolist()
    assert splits.test.target.tolist() == labels[loads == 3].tolist()
    np.testing.assert_array_equal(splits.valid.begin, splits.train.begin + splits.train.lengths)


def test_a_window_must_fit(bearings_source):
    with pytest.raises(BadValue, match=r"^window: "):
        load(bearings_source[0], window=200)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": None}, "labels"),
        ({"lengths": lambda lengths: lengths + 1}, "as many values"),
        ({"values": lambda values: np.where(np.arange(len(values)) == 3, np.nan, values)}, "finite values, got 1"),
    ],
)
def test_a_damaged_file_is_named(bearings_source, change, message):
    path = bearings_source[0].data / FILE.path
    arrays = dict(np.load(path))
    change = {name: value(arrays[name]) if callable(value) else value for name, value in change.items()}
    np.savez(path, **{name: value for name, value in (arrays | change).items() if value is not None})
    with pytest.raises(CorruptData, match=rf"bearings\.npz: .*{message}"):
        load(bearings_source[0])
