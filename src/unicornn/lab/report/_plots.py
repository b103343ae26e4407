"""The plots of a report: functions from arrays and tables to a matplotlib figure.

Ours are made without pyplot, so there is no global state: ``figure.savefig("curve.png")``. Labels may come from files:
they are drawn literally, never parsed as formulas.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from cycler import cycler
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from sklearn.metrics import confusion_matrix
from torch import Tensor

from unicornn.lab._study import metric_of, quiet_optuna, ranked
from unicornn.lab.report._render import Plot

if TYPE_CHECKING:
    import optuna

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#8c613c")
DASHES = ["-", *((0, (5, 2) + (1, 2) * dots) for dots in range(5))]
STYLES: list[dict[str, Any]] = list(cycler(linestyle=DASHES) * cycler(color=COLOURS))  # of the lines of a plot
HORIZONTAL_LETTERS, LONGEST_NAME = 24, 14  # letters below a confusion matrix: in one row, in one class name
CONFIDENCE_BINS = 10  # of a calibration error
MOST_NUMBERED = 12  # classes: with more, the numbers in a confusion matrix would be too small to read
TIME_UNITS = ((2 * 3600, 3600, "hours"), (2 * 60, 60, "minutes"), (0, 1, "seconds"))  # from, seconds per unit, name
IMPORTANCE_TRIALS = 10  # complete trials from which importances are estimated


def make_axes(x: str, y: str, size: tuple[float, float] = (4.8, 3.3)) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    axis = figure.add_subplot(xlabel=x, ylabel=y)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(color="#e4e4e4", linewidth=0.8)
    axis.set_axisbelow(True)
    if x.startswith(("epoch", "neuron")):
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure, axis


def _literal_label(text: str, longest: int = 48) -> str:
    """A label without formulas."""
    return (text if len(text) <= longest else text[: longest - 1] + "…").replace("$", r"\$")


def _add_legend(figure: Figure, axis: Axes, lines: Sequence[Artist], labels: Sequence[str]) -> None:
    """Adds a legend inside the axes, or next to them if it has many entries."""
    if len(labels) <= len(COLOURS):
        axis.legend(lines, labels, fontsize=9, frameon=False)
    else:
        width, height = figure.get_size_inches()
        figure.set_size_inches(width + 2.4, max(height, 0.5 + 0.16 * len(labels)))
        figure.legend(lines, labels, fontsize=8, frameon=False, handlelength=3, loc="outside right upper")


def learning_curves(
    runs: Mapping[str, Sequence[pd.DataFrame]],
    metric: str,
    against: str = "epoch",
    constant: float | None = None,
) -> Figure:
    """The metric ``valid`` during training against "epoch" or "seconds", one colour per label, one line per run.

    Accuracies are shown in percent, errors on a logarithmic axis, ``constant`` as a horizontal line.
    """
    scale, percent = (100, " (%)") if metric == "accuracy" else (1, "")
    longest = max((run[against].max() for same_label in runs.values() for run in same_label), default=1.0)
    unit, name = 1, "epoch"
    if against == "seconds":
        unit, name = next((unit, name) for least, unit, name in TIME_UNITS if longest >= least)
    figure, axis = make_axes(name, f"validation {_literal_label(metric)}{percent}")
    lines: list[Artist] = []
    for (_, same_label), style in zip(runs.items(), itertools.cycle(STYLES)):
        for run in same_label:
            marker = "o" if len(run) < 3 else ""
            drawn = axis.plot(run[against] / unit, scale * run["valid"], marker=marker, linewidth=1.4, **style)
        lines += drawn
    labels = [_literal_label(label) for label in runs]
    if constant is not None:
        lines.append(axis.axhline(scale * constant, color="#808080", linewidth=1, linestyle=":"))
        labels.append("constant prediction")
    if not percent:
        axis.set_yscale("log")
    if lines:
        _add_legend(figure, axis, lines, labels)
    return figure


def time_steps(a: Tensor | Sequence[Tensor]) -> Figure:
    """Fig. 5: the effective time steps Δt·σ̂(c) (L, m) of each layer's neurons, sorted."""
    figure, axis = make_axes("neuron, sorted", "effective time step Δt σ̂(c)")
    for layer, style in zip(a, itertools.cycle(STYLES)):
        axis.plot(np.arange(1, len(layer) + 1), layer.detach().sort().values.cpu().numpy(), **style)
    axis.set_yscale("log")
    _add_legend(figure, axis, axis.lines, [f"layer {l + 1}" for l in range(len(a))])
    return figure


def weight_norms(runs: Sequence[pd.DataFrame]) -> Figure:
    """Fig. 7: the norms ‖wˡ‖ of each layer during training (``w_norm_1``, ...), mean and deviation over the runs."""
    figure, axis = make_axes("epoch", r"$\Vert w\Vert_\infty$")
    norms = pd.concat(runs).set_index("epoch").filter(regex="^w_norm_").groupby("epoch")
    mean, deviation = norms.mean(), norms.std().fillna(0)
    for name, style in zip(mean, itertools.cycle(STYLES)):
        axis.plot(mean.index, mean[name], marker="o" if len(mean) < 3 else "", **style)
        low, high = mean[name] - deviation[name], mean[name] + deviation[name]
        axis.fill_between(mean.index, low, high, color=style["color"], alpha=0.2, linewidth=0)
    axis.set_ylim(bottom=0)
    _add_legend(figure, axis, axis.lines, [f"layer {l + 1}" for l in range(len(axis.lines))])
    return figure


def confusion(target: np.ndarray, prediction: np.ndarray, names: Sequence[str] | None = None) -> Figure:
    """Confusion matrix of integer classes (n,): counts by true (row) and predicted class, coloured by their share."""
    classes = np.union1d(target, prediction)
    k, counts = len(classes), confusion_matrix(target, prediction, labels=classes)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    figure, axis = make_axes("predicted class", "true class", (4.6, 4.2))
    axis.grid(False)
    image = axis.imshow(share, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    figure.colorbar(image, label="share of the true class", shrink=0.8)
    if k <= MOST_NUMBERED:
        labels = [f"{c:g}" if names is None else _literal_label(names[int(c)], LONGEST_NAME) for c in classes]
        axis.set_xticks(range(k), labels, rotation=0 if sum(map(len, labels)) <= HORIZONTAL_LETTERS else 90)
        axis.set_yticks(range(k), labels)
        for (row, column), count in np.ndenumerate(counts):
            colour = "white" if share[row, column] > 0.5 else "#333333"
            axis.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=11 - 0.4 * k)
    return figure


def scatter(target: np.ndarray, prediction: np.ndarray) -> Figure:
    """Prediction against target, (n,) or (n, k), with the diagonal. The points are rasterised, also in an SVG."""
    target, prediction = np.ravel(target), np.ravel(prediction)
    figure, axis = make_axes("target", "prediction", (4.6, 4.2))
    size, alpha = (6, 0.35) if len(target) > 500 else (16, 0.7)
    axis.scatter(target, prediction, s=size, color=COLOURS[0], alpha=alpha, linewidths=0, rasterized=True)
    finite = np.concatenate([target, prediction])
    finite = finite[np.isfinite(finite)]
    if len(finite):
        ends = float(finite.min()), float(finite.max())
        axis.plot(ends, ends, color="#808080", linewidth=1, linestyle="--")
    axis.set_aspect("equal", adjustable="datalim")
    return figure


def calibration_bins(confidence: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean confidence, accuracy and number of predictions (n,) in each of ten intervals with any.

    Example:
        >>> import numpy as np
        >>> from unicornn.lab.report._plots import calibration_bins
        >>> [each.tolist() for each in calibration_bins(np.array([0.5, 0.5, 1.0]), np.array([True, False, True]))]
        [[0.5, 1.0], [0.5, 1.0], [2, 1]]
    """
    bins = np.minimum((confidence * CONFIDENCE_BINS).astype(int), CONFIDENCE_BINS - 1)
    _, bins, counts = np.unique(bins, return_inverse=True, return_counts=True)
    return np.bincount(bins, confidence) / counts, np.bincount(bins, correct) / counts, counts


def calibration_error(confidence: np.ndarray, correct: np.ndarray) -> float:
    """Expected calibration error: mean difference between confidence and accuracy over the bins of predictions (n,)."""
    mean, accuracy, counts = calibration_bins(confidence, correct)
    return float(counts @ np.abs(accuracy - mean) / counts.sum())


def reliability(confidence: np.ndarray, correct: np.ndarray) -> Figure:
    """Accuracy against the probability of the predicted class (n,), with two standard errors and the diagonal."""
    mean, accuracy, counts = calibration_bins(confidence, correct)
    figure, axis = make_axes("probability of the predicted class", "share that is correct", (4.6, 4.2))
    axis.plot([0, 1], [0, 1], color="#808080", linewidth=1, linestyle="--")
    centre, n = (accuracy * counts + 2) / (counts + 4), counts + 4  # Agresti and Coull: errors at 0 and 1 as well
    error = 2 * np.sqrt(centre * (1 - centre) / n)
    bounds = np.abs(np.clip([centre - error, centre + error], 0, 1) - accuracy)
    axis.errorbar(mean, accuracy, bounds, color=COLOURS[0], marker="o", linewidth=1.2, capsize=2)
    for x, y, count in zip(mean, accuracy, counts, strict=True):
        axis.annotate(f"{count:,}", (x, y), (5, -11), textcoords="offset points", fontsize=8, color="#555555")
    axis.set(xlim=(0, 1.04), ylim=(0, 1.04), aspect="equal")
    return figure


def series_examples(series: Sequence[np.ndarray], titles: Sequence[str], channels: Sequence[str]) -> Figure:
    """Small plots of series (N, d) next to each other, one colour per channel, of which the first eight are drawn."""
    columns = min(2, len(series))
    rows = -(-len(series) // columns)
    figure = Figure(figsize=(4.8, 0.4 + 1.3 * rows), layout="constrained", facecolor="white")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, x, title in zip(axes, series, titles, strict=False):
        drawn = slice(None, None, max(1, len(x) // 1000))
        axis.set_prop_cycle(color=COLOURS)
        axis.plot(np.arange(1, len(x) + 1)[drawn], x[drawn, : len(COLOURS)], linewidth=0.8)
        axis.set_title(_literal_label(title, 30), fontsize=8)
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[len(series) :]:
        axis.set_visible(False)
    labels = [_literal_label(name, 24) for name in channels]
    figure.legend(axes[0].lines, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def study_plots(study: optuna.Study) -> list[Plot]:
    """Optuna's plots of a search; none before the first complete trial."""
    complete = len(ranked(study))
    if not complete:
        return []
    from optuna.importance import FanovaImportanceEvaluator
    from optuna.visualization import matplotlib as draw

    name = f"validation {metric_of(study).name}"
    label, names = _literal_label(name), list(study.user_attrs["plan"]["space"])
    history = _pyplot_figure(lambda: draw.plot_optimization_history(study, target_name=label))
    plots = [Plot(history, f"V{name[1:]} of the complete trials in order, and the best so far.")]
    if complete >= IMPORTANCE_TRIALS and len(names) > 1:
        evaluator = FanovaImportanceEvaluator(seed=0)
        importances = _pyplot_figure(lambda: draw.plot_param_importances(study, evaluator, target_name=label))
        plots.append(Plot(importances, "Importance of the parameters: their share of the variance (fANOVA)."))
    if complete > 1:
        lines = _pyplot_figure(lambda: draw.plot_parallel_coordinate(study, names, target_name=label), (10, 3.9))
        plots.append(Plot(lines, "The complete trials, one line each: the darker, the better.", wide=True))
    return plots


def _pyplot_figure(draw: Callable[[], Axes], size: tuple[float, float] = (4.8, 3.3)) -> Figure:
    """The figure of a function that uses pyplot, without changes to pyplot's figures and settings."""
    import matplotlib.pyplot as plt

    with quiet_optuna(), mpl.rc_context({"figure.constrained_layout.use": True}):
        figure = draw().get_figure(root=True)
    assert figure is not None
    figure.set_size_inches(size)
    plt.close(figure)
    return figure
