"""EigenWorms and the 44 worms: splits, standardisation, sub-sampling, lengths."""

import numpy as np
import pytest
import torch

from reproduction.by_hand import right_in
from tests.lab.tasks import helpers
from unicornn.errors import CorruptData, MissingData
from unicornn.lab import tasks
from unicornn.lab.data._ts import read_ts
from unicornn.lab.tasks import eigenworms, worms44
from unicornn.lab.tasks._rows import Moments


def test_eigenworms(eigenworms_source):
    source, u, labels = eigenworms_source
    splits = eigenworms.TASK.load(source, helpers.options(eigenworms.TASK), 0)[:3]
    assert [len(split) for split in splits] == [28, 6, 6]
    rows = [split.rows for split in splits]
    assert sorted(np.concatenate(rows).tolist()) == list(range(40))
    mean, deviation = u[rows[0]].mean((0, 1)), u[rows[0]].std((0, 1))
    for split, row in zip(splits, rows, strict=True):
        batch = helpers.everything(split)
        assert batch.lengths is None
        assert batch.target.tolist() == [labels[i] for i in row]
        np.testing.assert_allclose(batch.u.transpose(0, 1), (u[row] - mean) / deviation, atol=1e-4)


def test_duplicates(eigenworms_source):
    source, _, _ = eigenworms_source
    splits = eigenworms.TASK.load(source, helpers.options(eigenworms.TASK, duplicates="drop"), 0)[:3]
    assert sorted(np.concatenate([split.rows for split in splits]).tolist()) == [*range(37), 38, 39]


def test_subsampling(eigenworms_source):
    source, _, _ = eigenworms_source

    def test_set(**options):
        return helpers.everything(eigenworms.TASK.load(source, helpers.options(eigenworms.TASK, **options), 0).test).u

    whole = test_set()
    assert torch.equal(test_set(subsample="last", entries=20), whole[-20:])
    assert torch.equal(test_set(subsample="last", entries=50), whole)
    assert torch.equal(test_set(subsample="random", entries=50), whole)
    some = test_set(subsample="random", entries=20)
    times = [int((whole == step).all(2).all(1).nonzero()) for step in some]
    assert times == sorted(set(times))
    assert times != list(range(min(times), min(times) + 20))
    assert not torch.equal(some, test_set(subsample="random", entries=20, split_seed=1))
    with pytest.raises(ValueError, match="entries: expected at most the 50 of a recording, got 51"):
        test_set(subsample="random", entries=51)
    with pytest.raises(ValueError, match="entries"):
        test_set(subsample="last", entries=0)


def test_eigenworms_missing_and_corrupt(eigenworms_source):
    source, u, labels = eigenworms_source
    helpers.ts(source.data / "uea/EigenWorms_TEST.ts", u[25:, :40], list(map(str, labels[25:])))
    with pytest.raises(CorruptData, match=r"same length and channels in both files, .*TEST.ts \(40, 6\)"):
        eigenworms.TASK.load(source, helpers.options(eigenworms.TASK), 0)
    (source.data / "uea/EigenWorms_TEST.ts").unlink()
    with pytest.raises(MissingData, match=r"(?s)EigenWorms_TEST\.ts.*timeseriesclassification\.com"):
        eigenworms.TASK.load(source, helpers.options(eigenworms.TASK), 0)


def test_worms44(worms):
    source, recordings, labels = worms
    tested = []
    for fold in range(5):
        splits = worms44.TASK.load(source, helpers.options(worms44.TASK, fold=fold), 0)[:3]
        rows = [split.rows for split in splits]
        assert sorted(np.concatenate(rows).tolist()) == list(range(22))
        following = worms44.TASK.load(source, helpers.options(worms44.TASK, fold=(fold + 1) % 5), 0)
        np.testing.assert_array_equal(rows[1], following.test.rows)
        tested += rows[2].tolist()
        training = np.concatenate([recordings[i] for i in rows[0]])
        for split, row in zip(splits, rows, strict=True):
            u, target, lengths = helpers.everything(split)
            assert target.tolist() == labels[row].tolist()
            assert lengths.tolist() == [len(recordings[i]) for i in row]
            for j, i in enumerate(row):
                expected = (recordings[i] - training.mean(0)) / training.std(0)
                np.testing.assert_allclose(u[: lengths[j], j], expected, atol=1e-4)
    assert sorted(tested) == list(range(22))


def test_worms44_subsampling(worms):
    """The shorter one has its own last entries, and of the random times those that it reaches."""
    source, _, _ = worms

    def shortest(**options):
        for split in worms44.TASK.load(source, helpers.options(worms44.TASK, **options), 0)[:3]:
            if 13 in split.rows:
                return split.batch(torch.from_numpy(np.flatnonzero(split.rows == 13)), -1)

    whole = shortest()
    assert whole.u.shape == (55, 1, 6)
    last = shortest(subsample="last", entries=20)
    assert last.lengths is None
    assert torch.equal(last.u, whole.u[-20:])
    nearly = shortest(subsample="last", entries=58)
    assert nearly.lengths.tolist() == [55]
    assert torch.equal(nearly.u, whole.u)
    some = shortest(subsample="random", entries=50)
    assert int(some.lengths) < 50
    assert torch.isin(some.u, whole.u).all()


def test_worms44_corrupt(worms):
    source, _, _ = worms
    path = source.data / "worms44/worms44.npz"
    with np.load(path) as arrays:
        arrays = dict(arrays)
    np.savez(path, **(arrays | {"lengths": arrays["lengths"] + 1}))
    with pytest.raises(CorruptData, match="as many frames as the lengths add up to"):
        worms44.TASK.load(source, helpers.options(worms44.TASK), 0)
    del arrays["labels"]
    np.savez(path, **arrays)
    with pytest.raises(CorruptData, match="labels"):
        worms44.TASK.load(source, helpers.options(worms44.TASK), 0)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(CorruptData, match=r"worms44\.npz: expected an \.npz"):
        worms44.TASK.load(source, helpers.options(worms44.TASK), 0)


def test_a_constant_channel():
    mean, deviation = Moments.of(np.full((4, 10, 1), 7.3)).over(np.arange(4))
    assert float(mean) == pytest.approx(7.3)
    assert float(deviation) == 1


def test_worms44_without_a_fold_for_validation(worms):
    source, _, labels = worms
    train, valid, test = worms44.TASK.load(source, helpers.options(worms44.TASK, validation="training"), 0)[:3]
    assert torch.equal(helpers.everything(train).u, helpers.everything(valid).u)
    assert len(train) + len(test) == len(labels)
    apart = worms44.TASK.load(source, helpers.options(worms44.TASK), 0)
    assert len(apart.train) + len(apart.valid) == len(train)
    assert torch.equal(helpers.everything(apart.test).target, helpers.everything(test).target)


@pytest.mark.parametrize("crops", ["several", "quarters"])
def test_worms44_in_crops(worms, crops):
    """Training sees pieces of the same recordings, and every target has as many pieces as the crops say."""
    source = worms[0]
    k = {"several": 1, "quarters": 4}[crops]
    whole = worms44.TASK.load(source, helpers.options(worms44.TASK), 0)
    cut = worms44.TASK.load(source, helpers.options(worms44.TASK, crops=crops), 0)
    for a, b in zip(whole[:3], cut[:3], strict=True):
        one, pieces = helpers.everything(a), b.batch(torch.arange(len(b)), -1)
        assert torch.equal(one.target, pieces.target)
        assert pieces.u.shape[1] == 2 * k * len(b)
        n = int(pieces.lengths[0])
        torch.testing.assert_close(pieces.u[:n, 0], one.u[:n, 0])


def test_worms_by_hand(worms):
    """Strains that differ in how much their channels move are told apart."""
    source, _, labels = worms
    path = source.data / "worms44/worms44.npz"
    with np.load(path) as file:
        arrays = dict(file)
    strength = 20.0 ** np.array([[c == k for c in range(6)] for k in range(5)])
    arrays["values"] = arrays["values"] * strength[np.repeat(labels, arrays["lengths"])].astype(np.float32)
    np.savez(path, **arrays)
    right = [right_in(fold, source) for fold in range(5)]
    assert sum(n for _, n in right) == 22
    assert sum(found for found, _ in right) == 22


def test_worms44_says_what_it_is_not():
    assert tasks.find("worms44").protocol.startswith("Not EigenWorms")


def test_real_worms44(real):
    helpers.needs(real, worms44.FILE)
    train, valid, test, _ = worms44.TASK.load(real, helpers.options(worms44.TASK), 0)
    assert (len(train), len(valid), len(test)) == (26, 9, 9)
    batches = [helpers.everything(split) for split in (train, valid, test)]
    targets = torch.cat([b.target for b in batches])
    assert targets.bincount().tolist() == [10, 9, 9, 9, 7]
    lengths = torch.cat([torch.full((len(b.target),), 17_984) if b.lengths is None else b.lengths for b in batches])
    assert sorted(lengths.unique().tolist()) == [17_678, 17_984]


def test_real_eigenworms(real):
    helpers.needs(real, *eigenworms.FILES)
    train, valid, test, _ = eigenworms.TASK.load(real, helpers.options(eigenworms.TASK), 0)
    assert (len(train), len(valid), len(test)) == (181, 39, 39)
    assert train.batch(torch.arange(2), 0).u.shape == (17_984, 2, 6)


def test_real_ts(real):
    """A real file of the archive that EigenWorms is in."""
    path = real.data / "uea" / "AtrialFibrillation_TRAIN.ts"
    if not path.exists():
        pytest.skip("no uea/AtrialFibrillation_TRAIN.ts in UNICORNN_DATA")
    u, labels = read_ts(path)
    assert u.shape == (15, 640, 2)
    assert sorted(set(labels.tolist())) == ["n", "s", "t"]
