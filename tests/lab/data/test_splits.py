"""Random splits and folds: every index once, reproducible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unicornn.lab.data._splits import random_split, split_70_15_15, split_groups_70_15_15, stratified_folds

seeds = st.integers(0, 2**32 - 1)


@given(st.integers(3, 300), seeds)
def test_splits_are_a_reproducible_partition(n, seed):
    splits = split_70_15_15(n, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate(splits)), np.arange(n))
    assert len(splits[1]) == len(splits[2]) == max(1, round(0.15 * n))
    for split, again in zip(splits, split_70_15_15(n, seed), strict=True):
        np.testing.assert_array_equal(split, again)


def test_published_splits_never_change():
    """The published results were obtained with these splits."""
    assert random_split(10, (3,), 0)[1].tolist() == [0, 1, 8]
    assert stratified_folds(np.arange(10) % 3, 3, 0).tolist() == [0, 0, 1, 1, 1, 2, 0, 2, 0, 2]
    assert not np.array_equal(random_split(100, (10,), 0)[1], random_split(100, (10,), 1)[1])
    assert len({tuple(stratified_folds(np.arange(44) % 5, 5, seed)) for seed in range(5)}) == 5
    with pytest.raises(ValueError, match=r"^sizes: "):
        random_split(10, (5, 5), 0)


@given(st.lists(st.integers(0, 9), min_size=30, max_size=100), seeds)
def test_groups_stay_together(groups, seed):
    groups = np.array([*groups, *range(10)])
    splits = split_groups_70_15_15(groups, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate(splits)), np.arange(len(groups)))
    train, valid, test = (set(groups[split].tolist()) for split in splits)
    assert (len(train), len(valid), len(test)) == (6, 2, 2)
    assert len(train | valid | test) == 10


@given(st.lists(st.integers(0, 4), min_size=1, max_size=100), st.integers(1, 6), seeds)
def test_folds_are_even(labels, folds, seed):
    labels = np.array(labels)
    fold = stratified_folds(labels, folds, seed)
    for some in [np.ones(len(labels), bool), *(labels == c for c in range(5))]:
        counts = np.bincount(fold[some], minlength=folds)
        assert counts.max() - counts.min() <= 1
