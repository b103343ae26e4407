"""Validation series that are near-duplicates of training series cause a warning; others of the same class don't."""

import warnings

import numpy as np
import pytest

from tests.estimators.helpers import QUICK
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor

WINDOW, EVERY, EACH, COUNT = 100, 10, 12, 10


def recordings(seed=0):
    """Overlapping windows of recordings, each with its own tones; the recordings' targets and numbers."""
    rng = np.random.default_rng(seed)
    time = np.arange(WINDOW + EVERY * EACH)
    X, who = [], np.repeat(np.arange(COUNT), EACH)
    for _ in range(COUNT):
        x = sum(rng.normal() * np.sin(rng.uniform(0.05, 1.5) * time + rng.uniform(0, 6)) for _ in range(5))
        x = x + 0.05 * rng.normal(size=len(time))
        X += [x[i * EVERY : i * EVERY + WINDOW] for i in range(EACH)]
    return np.array(X), rng.normal(size=COUNT)[who], who


def split(rows, test):
    return [rows[i] for i in np.flatnonzero(~test)], [rows[i] for i in np.flatnonzero(test)]


@pytest.mark.parametrize("kind", [UnICORNNClassifier, UnICORNNRegressor])
def test_windows_of_training_recordings(kind):
    X, y, who = recordings()
    y = who % 2 if kind is UnICORNNClassifier else y
    by_window, by_recording = np.random.default_rng(1).permutation(len(X)) % 4 == 0, who >= 7
    for test, leaks in ((by_window, True), (by_recording, False)):
        (A, B), (a, b) = split(X, test), split(y, test)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            kind(random_state=0).fit(A, a, validation_data=(B, b))
        assert [str(each.message).split(",")[0] for each in caught] == [
            "validation_data: its series form tight clusters with training series"
        ] * leaks
        assert all(each.filename == __file__ for each in caught)


@pytest.mark.parametrize("model", ["bank", "network"])
def test_equal_series(model):
    X = np.random.default_rng(0).normal(size=(30, 20))
    y = X[:, 0]
    with pytest.warns(UserWarning, match=r"^validation_data: 2 of the 7 series equal training series"):
        UnICORNNRegressor(model, **QUICK).fit(X[:25], y[:25], validation_data=(X[23:], y[23:]))


def test_a_class_of_few_series_says_nothing():
    X, y, _ = recordings()
    few = np.arange(0, len(X), 3)
    UnICORNNRegressor(random_state=0).fit(X[few[:5]], y[few[:5]], validation_data=(X[few[5:9]], y[few[5:9]]))
