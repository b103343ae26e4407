"""Bearings: splits by load, windows that stay within their recording, damaged files."""

import numpy as np
import pytest
import torch

from tests.lab.tasks import helpers
from unicornn.errors import CorruptData
from unicornn.lab.tasks.bearings import FILE, TASK


def load(source, seed=0, **changes):
    return TASK.load(source, helpers.options(TASK, **{"window": 20} | changes), seed)


def standardised(recordings, train):
    values = np.concatenate([recordings[i] for i in train])
    return [(each - values.mean()) / values.std() for each in recordings]


def test_whole_recordings_by_load(bearings):
    source, recordings, labels, loads = bearings
    splits = load(source, window=0)
    recordings = standardised(recordings, np.flatnonzero(loads < 2))
    for split, members in zip(splits[:3], (loads < 2, loads == 2, loads == 3), strict=True):
        u, target, lengths = helpers.everything(split, draw=5)
        rows = np.flatnonzero(members)
        assert target.tolist() == labels[rows].tolist()
        for i, row in enumerate(rows):
            assert lengths[i] == len(recordings[row])
            np.testing.assert_allclose(u[: lengths[i], i, 0], recordings[row], rtol=1e-4, atol=1e-4)
            assert not u[lengths[i] :, i].any()


@pytest.mark.parametrize("validation", ["load", "end"])
@pytest.mark.parametrize("window", [7, 16])
def test_windows_never_leave_their_split(bearings, validation, window):
    """No sample of a recording's validation or test is seen in training, wherever the windows are moved."""
    source, recordings, labels, loads = bearings
    lengths = np.array(list(map(len, recordings)))
    start, kept = np.cumsum(lengths) - lengths, lengths - lengths // 5
    numbered = np.arange(lengths.sum(), dtype=np.float32)  # each value says where it is
    arrays = {"values": numbered, "lengths": lengths, "labels": labels, "loads": loads}
    np.savez(source.data / FILE.path, **arrays)
    splits = load(source, window=window, validation=validation)
    if validation == "load":
        allowed = [(start[loads == k], (start + lengths)[loads == k], loads == k) for k in range(4)]
        allowed = {"train": allowed[:2], "valid": allowed[2:3], "test": allowed[3:]}
    else:
        learn, test = loads < 3, loads == 3
        allowed = {
            "train": [(start[learn], (start + kept)[learn], learn)],
            "valid": [((start + kept)[learn], (start + lengths)[learn], learn)],
            "test": [(start[test], (start + lengths)[test], test)],
        }
    learned = np.concatenate([np.arange(a, b) for s in allowed["train"] for a, b in zip(*s[:2], strict=True)])
    for name, split in zip(allowed, splits[:3], strict=True):
        sections = [(a, b, i) for s in allowed[name] for a, b, i in zip(*s[:2], np.flatnonzero(s[2]), strict=True)]
        for draw in (0, 1, 2) if name == "train" else (-1,):
            u, target, sizes = helpers.everything(split, draw)
            assert sizes is None
            at = (u[:, :, 0].double().numpy() * learned.std() + learned.mean()).round().astype(int)
            assert (np.diff(at, axis=0) == 1).all()
            for j in range(at.shape[1]):
                [of] = [i for a, b, i in sections if a <= at[0, j] and at[-1, j] < b]
                assert target[j] == labels[of]
        assert len(split) == sum((b - a) // window for a, b, _ in sections)


def test_windows_are_moved_in_training_only(bearings):
    splits = load(bearings[0])
    again = load(bearings[0], seed=1)
    assert not torch.equal(helpers.everything(splits.train, 0).u, helpers.everything(splits.train, 1).u)
    assert not torch.equal(helpers.everything(splits.train, 0).u, helpers.everything(again.train, 0).u)
    assert torch.equal(helpers.everything(splits.valid).u, helpers.everything(again.valid).u)
    both = splits.train.batch(torch.tensor([4, 1]), 3).u
    assert torch.equal(splits.train.batch(torch.tensor([1]), 3).u, both[:, 1:])


def test_a_window_must_fit(bearings):
    with pytest.raises(ValueError, match=r"window: expected 0, or at most the \d+ samples .*, got 200"):
        load(bearings[0], window=200)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": None}, "labels"),
        ({"values": np.zeros(3, np.float32)}, "as many values"),
        ({"labels": np.full(44, 11)}, "labels from 0 to 10"),
        ({"loads": np.zeros(44, int)}, "all loads from 0 to 3"),
        ({"nan": True}, "expected finite values, got 1"),
    ],
)
def test_a_damaged_file_is_named(bearings, change, message):
    path = bearings[0].data / FILE.path
    arrays = dict(np.load(path))
    if change.pop("nan", False):
        arrays["values"][3] = np.nan
    arrays = {name: value for name, value in (arrays | change).items() if value is not None}
    np.savez(path, **arrays)
    with pytest.raises(CorruptData, match=message):
        load(bearings[0])


def test_real_bearings(real):
    helpers.needs(real, FILE)
    splits = TASK.load(real, helpers.options(TASK), 0)
    assert [len(split) for split in splits[:3]] == [220, 110, 110]
    whole = TASK.load(real, helpers.options(TASK, window=0), 0)
    assert [len(split) for split in whole[:3]] == [22, 11, 11]
    u = splits.train.batch(torch.arange(16), 0).u
    assert u.shape == (12_000, 16, 1)
    assert u.isfinite().all()
