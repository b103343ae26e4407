"""The plots of a report: one function each, from plain arrays and tables to a matplotlib figure.

They are made without pyplot, so nothing is global and nothing has to be closed: ``figure.savefig("curve.png")``.
Labels may come from files: they are drawn as they are, never read as formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from torch import Tensor

from unicornn import _checks as checks

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#8c613c")
NARROW, LONGEST = 24, 14  # letters side by side below a confusion matrix, and of one name
MOST_NUMBERED = 12  # classes: above, the numbers in a confusion matrix are too small to be read
TIMES = ((2 * 3600, 3600, "hours"), (2 * 60, 60, "minutes"), (0, 1, "seconds"))  # from how many on, in which unit


def make_axes(x: str, y: str, size: tuple[float, float] = (4.8, 3.3)) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    axis = figure.add_subplot(xlabel=x, ylabel=y)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(color="#e4e4e4", linewidth=0.8)
    axis.set_axisbelow(True)
    if x.startswith(("epoch", "neuron")):
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure, axis


def plain(text: str) -> str:
    """A label that has no formula, is in the font, and is not hidden by a leading underscore."""
    text = text.encode("ascii", "backslashreplace").decode().replace("$", r"\$")
    text = text if len(text) <= 48 else text[:47] + "..."
    return f" {text}" if text.startswith("_") else text


def style(i: int) -> dict[str, Any]:
    """Colour and dashes of line number i of a plot: no two lines look the same, however many there are.

    Example:
        >>> style(1), style(9)["linestyle"], style(17)["linestyle"]
        ({'color': '#d55e00', 'linestyle': '-'}, (0, (5, 2)), (0, (5, 2, 1, 2)))
    """
    dots, colour = divmod(i, len(COLOURS))
    return {"color": COLOURS[colour], "linestyle": (0, (5, 2) + (1, 2) * (dots - 1)) if dots else "-"}


def legend(figure: Figure, axis: Axes, lines: Sequence[Artist], labels: Sequence[str]) -> None:
    """Within the axes, or beside them if it has many entries."""
    if len(labels) <= len(COLOURS):
        axis.legend(lines, labels, fontsize=9, frameon=False)
        return
    width, height = figure.get_size_inches()
    figure.set_size_inches(width + 2.4, max(height, 0.5 + 0.16 * len(labels)))
    beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1, 1), "borderaxespad": 0, "handlelength": 3}
    axis.legend(lines, labels, fontsize=8, frameon=False, **beside)


def logarithmic(axis: Axes, values: np.ndarray) -> None:
    """A logarithmic y axis whose ticks are plain numbers, and numerous enough if it spans little."""
    axis.set_yscale("log")
    low, high = float(values.min()), float(values.max())
    if high < 3 * low:
        axis.set_yticks([tick for tick in MaxNLocator(5).tick_values(low, high) if tick > 0])
    elif high < 200 * low:
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.yaxis.set_minor_formatter(NullFormatter())


def learning_curves(
    runs: Mapping[str, Sequence[pd.DataFrame]],
    metric: str,
    against: str = "epoch",
    reference: pd.DataFrame | None = None,
) -> Figure:
    """The validation metric during training, one colour per label, one line per run.

    Args:
        runs: for each label, tables with the columns ``epoch``, ``seconds`` (since the start) and ``valid``.
        metric: "accuracy" is shown in percent, anything else (an error) on a logarithmic axis.
        against: "epoch" or "seconds".
        reference: a table with ``epoch`` and ``valid``, drawn as the authors' own run; epochs are on a logarithmic
            axis if it is much longer.

    Example:
        >>> import pandas as pd
        >>> run = pd.DataFrame({"epoch": [1, 2], "seconds": [9.0, 18.0], "valid": [0.5, 0.75]})
        >>> learning_curves({"unicornn": [run]}, "accuracy").axes[0].lines[0].get_ydata()
        array([50., 75.])
    """
    checks.choice("against", against, ("epoch", "seconds"))
    percent = metric == "accuracy"
    tables = [run for each in runs.values() for run in each]
    longest = max((float(run[against].max()) for run in tables if run[against].notna().any()), default=1.0)
    unit, name = 1, "epoch"
    if against == "seconds":
        unit, name = next((unit, name) for least, unit, name in TIMES if longest >= least)
    figure, axis = make_axes(name, f"validation {plain(metric)}" + (" (%)" if percent else ""))
    lines, labels = [], []
    if reference is not None:
        valid = reference["valid"] * (100 if percent else 1)
        lines += axis.plot(reference["epoch"], valid, color="#808080", linewidth=1.0, linestyle=(0, (4, 2)))
        labels.append("authors' own run")
        if reference["epoch"].max() > 4 * longest:  # else ours would be a stroke at the left
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    for i, (label, each) in enumerate(runs.items()):
        for j, run in enumerate(each):
            valid, marker = run["valid"] * (100 if percent else 1), "o" if len(run) < 3 else ""
            line = axis.plot(run[against] / unit, valid, linewidth=1.4, alpha=0.9, marker=marker, **style(i))
            if j == 0:
                lines, labels = lines + line, [*labels, plain(label)]
    drawn = np.concatenate([[], *(np.asarray(line.get_ydata(), dtype=float) for line in axis.lines)])
    drawn = drawn[np.isfinite(drawn)]
    if not percent and len(drawn) and drawn.min() > 0:
        logarithmic(axis, drawn)
    if lines:
        legend(figure, axis, lines, labels)
    return figure


def time_steps(a: Tensor | Sequence[Tensor]) -> Figure:
    """Fig. 5: the effective time steps Δt·σ̂(c) of every layer's neurons, sorted.

    Args:
        a: (L, m), as ``functional.time_steps`` or ``UnICORNN.time_steps`` returns it.

    Example:
        >>> from unicornn import UnICORNN
        >>> len(time_steps(UnICORNN(1, 8, num_layers=3).time_steps()).axes[0].lines)
        3
    """
    figure, axis = make_axes("neuron, sorted", "effective time step Δt σ̂(c)")
    layers = [layer.detach().double().sort().values.cpu().numpy() for layer in a]
    for l, layer in enumerate(layers):
        axis.plot(np.arange(1, len(layer) + 1), layer, **style(l))
    logarithmic(axis, np.concatenate(layers))
    legend(figure, axis, axis.lines, [f"layer {l + 1}" for l in range(len(layers))])
    return figure


def weight_norms(runs: Sequence[pd.DataFrame]) -> Figure:
    """Fig. 7: the norms ‖wˡ‖ of each layer during training, mean and deviation over the runs.

    Args:
        runs: tables with the columns ``epoch`` and ``w_norm_1``, ``w_norm_2``, ...

    Example:
        >>> import pandas as pd
        >>> run = pd.DataFrame({"epoch": [1, 2], "w_norm_1": [1.0, 1.5]})
        >>> weight_norms([run, run]).axes[0].lines[0].get_ydata()
        array([1. , 1.5])
    """
    figure, axis = make_axes("epoch", r"$\Vert w\Vert_\infty$")
    by_epoch = pd.concat(runs).groupby("epoch")
    names = sorted((name for name in runs[0] if name.startswith("w_norm_")), key=lambda name: int(name[7:]))
    for l, name in enumerate(names):
        mean, deviation = by_epoch[name].mean(), by_epoch[name].std().fillna(0)
        axis.plot(mean.index, mean, marker="o" if len(mean) < 3 else "", **style(l))
        colour = style(l)["color"]
        axis.fill_between(mean.index, mean - deviation, mean + deviation, color=colour, alpha=0.2, linewidth=0)
    axis.set_ylim(bottom=0)
    legend(figure, axis, axis.lines, [f"layer {l + 1}" for l in range(len(names))])
    return figure


def confusion(target: np.ndarray, prediction: np.ndarray, names: Sequence[str] | None = None) -> Figure:
    """How often each class (row) was taken for each other (column): counts, coloured by their share of the row.

    Args:
        target, prediction: (n,) integers.
        names: of the classes, by their numbers; None for the numbers themselves.

    Example:
        >>> import numpy as np
        >>> figure = confusion(np.array([0, 0, 1]), np.array([0, 1, 1]))
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['1', '1', '0', '1']
    """
    classes, index = np.unique(np.concatenate([target, prediction]), return_inverse=True)
    k, n = len(classes), len(target)
    counts = np.zeros((k, k), dtype=np.int64)
    np.add.at(counts, (index[:n], index[n:]), 1)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    figure, axis = make_axes("predicted class", "true class", (4.6, 4.2))
    axis.grid(False)
    image = axis.imshow(share, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    figure.colorbar(image, label="share of the true class", shrink=0.8)
    if k <= MOST_NUMBERED:
        shown = [f"{c:g}" if names is None else _tick(names[int(c)]) for c in classes]
        axis.set_xticks(range(k), shown, rotation=0 if sum(map(len, shown)) <= NARROW else 90)
        axis.set_yticks(range(k), shown)
        for (row, column), count in np.ndenumerate(counts):
            colour = "white" if share[row, column] > 0.5 else "#333333"
            axis.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=11 - 0.4 * k)
    return figure


def _tick(name: str) -> str:
    """A name beside an axis: not too long, and no formula."""
    return (name if len(name) <= LONGEST else name[: LONGEST - 1] + "…").replace("$", r"\$")


def scatter(target: np.ndarray, prediction: np.ndarray) -> Figure:
    """Prediction against target; the diagonal is where they agree. The points are pixels in an SVG too.

    Args:
        target, prediction: (n,) or (n, k) numbers.

    Example:
        >>> import numpy as np
        >>> figure = scatter(np.array([60.0, 80.0]), np.array([61.0, 79.0]))
        >>> len(figure.axes[0].collections[0].get_offsets())
        2
    """
    target, prediction = np.ravel(target), np.ravel(prediction)
    figure, axis = make_axes("target", "prediction", (4.6, 4.2))
    many = len(target) > 500
    axis.scatter(
        target, prediction, s=6 if many else 16, color=COLOURS[0], alpha=0.35 if many else 0.7, linewidths=0,
        rasterized=True,
    )  # fmt: skip
    finite = np.concatenate([target, prediction])
    finite = finite[np.isfinite(finite)]
    if len(finite):
        ends = float(finite.min()), float(finite.max())
        axis.plot(ends, ends, color="#808080", linewidth=1, linestyle="--")
    axis.set_aspect("equal", adjustable="datalim")
    return figure
