"""The chart of a bench: bars of time and memory, one group per model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

COLOURS = ("#56b4e9", "#0072b2", "#009e73", "#e69f00", "#d55e00", "#cc79a7")


def chart(result: Mapping[str, Any]) -> Figure:
    """Two panels: the time of a training step relative to UnICORNN's, and its memory. The fastest model is on top.

    Example:
        >>> own = {"layers": 1, "time": {"9": {"ms": 8.0, "ratio": 2.0, "rounds": 3}}, "memory": {"9": 1.5}}
        >>> figure = chart({"sizes": {"N": [9], "b": 1, "d": 2, "m": 3}, "models": {"lstm": own}})
        >>> [float(axis.patches[0].get_width()) for axis in figure.axes]
        [2.0, 1.5]
    """
    sizes, models = result["sizes"], result["models"]
    lengths = [str(N) for N in sizes["N"]]
    names = fastest_first(result)
    labels = [f"{name}, L={models[name]['layers']}" for name in names]
    panels = {
        "time of a training step, UnICORNN (store) = 1": lambda own, N: own["time"].get(N, {}).get("ratio"),
        "memory of a training step, MiB": lambda own, N: own["memory"].get(N),
    }
    figure = Figure(figsize=(10, 1.6 + 0.32 * len(names)), layout="constrained", facecolor="white")
    figure.suptitle(f"Forward and backward pass, b={sizes['b']}, d={sizes['d']}, m={sizes['m']}", fontsize="medium")
    axes = figure.subplots(1, 2, sharey=True)
    place, height = np.arange(len(names)), 0.8 / len(lengths)
    for axis, (title, value) in zip(axes, panels.items(), strict=True):
        for i, N in enumerate(lengths):
            found = [value(models[name], N) for name in names]
            widths = [v or 0.0 for v in found]
            at = place + (i - (len(lengths) - 1) / 2) * height
            bars = axis.barh(at, widths, 0.95 * height, color=COLOURS[i % len(COLOURS)], label=f"N={N}")
            words = ["failed" if v is None else f"{v:.3g}" if v < 100 else f"{v:,.0f}" for v in found]
            axis.bar_label(bars, words, padding=2, fontsize=7)
        axis.set_xlabel(title)
        axis.set_yticks(place, labels, fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="x", color="#e4e4e4", linewidth=0.8)
        axis.set_axisbelow(True)
        axis.margins(x=0.12)
        widest = max(bar.get_width() for bar in axis.patches)
        if widest > 30 * np.median([bar.get_width() for bar in axis.patches]) > 0:  # one would hide all others
            axis.set_xscale("log")
    axes[0].axvline(1.0, color="#808080", linewidth=1, linestyle="--")
    axes[0].invert_yaxis()
    axes[1].legend(frameon=False, fontsize=9)
    return figure


def fastest_first(result: Mapping[str, Any]) -> list[str]:
    """The names of the models, by their time relative to UnICORNN's at the shortest length.

    Example:
        >>> gru, sru = ({"time": {"9": {"ratio": ratio}}} for ratio in (8.0, 2.0))
        >>> fastest_first({"sizes": {"N": [9]}, "models": {"gru": gru, "lem": {"time": {}}, "sru": sru}})
        ['sru', 'gru', 'lem']
    """
    N, models = str(result["sizes"]["N"][0]), result["models"]
    return sorted(models, key=lambda name: models[name]["time"].get(N, {}).get("ratio", np.inf))
