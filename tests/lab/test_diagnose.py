"""Assessments of a diagnosis."""

import pytest

from unicornn.lab.diagnose import diagnosis_rows


@pytest.mark.parametrize(
    ("ratio", "assessment"),
    [(1e-7, "bad"), (0.02, "uneven"), (0.5, "good"), (9.0, "good"), (49.0, "uneven"), (1e7, "bad")],
)
def test_a_ratio_of_gradients_is_good_only_if_it_is_even(ratio, assessment):
    diagnosis = {"sequences": 4, "steps": 100, "gradient_first_tenth": ratio, "gradient_last_tenth": 1.0}
    rows = diagnosis_rows(diagnosis | {"lyapunov_exponent": None})
    assert rows[2][2].startswith(assessment)
