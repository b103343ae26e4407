"""Plain numbers about series."""

import numpy as np

from unicornn.estimators._summaries import NAMES, summaries


def test_numbers_of_each_channel():
    x = np.stack([np.arange(5.0), [2, 9, 2, 2, 1]], 1)
    found = summaries([x, x[:1]])
    assert found.shape == (2, 13 * 2)
    assert found.dtype == np.float32
    first, second = ({name: found[0, 2 * i + d] for i, name in enumerate(NAMES)} for d in range(2))
    assert (first["mean"], first["median"], first["first"], first["last"], first["moves"]) == (2, 2, 0, 4, 1)
    assert (second["max_at"], second["min_at"], second["upper_quartile"]) == (0.25, 1, 2)
    assert first["trend"] > 0 > second["trend"]
    assert np.isfinite(found[1]).all()  # a single step
