"""Metrics: which number is better, which is best, and how one is printed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unicornn.lab._metric import Metric

NUMBERS = st.one_of(st.none(), st.floats())


@given(new=NUMBERS, old=NUMBERS, more_is_better=st.booleans())
def test_a_value_that_is_not_finite_is_never_better(new, old, more_is_better):
    metric = Metric("any", more_is_better)
    known, before = (x is not None and math.isfinite(x) for x in (new, old))
    expected = known and (not before or (new > old if more_is_better else new < old))
    assert metric.better(new, old) == expected


@given(values=st.lists(NUMBERS), more_is_better=st.booleans())
def test_the_best_is_the_first_of_equals(values, more_is_better):
    metric = Metric("any", more_is_better)
    found = metric.best(enumerate(values), value=lambda pair: pair[1])
    known = [pair for pair in enumerate(values) if pair[1] is not None and math.isfinite(pair[1])]
    extreme = (max if more_is_better else min)((value for _, value in known), default=None)
    assert found == next((pair for pair in known if pair[1] == extreme), None)
    ranked = metric.ranked(values, value=lambda x: x)
    assert len(ranked) == len(values)
    assert not any(metric.better(b, a) for i, a in enumerate(ranked) for b in ranked[i:])


ROUNDED = {139.5: "140", 13.96: "14.0", 0.99951: "1.00", 0.0123: "0.0123", 0.0: "0.00", 1e-9: "1e-09", 1e6: "1e+06"}


@pytest.mark.parametrize(("value", "text"), [*ROUNDED.items(), (math.nan, "–"), (None, "–")])
def test_errors_have_three_digits(value, text):
    assert Metric("RMSE", False).text(value) == text


def test_accuracies_are_percentages():
    assert Metric("accuracy", True).text(0.9684) == "96.8 %"
