"""Splits: nothing lost, nothing twice, the same for the same seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unicornn.lab.data._splits import by_group, fifteen_percent, held_out, stratified_folds

seeds = st.integers(0, 2**32 - 1)


@given(st.integers(3, 300), seeds)
def test_a_partition(n, seed):
    splits = fifteen_percent(n, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate(splits)), np.arange(n))
    assert len(splits[1]) == len(splits[2]) == max(1, round(0.15 * n))
    for split, again in zip(splits, fifteen_percent(n, seed), strict=True):
        np.testing.assert_array_equal(split, again)


def test_seeds_differ():
    assert not np.array_equal(held_out(100, (10,), 0)[1], held_out(100, (10,), 1)[1])


def test_too_much():
    with pytest.raises(ValueError, match=r"sizes: expected fewer than the 10 there are, got 5 \+ 5"):
        held_out(10, (5, 5), 0)


@given(st.lists(st.integers(0, 9), min_size=30, max_size=100), seeds)
def test_groups_stay_together(groups, seed):
    groups = np.array([*groups, *range(10)])
    splits = by_group(groups, seed)
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


def test_folds_are_random():
    assert len({tuple(stratified_folds(np.arange(44) % 5, 5, seed)) for seed in range(5)}) == 5
