"""EigenWorms and worms44: splits, standardisation, sub-sampling, lengths."""

import numpy as np
import pytest
import torch

from tests.lab.tasks import helpers
from unicornn.lab import tasks

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


def test_worms44_without_a_fold_for_validation(worms44_source):
    source, _, labels = worms44_source
    train, valid, test = helpers.load(WORMS44, source, validation="training")[:3]
    assert torch.equal(helpers.everything(train).u, helpers.everything(valid).u)
    assert len(train) + len(test) == len(labels)
    apart = helpers.load(WORMS44, source)
    assert len(apart.train) + len(apart.valid) == len(train)
    assert torch.equal(helpers.everything(apart.test).target, helpers.everything(test).target)
