"""The plots about a search, made like those of ``unicornn.lab.report._plots``."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from unicornn.lab._study import Study
from unicornn.lab.report._plots import COLOURS, logarithmic, make_axes, plain

GREY = "#9aa1ab"


def values(study: Study) -> Figure:
    """The validation metric of each trial against its number, and the best so far; failed trials below.

    Example:
        >>> from unicornn.lab._metric import Metric
        >>> from unicornn.lab._study import Study, Trial
        >>> trials = [Trial(i, "complete", v, {}, 9.0, 5) for i, v in enumerate((0.5, 0.25, 0.75))]
        >>> accuracy = Metric("accuracy", more_is_better=True)
        >>> about = {"task": "mine", "title": "", "model": "unicornn", "variant": None, "seed": 0, "settings": {}}
        >>> how = {"sampler": "random", "pruner": "none", "asked": 50, "space": {}}
        >>> study = Study(metric=accuracy, trials=trials, **about, **how)
        >>> values(study).axes[0].lines[0].get_ydata()
        array([50., 50., 75.])
    """
    scale, percent = (100, " (%)") if study.metric.name == "accuracy" else (1, "")
    figure, axis = make_axes("trial", f"validation {plain(study.metric.name)}{percent}")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    done = [trial for trial in study.trials if trial.state == "complete" and trial.value is not None]
    if done:
        numbers, reached = [t.number for t in done], np.array([scale * float(t.value or 0) for t in done])
        better = study.metric.better
        best: list[float] = [*accumulate(reached.tolist(), lambda old, new: new if better(new, old) else old)]
        axis.plot(numbers, best, color=COLOURS[1], linewidth=1.6, drawstyle="steps-post", label="best so far")
        axis.plot(numbers, reached, "o", color=COLOURS[0], markersize=4.5, label="complete")
        if not percent and reached.min() > 0 and reached.max() > 10 * reached.min():
            logarithmic(axis, reached)
    stopped = [(t.number, scale * t.value) for t in study.trials if t.state == "pruned" and t.value is not None]
    if stopped:
        axis.plot(*zip(*stopped, strict=True), "o", color=GREY, markersize=4.5, fillstyle="none", label="pruned")
    failed = [trial.number for trial in study.trials if trial.state == "failed"]
    if failed:
        axis.plot(
            failed, [0.02] * len(failed), "x", color=GREY, markersize=5, label="failed",
            transform=axis.get_xaxis_transform(),
        )  # fmt: skip
    axis.legend(fontsize=9, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0)
    return figure


def importances(shares: Mapping[str, float]) -> Figure:
    """The parameters' shares in how the trials differ, as bars, the largest on top.

    Example:
        >>> figure = importances({"lr": 0.75, "dt": 0.25})
        >>> [round(bar.get_width()) for bar in figure.axes[0].patches]
        [25, 75]
    """
    figure, axis = make_axes("importance (%)", "")
    ordered = sorted(shares.items(), key=lambda item: item[1])
    bars = axis.barh([plain(name) for name, _ in ordered], [100 * share for _, share in ordered], color=COLOURS[0])
    axis.bar_label(bars, fmt="%.0f", padding=3, fontsize=9)
    axis.grid(visible=False, axis="y")
    axis.margins(x=0.08)
    return figure


def parallel_coordinates(study: Study) -> Figure:
    """Every complete trial as a line across its parameters, which ends at its validation metric.

    Example:
        >>> from unicornn.lab._metric import Metric
        >>> from unicornn.lab._study import Study, Trial
        >>> space = {"lr": {"low": 1e-4, "high": 1e-2, "log": True}, "batch_size": {"values": [16, 32]}}
        >>> trials = [Trial(0, "complete", 0.5, {"lr": 1e-3, "batch_size": 16}, 9.0, 5)]
        >>> accuracy = Metric("accuracy", more_is_better=True)
        >>> about = {"task": "mine", "title": "", "model": "unicornn", "variant": None, "seed": 0, "settings": {}}
        >>> how = {"sampler": "random", "pruner": "none", "asked": 50, "space": space}
        >>> study = Study(metric=accuracy, trials=trials, **about, **how)
        >>> parallel_coordinates(study).axes[0].lines[-1].get_ydata().round(2).tolist()
        [0.5, 0.0, 0.5]
    """
    scale, percent = (100, "\n(%)") if study.metric.name == "accuracy" else (1, "")
    figure, axis = make_axes("", "", (10, 3.9))
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    ranked = study.ranked()
    reached = [scale * float(trial.value or 0) for trial in ranked]
    spaces: dict[str, Mapping[str, Any]] = dict(study.space)
    ends = {"low": min(reached, default=0.0), "high": max(reached, default=1.0)}
    labels = [*map(plain, spaces), f"validation\n{plain(study.metric.name)}{percent}"]
    for x, space in enumerate([*spaces.values(), ends]):
        _upright(axis, x, space)
    colours = colormaps["Blues"](np.linspace(1.0, 0.25, max(len(ranked), 2)))
    for place in reversed(range(len(ranked))):  # the best on top
        trial = ranked[place]
        heights = [_height(space, trial.parameters[name]) for name, space in spaces.items()]
        style = {"color": "#c1272d", "linewidth": 2.4} if place == 0 else {"color": colours[place], "linewidth": 1.1}
        axis.plot(range(len(labels)), [*heights, _height(ends, reached[place])], alpha=0.95, **style)
    axis.set_xticks(range(len(labels)), labels)
    axis.tick_params(length=0)
    axis.set_yticks([])
    axis.set_xlim(-0.35, len(labels) - 0.6)
    axis.set_ylim(-0.04, 1.04)
    return figure


def _height(space: Mapping[str, Any], value: float) -> float:
    """Where a value is on its axis, from 0 to 1."""
    numbers = sorted(space.get("values", (space.get("low"), space.get("high"))))
    low, high = numbers[0], numbers[-1]
    if space.get("log") or ("values" in space and low > 0):
        low, high, value = (float(np.log(max(v, 1e-300))) for v in (low, high, value))
    return 0.5 if low == high else (value - low) / (high - low)


def _upright(axis: Axes, x: int, space: Mapping[str, Any]) -> None:
    """One axis with its numbers: the choices, powers of ten, or a few round numbers."""
    axis.axvline(x, 0.04 / 1.08, 1.04 / 1.08, color="#3b4452", linewidth=1, zorder=0)
    if "values" in space:
        ticks = list(space["values"])
    elif space.get("log"):
        low, high = np.log10(space["low"]), np.log10(space["high"])
        ticks = [space["low"], *(10.0**e for e in range(int(np.floor(low)) + 1, int(np.ceil(high)))), space["high"]]
        close = 0.06  # of the axis: two numbers would touch
        ticks = [t for t in ticks if t in ticks[:1] + ticks[-1:] or close < _height(space, t) < 1 - close]
    else:
        ticks = [t for t in MaxNLocator(5).tick_values(space["low"], space["high"]) if -1e-9 <= _height(space, t) <= 1]
    for tick in ticks:
        axis.text(
            x - 0.05, _height(space, tick), f"{tick:.3g}", ha="right", va="center", fontsize=8, color="#3b4452",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.75}, zorder=5,
        )  # fmt: skip
