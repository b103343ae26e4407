"""Metrics: which number is better, which is best, and how one is printed."""

import math

import pytest

from unicornn.lab._metric import Metric

ROUNDED = {139.5: "140", 13.96: "14.0", 0.99951: "1.00", 0.0123: "0.0123", 0.0: "0.00", 1e-9: "1e-09", 1e6: "1e+06"}


@pytest.mark.parametrize(("value", "text"), [*ROUNDED.items(), (math.nan, "–"), (None, "–")])
def test_errors_have_three_digits(value, text):
    assert Metric("RMSE", False).text(value) == text


def test_deviations_have_the_places_of_their_value():
    assert Metric("accuracy", True).text(0.903, 0.03) == "90.3 ± 3.0 %"
    assert Metric("RMSE", False).text(1.0, 0.0625) == "1.00 ± 0.06"
