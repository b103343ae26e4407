"""Fits from exact sums: in parts, merged, with series removed, resumed; equal to ``fit``."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unicornn import load_model
from unicornn.errors import BadType, BadValue
from unicornn.estimators import OscillatorBank, UnICORNNClassifier, UnICORNNRegressor, _parts, _sums
from unicornn.estimators._parts import Sample
from unicornn.estimators._ridge import Ridge
from unicornn.estimators._sums import Basis, Sums

rng = np.random.default_rng(0)
CLASS = np.arange(90) % 3
X = np.sin((0.5 + 0.3 * CLASS)[:, None] * np.arange(10) + rng.uniform(0, 6, (90, 1))) + rng.normal(size=(90, 10))
LABELS, GROUPS = np.array(list("abc"))[CLASS], np.arange(90) // 6
SMALL = {"sample": 40, "max_features": 100}
F = rng.normal(size=(200, 30)) * rng.choice([1, 5], (200, 1))
Y = np.stack([F[:, 0] + rng.normal(size=200), F[:, 1] ** 2 / 20], 1)
BASIS = Basis.from_ridge(Ridge.fit(F[:50], Y[:50]), np.zeros(30, int), 20)


def parts(*cuts, groups=None):
    columns = (X, LABELS) if groups is None else (X, LABELS, groups)
    return [tuple(column[a:b] for column in columns) for a, b in zip((0, *cuts), (*cuts, len(X)), strict=True)]


def classifier(*cuts, groups=None, **options):
    return UnICORNNClassifier(random_state=0).fit_parts(parts(*cuts, groups=groups), **options)


def sums(*cuts, rows=slice(None)):
    total = Sums.empty(BASIS, 2, 5)
    for part in np.split(np.arange(200)[rows], cuts):
        total.add(F[part], Y[part], part % 5)
        total.copy()  # multiplies
    return total


@pytest.mark.slow
@pytest.mark.parametrize("groups", [None, GROUPS])
def test_equal_to_fit_if_the_sample_holds_all_series(groups):
    whole = UnICORNNClassifier(random_state=0).fit(X, LABELS, groups=groups)
    in_parts = classifier(20, 50, groups=groups)
    assert np.allclose(in_parts.predict_proba(X), whole.predict_proba(X), atol=1e-6)
    assert in_parts._ridge.penalty == whole._ridge.penalty
    assert in_parts.about_["series"] == 90


@settings(max_examples=3, deadline=None)
@given(st.lists(st.integers(1, 89), max_size=6, unique=True))
def test_cuts_do_not_change_a_bit(cuts):
    assert np.array_equal(classifier(*sorted(cuts), **SMALL).predict_proba(X), ONE.predict_proba(X))


ONE = classifier(**SMALL)


def test_merged_and_forgotten_series_leave_no_trace():
    (here, there), new = parts(30), UnICORNNClassifier(random_state=0)
    a, b = (UnICORNNClassifier(random_state=0).fit_parts(iter([part]), like=ONE) for part in (here, there))
    both = a + b
    assert np.array_equal(both.predict_proba(X), ONE.predict_proba(X))
    assert both.about_ == ONE.about_
    assert np.array_equal(both.forget(*there).predict_proba(X), a.predict_proba(X))
    with pytest.raises(BadValue, match=r"^X: "):
        a.forget(*there)
    assert a.about_["series"] == 30
    with pytest.raises(BadValue, match=r"^other: "):
        a + new.fit_parts(parts(30), sample=30, max_features=100)


def test_partial_fit_continues_after_saving(tmp_path, monkeypatch):
    monkeypatch.setattr(_parts, "FEATURES_OF_PARTIAL_FIT", 100)
    first, second, third = parts(20, 60)
    model = UnICORNNClassifier(random_state=0).partial_fit(*first, classes=[*"abcd"]).partial_fit(*second)
    model.save_pretrained(tmp_path, sums=True)
    loaded = load_model(tmp_path).partial_fit(*third)
    assert np.array_equal(loaded.predict_proba(X), model.partial_fit(*third).predict_proba(X))
    assert loaded.about_["classes"] == {"a": 30, "b": 30, "c": 30, "d": 0}
    assert loaded.score(X, LABELS) > 0.6
    with pytest.raises(BadValue, match=r"^y: "):
        loaded.partial_fit(X, ["e"] * 90)


def test_regression_in_parts():
    y = X[:, 0] * 100
    model = UnICORNNRegressor(random_state=0).fit_parts([(X[:50], y[:50]), (X[50:], y[50:])], **SMALL)
    assert model.score(X, y) > 0.8
    with pytest.raises(BadValue, match=r"^y: "):
        model.partial_fit(X[:2], [0, 1e9])


@pytest.mark.parametrize(
    ("name", "settings", "arguments"),
    [
        ("parts", {}, (iter([(X, LABELS)]),)),
        (r"parts\[0\]", {}, ([X],)),
        ("parts", {}, ([],)),
        (r"parts\[1\]: y", {}, ([(X, LABELS), (X, LABELS[:3])],)),
        ("model", {"model": "both"}, ([(X, LABELS)],)),
        ("class_weight", {"class_weight": "balanced"}, ([(X, LABELS)],)),
    ],
)
def test_bad_arguments_are_named(name, settings, arguments):
    with pytest.raises((BadValue, BadType), match=f"^{name}: "):
        UnICORNNClassifier(**settings).fit_parts(*arguments)
    with pytest.raises(BadValue, match=r"^like: "):
        UnICORNNClassifier().fit_parts([], like=UnICORNNClassifier())


def test_sums_equal_ridge_and_its_folds():
    some = Basis.from_ridge(Ridge.fit(F, Y), np.zeros(30, int), None)
    everything = Sums.empty(some, 2, 1)
    everything.add(F, Y, np.zeros(200, int))
    assert np.allclose(everything.ridge().predict(F), Ridge.fit(F, Y).predict(F), atol=1e-5)
    chosen, penalties = sums().ridge().penalty, BASIS.penalty * 10.0 ** np.arange(-3, 3.5, 0.5)
    V = BASIS.rows(F, Y)
    Z, errors = (V[:, 1:21] - V[:, 1:21].mean(0)) / V[:, 1:21].std(0), []
    for penalty in penalties:
        error = 0.0
        for fold in range(5):
            test = np.arange(200) % 5 == fold
            mean, centre = Z[~test].mean(0), Y[~test].mean(0)
            A = Z[~test] - mean
            W = np.linalg.solve(A.T @ A + penalty * np.eye(20), A.T @ (Y[~test] - centre))
            error += ((Y[test] - centre - (Z[test] - mean) @ W) ** 2).sum()
        errors.append(error)
    assert np.isclose(chosen, penalties[np.argmin(errors)])


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 200), max_size=5), st.sampled_from([1 << 50, 1 << 62]), st.integers(1, 30))
def test_sums_are_exact_in_any_order(cuts, full, removed):
    before, _sums.FULL = _sums.FULL, full  # the smaller one needs both words
    try:
        some, rest = sums(*sorted(cuts), rows=slice(removed, None)), sums(rows=slice(removed))
        total = rest + some
        again, about = Sums.from_bytes(total.to_bytes("{}"))
        assert about == "{}"
        for each in (total, some + rest, again):
            assert np.array_equal(each.ridge().coefficients, COEFFICIENTS)
        again.add(F[:removed], Y[:removed], np.arange(removed) % 5, -1)
        assert np.array_equal(again.ridge().coefficients, some.ridge().coefficients)
    finally:
        _sums.FULL = before


COEFFICIENTS = sums().ridge().coefficients


@given(st.permutations(range(12)), st.integers(1, 12))
def test_a_sample_does_not_depend_on_the_order(order, most):
    estimator = UnICORNNClassifier()

    def sample(rows):
        drawn = Sample(most, True)
        for row in rows:
            drawn.add(estimator._read_part((X[row : row + 1], LABELS[row : row + 1])), [row])
        return drawn

    expected = sample(range(12)).part()
    merged = sample(order[:5]).merge(sample(order[5:]))
    for found in (sample(order).part(), merged.part()):
        assert np.array_equal(found.read.series, expected.read.series)
        assert found.y.tolist() == expected.y.tolist()
        assert set(found.y) == {"a", "b", "c"}
    assert merged.is_complete == (most == 12)


@pytest.mark.parametrize("d", [1, 3])
def test_features_do_not_depend_on_other_series(d):
    series = [rng.normal(size=(n, d)) for n in rng.integers(5, 70, 20)]
    bank = OscillatorBank(4, random_state=0).fit(series)
    together = bank.transform(series)
    for count in (1, 2, 13):
        assert np.array_equal(bank.transform(series[:count]), together[:count])
