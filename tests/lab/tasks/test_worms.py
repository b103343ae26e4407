"""EigenWorms and worms44: splits, standardisation, sub-sampling, lengths."""

import numpy as np
import pytest
import torch

from reproduction.by_hand import right_in
from tests.lab.tasks import helpers
from unicornn.errors import CorruptData, MissingData
from unicornn.lab import tasks
from unicornn.lab.data._ts import read_ts
from unicornn.lab.tasks._views import mean_and_deviation, moments

EIGENWORMS, WORMS44 = tasks.find("eigenworms"), tasks.find("worms44")


def test_eigenworms(eigenworms_source):
    source, u, labels = eigenworms_source
    splits = helpers.load(EIGENWORMS, source)
    assert helpers.sizes(splits) == [28, 6, 6]
    assert sorted(np.concatenate([split.rows for split in splits[:3]]).tolist()) == list(range(40))
    training = u[splits.train.rows]
    for split in splits[:3]:
        batch = helpers.everything(split)
        assert batch.lengths is None
        assert batch.target.tolist() == [labels[i] for i in split.rows]
        expected = (u[split.rows] - training.mean((0, 1))) / training.std((0, 1))
        np.testing.assert_allclose(batch.u.transpose(0, 1), expected, atol=1e-4)
    distinct = helpers.load(EIGENWORMS, source, duplicates="drop")
    assert sorted(np.concatenate([split.rows for split in distinct[:3]]).tolist()) == [*range(37), 38, 39]


def test_subsampling(eigenworms_source):
    source, _, _ = eigenworms_source

    def test_set(**options):
        return helpers.everything(helpers.load(EIGENWORMS, source, **options).test).u

    whole = test_set()
    assert torch.equal(test_set(subsample="last", entries=20), whole[-20:])
    assert torch.equal(test_set(subsample="last", entries=50), whole)
    assert torch.equal(test_set(subsample="random", entries=50), whole)
    some = test_set(subsample="random", entries=20)
    times = [int((whole == step).all(2).all(1).nonzero()) for step in some]
    assert times == sorted(set(times))
    assert times != list(range(min(times), min(times) + 20))
    assert not torch.equal(some, test_set(subsample="random", entries=20, split_seed=1))
    for how, entries in (("random", 51), ("last", 0)):
        with pytest.raises(ValueError, match=r"^entries: "):
            test_set(subsample=how, entries=entries)


def test_missing_and_damaged_eigenworms_files(eigenworms_source):
    source, u, labels = eigenworms_source
    helpers.ts(source.data / "uea/EigenWorms_TEST.ts", u[25:, :40], list(map(str, labels[25:])))
    with pytest.raises(CorruptData, match=r"EigenWorms_TEST\.ts \(40, 6\)"):
        helpers.load(EIGENWORMS, source)
    (source.data / "uea/EigenWorms_TEST.ts").unlink()
    with pytest.raises(MissingData, match=r"(?s)EigenWorms_TEST\.ts.*timeseriesclassification\.com"):
        helpers.load(EIGENWORMS, source)


def test_worms44(worms44_source):
    source, recordings, labels = worms44_source
    tested = []
    for fold in range(5):
        splits = helpers.load(WORMS44, source, fold=fold)[:3]
        rows = [split.rows for split in splits]
        assert sorted(np.concatenate(rows).tolist()) == list(range(22))
        following = helpers.load(WORMS44, source, fold=(fold + 1) % 5)
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


def test_worms44_subsampling(worms44_source):
    """The shorter recording has its own last entries, and those random times that are within it."""
    source, _, _ = worms44_source

    def shortest(**options):
        for split in helpers.load(WORMS44, source, **options)[:3]:
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


def test_a_truncated_worms44_file_is_named(worms44_source):
    path = worms44_source[0].data / "worms44/worms44.npz"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(CorruptData, match=r"worms44\.npz: "):
        helpers.load(WORMS44, worms44_source[0])


def test_the_deviation_of_a_constant_channel_is_one():
    mean, deviation = mean_and_deviation(moments(np.full((4, 10, 1), 7.3)), np.arange(4))
    assert float(mean[0]) == pytest.approx(7.3)
    assert float(deviation[0]) == 1


def test_worms44_without_a_fold_for_validation(worms44_source):
    source, _, labels = worms44_source
    train, valid, test = helpers.load(WORMS44, source, validation="training")[:3]
    assert torch.equal(helpers.everything(train).u, helpers.everything(valid).u)
    assert len(train) + len(test) == len(labels)
    apart = helpers.load(WORMS44, source)
    assert len(apart.train) + len(apart.valid) == len(train)
    assert torch.equal(helpers.everything(apart.test).target, helpers.everything(test).target)


def test_deviations_alone_classify_strains_that_differ_in_strength(worms44_source):
    source, _, labels = worms44_source
    path = source.data / "worms44/worms44.npz"
    arrays = dict(np.load(path))
    strength = 20.0 ** np.array([[c == k for c in range(6)] for k in range(5)])
    arrays["values"] = arrays["values"] * strength[np.repeat(labels, arrays["lengths"])].astype(np.float32)
    np.savez(path, **arrays)
    right, tested = zip(*(right_in(fold, source) for fold in range(5)), strict=True)
    assert sum(right) == sum(tested) == 22


def test_real_ts(real):
    """A real file of the archive that EigenWorms is in."""
    path = real.data / "uea" / "AtrialFibrillation_TRAIN.ts"
    if not path.exists():
        pytest.skip("no uea/AtrialFibrillation_TRAIN.ts in UNICORNN_DATA")
    u, labels = read_ts(path)
    assert u.shape == (15, 640, 2)
    assert sorted(set(labels.tolist())) == ["n", "s", "t"]
