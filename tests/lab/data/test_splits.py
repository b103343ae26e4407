"""Random splits and folds: every index once, reproducible."""

import numpy as np
import pytest

from unicornn.lab.data._splits import random_split, stratified_folds


def test_published_splits_never_change():
    """The published results were obtained with these splits."""
    assert random_split(10, (3,), 0)[1].tolist() == [0, 1, 8]
    assert stratified_folds(np.arange(10) % 3, 3, 0).tolist() == [0, 0, 1, 1, 1, 2, 0, 2, 0, 2]
    assert not np.array_equal(random_split(100, (10,), 0)[1], random_split(100, (10,), 1)[1])
    assert len({tuple(stratified_folds(np.arange(44) % 5, 5, seed)) for seed in range(5)}) == 5
    with pytest.raises(ValueError, match=r"^sizes: "):
        random_split(10, (5, 5), 0)
