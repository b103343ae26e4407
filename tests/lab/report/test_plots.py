"""The plots: any label, and the confusion matrix."""

import warnings

import numpy as np
import pandas as pd
import pytest

from unicornn.lab.report import _plots as plots


def table(valid, **more):
    n = np.arange(1, len(valid) + 1)
    return pd.DataFrame({"epoch": n, "seconds": 3600.0 * n, "valid": valid} | more)


def legend(figure):
    (drawn,) = figure.legends or [figure.axes[0].get_legend()]
    return [text.get_text() for text in drawn.get_texts()]


@pytest.mark.parametrize("label", [r"$\frac{$", "a$b$c", "x" * 300])
def test_any_label_and_metric_can_be_drawn(label, tmp_path):
    for name, metric in ((label, "accuracy"), ("unicornn", label)):
        figure = plots.learning_curves({name: [table([0.5, 0.6])]}, metric)
        with warnings.catch_warnings(action="error"):
            figure.savefig(tmp_path / "f.svg")
        assert len(legend(figure)) == 1


def test_confusion():
    target, prediction = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0])
    figure = plots.confusion(target, prediction)
    axis = figure.axes[0]
    assert [text.get_text() for text in axis.texts] == ["1", "1", "0", "0", "1", "0", "1", "0", "0"]
    assert axis.images[0].get_array().tolist() == [[0.5, 0.5, 0], [0, 1, 0], [1, 0, 0]]
    assert not plots.confusion(np.arange(30), np.arange(30)).axes[0].texts


def test_calibration_error_and_reliability(tmp_path):
    confidence, correct = np.array([0.75] * 4 + [0.55] * 2), np.array([True, True, True, False, True, True])
    assert plots.calibration_error(confidence, correct) == pytest.approx(2 * 0.45 / 6)
    figure = plots.reliability(confidence, correct)
    figure.savefig(tmp_path / "f.png")
    assert [each.get_text() for each in figure.axes[0].texts] == ["2", "4"]
