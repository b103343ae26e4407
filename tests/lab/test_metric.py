"""Metrics: which number is better, which is best, and how one is printed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unicornn.lab._metric import Metric

NUMBERS = st.one_of(st.none(), st.floats())


@given(values=st.lists(NUMBERS), more_is_better=st.booleans())
def test_the_best_is_the_first_of_equals(values, more_is_better):
    metric = Metric("any", more_is_better)
    found = metric.best(enumerate(values), value=lambda pair: pair[1])
    known = [pair for pair in enumerate(values) if pair[1] is not None and math.isfinite(pair[1])]
    extreme = (max if more_is_better else min)((value for _, value in known), default=None)
    assert found == next((pair for pair in known if pair[1] == extreme), None)
    ranked = metric.ranked(values, value=lambda x: x)
    assert ranked[: len(known)] == sorted((value for _, value in known), reverse=more_is_better)
    assert len(ranked) == len(values)


ROUNDED = {139.5: "140", 13.96: "14.0", 0.99951: "1.00", 0.0123: "0.0123", 0.0: "0.00", 1e-9: "1e-09", 1e6: "1e+06"}


@pytest.mark.parametrize(("value", "text"), [*ROUNDED.items(), (math.nan, "–"), (None, "–")])
def test_errors_have_three_digits(value, text):
    assert Metric("RMSE", False).text(value) == text


def test_deviations_have_the_places_of_their_value():
    assert Metric("accuracy", True).text(0.903, 0.03) == "90.3 ± 3.0 %"
    assert Metric("RMSE", False).text(1.0, 0.0625) == "1.00 ± 0.06"
