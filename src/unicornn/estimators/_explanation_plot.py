"""The plot of an explanation; imports matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unicornn.estimators._explanation import Explanation

MOST_CHANNELS = 6  # drawn, those with the largest contributions
MOST_BINS = 600  # drawn; contributions of longer series are sums over several steps
COLOURS = "RdBu"  # from evidence against to evidence for
FOR, AGAINST = "#2166ac", "#b2182b"


def draw(explanation: Explanation, i: int, output: int) -> Figure:
    """Series i on a background of evidence for an output, the octaves below, and sums by octave and view."""
    x = explanation.series[i]
    evidence = explanation.evidence(explanation.samples[i, : len(x)], output)  # (N, d)
    shown = np.sort(np.argsort(-np.abs(evidence).sum(0), kind="stable")[:MOST_CHANNELS])
    has_windows = bool(explanation.windows[i])
    heights = [1.0] * len(shown) + [1.2] * has_windows
    figure = Figure(figsize=(9.6, 0.6 + 1.4 * sum(heights)), layout="constrained", facecolor="white")
    grid = figure.add_gridspec(len(heights), 2, height_ratios=heights, width_ratios=[3, 1])
    edges = np.unique(np.linspace(0, len(x), min(len(x), MOST_BINS) + 1).astype(int))
    binned = np.add.reduceat(evidence[:, shown], edges[:-1]).T
    limit = np.abs(binned).max() or 1.0
    axis: Any = None
    for row, channel in enumerate(shown):
        axis = figure.add_subplot(grid[row, 0], sharex=axis)
        _line(axis, x[:, channel], edges)
        _background(axis, binned[row : row + 1], edges, limit, axis.get_ylim())
        axis.set_ylabel(literal(explanation.channel_names[channel], 16), fontsize=8)
    if has_windows:
        lengths, table = _octaves(explanation, i, output, edges)
        axis = figure.add_subplot(grid[-1, 0], sharex=axis)
        _background(axis, table, edges, np.abs(table).max() or 1.0, (-0.5, len(lengths) - 0.5))
        axis.set_yticks(range(len(lengths)), [f"{length:,}" for length in lengths])
        axis.set_ylabel("window", fontsize=8)
        octaves = {f"{length:,}": each[i] for length, each in explanation.octaves.items()}
        _bars(figure.add_subplot(grid[-1, 1]), explanation, octaves, output)
    axis.set_xlabel("step", fontsize=8)
    views = {name: each[i] for name, each in explanation.views.items()}
    side = figure.add_subplot(grid[: len(shown), 1])
    _bars(side, explanation, views, output)
    name, score = explanation.outputs[output], explanation.scores[i, output]
    side.set_title(literal(f"{'evidence for ' if explanation.classify else 'target '}{name} ({score:.3g})"), fontsize=8)
    for each in figure.axes:
        each.tick_params(labelsize=7)
    return figure


def literal(text: str, longest: int = 40) -> str:
    """A label that matplotlib does not parse as a formula."""
    return (text if len(text) <= longest else text[: longest - 1] + "…").replace("$", r"\$")


def _line(axis: Axes, x: np.ndarray, edges: np.ndarray) -> None:
    """A series (N,); of a long one, the range within each bin."""
    if len(x) < 2 * len(edges):
        axis.plot(np.arange(1, len(x) + 1), x, color="black", linewidth=0.9)
    else:
        low, high = np.minimum.reduceat(x, edges[:-1]), np.maximum.reduceat(x, edges[:-1])
        axis.fill_between((edges[:-1] + edges[1:] + 1) / 2, low, high, color="black", linewidth=0.5)


def _background(axis: Axes, table: np.ndarray, edges: np.ndarray, limit: float, vertical: tuple[float, float]) -> None:
    """Evidence (rows, bins) as colours, from the top to the bottom of the axes."""
    rows = np.linspace(*vertical, len(table) + 1)
    axis.pcolormesh(edges + 0.5, rows, table, cmap=COLOURS, vmin=-limit, vmax=limit, zorder=0, rasterized=True)
    axis.set_ylim(vertical)
    axis.set_xlim(edges[0] + 0.5, edges[-1] + 0.5)


def _octaves(explanation: Explanation, i: int, output: int, edges: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Lengths of the windows, and the evidence of each octave by bin, each window's spread evenly over its steps."""
    rows: dict[int, np.ndarray] = {}
    for windows in explanation.windows[i]:
        evidence = explanation.evidence(windows.contributions, output)
        end = np.minimum(windows.begin + windows.length, edges[-1])
        rate = np.bincount(windows.begin, evidence / (end - windows.begin), edges[-1] + 1)
        rate -= np.bincount(end, evidence / (end - windows.begin), edges[-1] + 1)
        row = np.add.reduceat(rate.cumsum()[:-1], edges[:-1])
        rows[windows.length] = rows.get(windows.length, 0) + row
    lengths = sorted(rows)
    return lengths, np.stack([rows[length] for length in lengths])


def _bars(axis: Axes, explanation: Explanation, groups: Mapping[str, np.ndarray], output: int) -> None:
    """Sums of evidence by group."""
    sums = [float(explanation.evidence(each, output)) for each in groups.values()]
    axis.barh(range(len(sums)), sums, color=[FOR if each > 0 else AGAINST for each in sums])
    axis.set_yticks(range(len(sums)), [name.replace("_", " ") for name in groups])
    axis.axvline(0, color="black", linewidth=0.8)
    axis.spines[["top", "right"]].set_visible(False)
