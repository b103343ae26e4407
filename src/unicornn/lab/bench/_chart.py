"""The chart of a bench: bars of time and memory, one group per model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

COLOURS = ("#56b4e9", "#0072b2", "#009e73", "#e69f00", "#d55e00", "#cc79a7")


def chart(result: Mapping[str, Any]) -> Figure:
    """Time of a training step relative to UnICORNN's, and its memory; fastest model on top."""
    sizes, models = result["sizes"], {name: result["models"][name] for name in fastest_first(result)}
    labels = [f"{name}, L={model['layers']}" for name, model in models.items()]
    panels = {
        "time of a training step, UnICORNN (stored) = 1": lambda model, N: model["time"].get(N, {}).get("ratio"),
        "memory of a training step, MiB": lambda model, N: model["memory"].get(N),
    }
    figure = Figure(figsize=(10, 1.6 + 0.32 * len(models)), layout="constrained", facecolor="white")
    figure.suptitle(f"Forward and backward pass, b={sizes['b']}, d={sizes['d']}, m={sizes['m']}", fontsize="medium")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, (title, value) in zip(axes, panels.items(), strict=True):
        columns = {f"N={N}": [value(model, str(N)) for model in models.values()] for N in sizes["N"]}
        table = pd.DataFrame(columns, index=labels, dtype=float)
        table.plot.barh(ax=axis, width=0.8, color=COLOURS, legend=False, xlabel=title, fontsize=9)
        for bars, numbers in zip(axis.containers, columns.values(), strict=True):
            texts = ["failed" if v is None else f"{v:.3g}" if v < 100 else f"{v:,.0f}" for v in numbers]
            axis.bar_label(bars, texts, padding=2, fontsize=7)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="x", color="#e4e4e4", linewidth=0.8)
        axis.set_axisbelow(True)
        axis.margins(x=0.12)
        if table.max(axis=None) > 30 * table.stack().median() > 0:  # otherwise one bar would hide the others
            axis.set_xscale("log")
    axes[0].axvline(1.0, color="#808080", linewidth=1, linestyle="--")
    axes[0].invert_yaxis()
    axes[1].legend(frameon=False, fontsize=9)
    return figure


def fastest_first(result: Mapping[str, Any]) -> list[str]:
    """The names of the models, by their time relative to UnICORNN's at the shortest length; failed ones last."""
    N, models = str(result["sizes"]["N"][0]), result["models"]
    return sorted(models, key=lambda name: models[name]["time"].get(N, {}).get("ratio", np.inf))
