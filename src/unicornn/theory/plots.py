"""Plots of what ``unicornn.theory`` computes, as data; ``Plot.draw`` needs matplotlib.

Example:
    >>> from unicornn import UnICORNN
    >>> from unicornn.theory import plots
    >>> plot = plots.time_steps(UnICORNN(2, 8, num_layers=3))
    >>> [line.label for line in plot.panels[0].lines]
    ['layer 1', 'layer 2', 'layer 3']
    >>> figure = plot.draw()
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from unicornn import theory
from unicornn._layer import UnICORNN
from unicornn.theory._growth import LOG_LARGEST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LN10 = math.log(10)
_MAX_POINTS = 1000  # of a line


@dataclass(frozen=True)
class Line:
    """A line through the points (x, y); ``style`` are matplotlib's options.

    Example:
        >>> Line("bound", [0, 1], [2.0, 3.0]).label
        'bound'
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """Axes with lines. ``axes`` are matplotlib's settings; ``vertical`` and ``horizontal`` are marks with a label.

    Example:
        >>> Panel("step", "energy", [Line("H", [0, 1], [2.0, 2.0])]).x
        'step'
    """

    x: str
    y: str
    lines: Sequence[Line]
    axes: Mapping[str, Any] = field(default_factory=dict)
    vertical: tuple[float, str] | None = None
    horizontal: tuple[float, str] | None = None


@dataclass(frozen=True)
class Plot:
    """One or several panels side by side.

    Example:
        >>> from unicornn.theory.plots import Line, Panel, Plot
        >>> plot = Plot("Squares", [Panel("x", "x²", [Line("squares", [1, 2, 3], [1, 4, 9])])])
        >>> [axis.get_xlabel() for axis in plot.draw().axes]
        ['x']
    """

    title: str
    panels: Sequence[Panel]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Plot:
        """Plot from the result of ``dataclasses.asdict``, also after a round trip through JSON."""
        panels = [{**panel, "lines": [Line(**line) for line in panel["lines"]]} for panel in values["panels"]]
        return cls(values["title"], [Panel(**panel) for panel in panels])

    def draw(self) -> Figure:
        """Matplotlib figure that is not registered with pyplot and need not be closed."""
        from matplotlib.figure import Figure

        count = len(self.panels)
        figure = Figure(figsize=(5.2 * count, 3.6), layout="constrained", facecolor="white")
        figure.suptitle(self.title)
        for axis, panel in zip(figure.subplots(1, count, squeeze=False)[0], self.panels, strict=True):
            for line in panel.lines:
                axis.plot(line.x, line.y, label=line.label, **line.style)
            if panel.vertical is not None:
                axis.axvline(panel.vertical[0], color="grey", linestyle=":", label=panel.vertical[1])
            if panel.horizontal is not None:
                axis.axhline(panel.horizontal[0], color="black", linewidth=0.8, label=panel.horizontal[1] or None)
            axis.set(xlabel=panel.x, ylabel=panel.y, **panel.axes)
            axis.grid(alpha=0.3)
        figure.axes[0].legend()
        return figure


def _line(label: str, values: Tensor, x: Tensor | None = None, **style: Any) -> Line:
    """Line through values (N,), against 1, …, N unless x is given, thinned to at most ``_MAX_POINTS``."""
    x = torch.arange(1, len(values) + 1) if x is None else x
    stride = max(1, -(-len(values) // _MAX_POINTS))
    points = [[float(f"{v:.6g}") for v in t.detach().cpu()[::stride].tolist()] for t in (x, values)]
    return Line(label, points[0], points[1], style)


def energy(layer: UnICORNN, input: Tensor, state: Any = None) -> Plot:
    """Energy of the first layer along a run, Eq. (4), relative to its first value; and that of explicit Euler.

    Example:
        >>> plot = energy(UnICORNN(2, 8), torch.ones(50, 1, 2))
        >>> [line.label for line in plot.panels[0].lines]
        ['symplectic Euler: UnICORNN', 'explicit Euler']
    """
    orbit, lines = theory.orbits(layer, input, state)[0], []
    for name, run in (("symplectic Euler: UnICORNN", orbit), ("explicit Euler", orbit.explicit_euler())):
        H = run.energy().sum((1, 2))
        lines.append(_line(name, H.abs() / H[0].abs()))
    panel = Panel("step n", "|H| relative to the first", lines, {"yscale": "log"})
    return Plot("Energy of the first layer", [panel])


def bounds(layer: UnICORNN, input: Tensor) -> Plot:
    """Largest |y_n| and |z_n| of each layer from a zero state, and their bounds, Suppl. Eq. (7).

    Example:
        >>> plot = bounds(UnICORNN(2, 8, dt=0.01), torch.randn(50, 1, 2))
        >>> [panel.y for panel in plot.panels]
        ['largest |y|', 'largest |z|']
    """
    run, panels = theory.orbits(layer, input), []
    N = len(run[0].x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the plot marks where the proofs end
        limits = theory.bounds(layer, N)
    axes = {"yscale": "log", "xlim": (1, max(2, N))}
    for letter in "yz":
        lines = [_line("bound", getattr(limits, letter), color="black")]
        for l, orbit in enumerate(run):
            lines.append(_line(f"layer {l + 1}", getattr(orbit, letter)[1:].abs().amax((1, 2))))
        panels.append(Panel("step n", f"largest |{letter}|", lines, axes, vertical=(limits.steps, "proofs end here")))
    return Plot("Bounds on the hidden states", panels)


def contributions(layer: UnICORNN, input: Tensor, target: Tensor | float = 0.0, state: Any = None) -> Plot:
    """Contributions of step k to the gradient of w¹ at step n: along all paths, along the paper's path, by its formula.

    Example:
        >>> plot = contributions(UnICORNN(2, 4), torch.randn(10, 1, 2))
        >>> [line.label for line in plot.panels[0].lines]
        ['exact', 'one path, Suppl. Eq. (65)', 'formula']
    """
    labels = {"exact": "exact", "path": "one path, Suppl. Eq. (65)", "formula": "formula"}
    lines = [
        _line(label, theory.contributions(layer, input, target, state, method).flatten(1).norm(dim=1))
        for method, label in labels.items()
    ]
    title = "Contribution of step k to ∂E/∂w of the first layer"
    return Plot(title, [Panel("step k", "norm", lines, {"yscale": "log"})])


def profile(modules: Mapping[str, nn.Module], input: Tensor, loss: Callable[[Tensor], Tensor] | None = None) -> Plot:
    """Gradient profiles of several modules, each relative to its mean over the last ten steps.

    Example:
        >>> plot = profile({"UnICORNN": UnICORNN(2, 8), "LSTM": nn.LSTM(2, 8)}, torch.randn(50, 1, 2))
        >>> len(plot.panels[0].lines)
        2
    """
    lines = []
    for name, module in modules.items():
        sizes = theory.gradient_profile(module, input, loss).flip(0)
        at = torch.logspace(0, math.log10(len(sizes)), _MAX_POINTS).round().long().unique() - 1
        lines.append(_line(name, (sizes / sizes[:10].mean()).clamp_min(1e-30)[at], at + 1))
    panel = Panel("steps before the end", "‖∂E/∂u‖, relative", lines, {"xscale": "log", "yscale": "log"})
    return Plot("Influence of a step on the loss at the end", [panel])


def growth(layer: UnICORNN, input: Tensor, state: Any = None) -> Plot:
    """Size of every layer's gradient along a sequence, and the exponent of each neuron, by ``gradient_growth``.

    Example:
        >>> plot = growth(UnICORNN(2, 8), torch.randn(100, 1, 2))
        >>> [panel.x for panel in plot.panels]
        ['steps before the end', 'neuron, sorted']
    """
    result = theory.gradient_growth(layer, input, state)
    back = torch.as_tensor(result.N - result.steps)
    sizes = [_line(f"layer {l + 1}", logs / _LN10, back) for l, logs in enumerate(result.layers.T)]
    exponents = [
        _line(f"layer {l + 1}", row.sort().values, torch.arange(len(row))) for l, row in enumerate(result.exponents)
    ]
    overflows = bool((result.layers > LOG_LARGEST / 2).any())
    panels = [
        Panel("steps before the end", "log₁₀ ‖∂E/∂(y, z)‖", sizes,
              horizontal=(LOG_LARGEST / _LN10, "float32 overflows") if overflows else None),
        Panel("neuron, sorted", "exponent per step", exponents, horizontal=(0.0, "")),
    ]  # fmt: skip
    return Plot("Growth of the gradient towards the first step", panels)


def time_steps(layer: UnICORNN) -> Plot:
    """Effective time steps Δt·σ̂(c) of every layer's neurons, sorted: Fig. 5.

    Example:
        >>> len(time_steps(UnICORNN(2, 8, num_layers=3)).panels[0].lines)
        3
    """
    lines = [_line(f"layer {l + 1}", a.sort().values) for l, a in enumerate(layer.time_steps())]
    return Plot("Effective time steps", [Panel("neuron, sorted", "Δt σ̂(c)", lines, {"yscale": "log"})])
