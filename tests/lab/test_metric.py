"""Which number is better, and which is best."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unicornn.lab._metric import Metric

NUMBERS = st.one_of(st.none(), st.floats())


@given(new=NUMBERS, old=NUMBERS, more_is_better=st.booleans())
def test_what_is_not_finite_is_never_better(new, old, more_is_better):
    metric = Metric("any", more_is_better)
    known, before = (x is not None and math.isfinite(x) for x in (new, old))
    expected = known and (not before or (new > old if more_is_better else new < old))
    assert metric.better(new, old) == expected


@given(values=st.lists(NUMBERS), more_is_better=st.booleans())
def test_the_best_is_the_first_that_none_is_better_than(values, more_is_better):
    metric = Metric("any", more_is_better)
    found = metric.best(enumerate(values), value=lambda pair: pair[1])
    known = [pair for pair in enumerate(values) if pair[1] is not None and math.isfinite(pair[1])]
    extreme = (max if more_is_better else min)((value for _, value in known), default=None)
    assert found == next((pair for pair in known if pair[1] == extreme), None)
    ranked = metric.ranked(values, value=lambda x: x)
    assert len(ranked) == len(values)
    assert not any(metric.better(b, a) for i, a in enumerate(ranked) for b in ranked[i:])


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("accuracy", 0.9684, "96.8 %"), ("RMSE", 1.0, "1.00"), ("RMSE", math.nan, "–"), ("RMSE", None, "–")],
)
def test_text(name, value, text):
    assert Metric(name, False).text(value) == text
