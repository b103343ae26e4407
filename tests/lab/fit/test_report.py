"""The page about a model fitted to a file."""

import numpy as np
import pytest

from tests.browser import measured_in_frames
from tests.lab.report.helpers import MEASURE
from unicornn.lab.fit import fit_file
from unicornn.lab.fit._data import Data
from unicornn.lab.fit._report import write_report


@pytest.mark.parametrize("target", [["walking uphill", "sitting still"] * 5, np.linspace(0, 1, 10) ** 2])
def test_the_page_fits_on_a_phone(target, tmp_path):
    X = np.random.default_rng(0).normal(size=(10, 20, 3))
    form = "long: one row per step, series by 'the name of the walk', times by 'seconds since the start'"
    names = ["accelerometer_x", "accelerometer_y", "gyroscope_z"]
    data = Data(form, list(X), [f"walk {i}" for i in range(10)], names, np.array(target))
    estimator = fit_file(data, tmp_path / "model", random_state=0)
    page = write_report(estimator, data, "walks.csv", tmp_path / "report.html")
    images = 7 if isinstance(target, list) else 6  # with the calibration of probabilities
    for measured in measured_in_frames(page, tmp_path, MEASURE):
        assert (measured["beyond"], measured["sideways"], measured["images"], measured["shown"]) == (
            0,
            0,
            images,
            images,
        )
        text = measured["text"]
        assert "seconds since the start" in text
        assert "Hardest series" in text
        assert ("Mostly taken for" in text) == isinstance(target, list)
        assert "Series were left out individually" in text
        assert "random_state" in text
        assert "hidden_size" not in text, "the bank has no hidden layers"
