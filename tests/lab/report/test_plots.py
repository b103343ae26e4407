"""The plots: their data, and any label."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

from unicornn.lab.report import _plots as plots


def table(valid, **more):
    n = np.arange(1, len(valid) + 1)
    return pd.DataFrame({"epoch": n, "seconds": 3600.0 * n, "valid": valid} | more)


def legend(figure):
    (drawn,) = figure.legends or [figure.axes[0].get_legend()]
    return [text.get_text() for text in drawn.get_texts()]


def test_learning_curves():
    runs = {"unicornn": [table([0.5, 0.7, 0.8]), table([0.4, 0.6])], "lstm": [table([0.3])]}
    figure = plots.learning_curves(runs, "accuracy", constant=0.1)
    first, second, lstm, chance = figure.axes[0].lines
    assert first.get_ydata() == pytest.approx([50, 70, 80])
    assert first.get_color() == second.get_color() != lstm.get_color()
    assert chance.get_ydata() == pytest.approx([10, 10])
    assert legend(figure) == ["unicornn", "lstm", "constant prediction"]


def test_curves_against_time_have_a_fitting_unit():
    figure = plots.learning_curves({"unicornn": [table([0.5, 0.7, 0.8])]}, "accuracy", "seconds")
    assert figure.axes[0].get_xlabel() == "hours"
    assert figure.axes[0].lines[0].get_xdata() == pytest.approx([1, 2, 3])


@pytest.mark.parametrize("values", [[1.0, 1.1], [10.0, 1.0], [1000.0, 0.1]])
def test_errors_are_on_a_logarithmic_axis_with_several_labels(values):
    figure = plots.learning_curves({"unicornn": [table(values)]}, "RMSE")
    figure.canvas.draw()
    (axis,) = figure.axes
    low, high = axis.get_ylim()
    assert axis.get_yscale() == "log"
    assert sum(low <= at <= high for at in axis.get_yticks()) >= 3
    assert not any("$" in label.get_text() for label in axis.get_yticklabels())


@pytest.mark.parametrize("label", [r"$\frac{$", "a$b$c", "_hidden", "名前", "\ud800\n", "x" * 300])
def test_any_label_and_metric_can_be_drawn(label, tmp_path):
    for name, metric in ((label, "accuracy"), ("unicornn", label)):
        figure = plots.learning_curves({name: [table([0.5, 0.6])]}, metric)
        with warnings.catch_warnings(action="error"):
            figure.savefig(tmp_path / "f.svg")
        assert len(legend(figure)) == 1


def test_nothing_yet_or_not_a_number():
    assert not plots.learning_curves({}, "RMSE").axes[0].lines
    plots.learning_curves({"unicornn": [table([np.nan, np.nan])]}, "RMSE").canvas.draw()
    plots.scatter(np.array([np.nan]), np.array([1.0])).canvas.draw()


def test_time_steps_are_sorted():
    figure = plots.time_steps(torch.tensor([[0.3, 0.1, 0.2], [0.01, 0.03, 0.02]]))
    assert [list(line.get_ydata()) for line in figure.axes[0].lines] == [
        pytest.approx([0.1, 0.2, 0.3]),
        pytest.approx([0.01, 0.02, 0.03]),
    ]
    assert figure.axes[0].get_yscale() == "log"


def test_weight_norms_are_means_over_runs_of_any_length():
    runs = [table([0, 0], w_norm_1=[1.0, 2.0], w_norm_2=[3.0, 3.0]), table([0], w_norm_1=[2.0], w_norm_2=[5.0])]
    figure = plots.weight_norms(runs)
    assert [list(line.get_ydata()) for line in figure.axes[0].lines] == [[1.5, 2.0], [4.0, 3.0]]
    assert legend(figure) == ["layer 1", "layer 2"]


def test_confusion():
    target, prediction = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0])
    figure = plots.confusion(target, prediction)
    axis = figure.axes[0]
    assert [text.get_text() for text in axis.texts] == ["1", "1", "0", "0", "1", "0", "1", "0", "0"]
    assert axis.images[0].get_array().tolist() == [[0.5, 0.5, 0], [0, 1, 0], [1, 0, 0]]
    assert not plots.confusion(np.arange(30), np.arange(30)).axes[0].texts


def test_confusion_of_named_classes(tmp_path):
    figure = plots.confusion(np.array([0, 2]), np.array([2, 2]), ["Änne", "bob", "a $name that is too long"])
    axis = figure.axes[0]
    shown = ["Änne", r"a \$name that …"]
    assert [label.get_text() for label in axis.get_xticklabels()] == shown
    assert [label.get_text() for label in axis.get_yticklabels()] == shown
    figure.savefig(tmp_path / "f.svg")  # no formula begins at the dollar


def test_scatter():
    figure = plots.scatter(np.array([60.0, 80.0]), np.array([61.0, 79.0]))
    (points,) = figure.axes[0].collections
    assert points.get_offsets().tolist() == [[60, 61], [80, 79]]
    assert points.get_rasterized()
    assert list(figure.axes[0].lines[0].get_xdata()) == [60, 80]


def test_plots_are_not_pyplots(tmp_path):
    plots.scatter(np.zeros(3), np.zeros(3)).savefig(tmp_path / "f.png")
    assert (tmp_path / "f.png").stat().st_size > 2000
    assert plt.get_fignums() == []


def looks(line):
    return line.get_color(), str(line.get_linestyle()), str(line._dash_pattern)


def test_no_two_of_many_lines_look_the_same(tmp_path):
    runs = {f"model {i}": [table([0.5, 0.6 + i / 100])] for i in range(30)}
    figure = plots.learning_curves(runs, "accuracy")
    assert len(set(map(looks, figure.axes[0].lines))) == 30
    layers = plots.time_steps(torch.rand(20, 8) + 0.1)
    assert len(set(map(looks, layers.axes[0].lines))) == 20
    norms = plots.weight_norms([table([0, 0], **{f"w_norm_{l}": [1.0, l] for l in range(1, 12)})])
    assert len(set(map(looks, norms.axes[0].lines))) == 11
    assert legend(figure) == list(runs)
    for drawn in (figure, layers, norms):
        with warnings.catch_warnings(action="error"):
            drawn.savefig(tmp_path / "f.svg")
