"""Ridge regression with the penalty chosen in closed form, compared with scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import LeaveOneOut

from unicornn.estimators import _ridge
from unicornn.estimators._ridge import PENALTIES, Ridge, temperature

rng = np.random.default_rng(0)
F = rng.normal(size=(60, 100)).astype(np.float32)
Y = np.stack([F[:, 0] + 0.3 * rng.normal(size=60), F[:, 1] ** 2], 1)


@pytest.mark.parametrize("block", [7, 1024])
@pytest.mark.parametrize("weights", [None, rng.uniform(0.5, 2, 60)])
def test_same_as_scikit_learn(weights, block, monkeypatch):
    monkeypatch.setattr(_ridge, "BLOCK", block)
    ours = Ridge.fit(F, Y, weights)
    s = None if weights is None else weights * 60 / weights.sum()
    theirs = RidgeCV(100 * PENALTIES, scoring="neg_mean_squared_error", store_cv_results=True)
    theirs.fit((F - ours.mean) / ours.deviation, Y, s)
    assert ours.penalty == theirs.alpha_
    assert np.allclose(ours.predict(F), theirs.predict((F - ours.mean) / ours.deviation), atol=1e-6)
    left_out = theirs.cv_results_[:, :, list(100 * PENALTIES).index(ours.penalty)]
    assert np.allclose(ours.left_out, left_out, atol=1e-6)


def test_groups_of_one_series_are_leave_one_out():
    ours = Ridge.fit(F[:5], Y[:5], groups=np.arange(5))
    for train, test in LeaveOneOut().split(F[:5]):
        Z = (F[:5] - ours.mean) / ours.deviation
        theirs = RidgeCV([ours.penalty]).fit(Z[train], Y[:5][train])
        assert np.allclose(ours.left_out[test], theirs.predict(Z[test]), atol=1e-5)


def test_more_series_than_features_and_constant_features():
    wide = np.concatenate([F[:, :3], np.ones((60, 1))], 1)
    ours = Ridge.fit(wide, F[:, :1].astype(float))
    assert np.allclose(ours.predict(wide), F[:, :1], atol=1e-3)
    assert not ours.coefficients[3].any()
    far = np.where(np.arange(4) == 3, 1e9, wide[:1])
    assert np.allclose(ours.predict(far), ours.predict(wide[:1]))


def test_weights_of_kinds_are_chosen_by_left_out_errors():
    kinds = np.repeat([0, 1, 2], [40, 30, 30])
    target = F[:, 40:45].sum(1, keepdims=True).astype(float)
    ours = Ridge.fit(F, target, kinds=kinds, weight_choices=((1.0,), (1.0, 64.0), (0.0, 1.0)))
    assert ours.kind_weights == (1.0, 64.0, 0.0)
    assert not ours.coefficients[kinds == 2].any()
    scaled = F * np.sqrt([1.0, 64.0, 0.0])[kinds]
    theirs = RidgeCV([ours.penalty]).fit(scaled / F.std(0), target)
    assert np.allclose(ours.predict(F)[:, 0], theirs.predict(scaled / F.std(0)), atol=1e-4)
    alone = Ridge.fit(F[:, :40], target, kinds=kinds[:40], weight_choices=((1.0,), (1.0, 64.0), (0.0, 1.0)))
    assert alone.kind_weights == (1.0, 1.0, 0.0)  # kinds without features


def test_temperature_of_separable_and_random_scores():
    classes = np.arange(100) % 2
    right = 2 * np.eye(2)[classes] - 1.0
    sure = 1 / (1 + np.exp(-2 * temperature(right, classes, np.ones(100))))
    assert 0.98 < sure < 0.995  # 101 / 102 after 100 correct predictions
    many = np.repeat(right, 20, 0), np.repeat(classes, 20), np.ones(2000)
    assert 1 / (1 + np.exp(-2 * temperature(*many))) > 0.999
    assert temperature(rng.normal(size=(100, 2)), classes, np.ones(100)) < 1
