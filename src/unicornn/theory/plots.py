"""A plot of each, as data: functions that compute what is to be drawn. ``Plot.draw`` needs matplotlib.

Example:
    >>> import torch
    >>> from unicornn import UnICORNN
    >>> from unicornn.theory import plots
    >>> plot = plots.time_steps(UnICORNN(2, 8, num_layers=3))
    >>> [line.label for line in plot.panels[0].lines]
    ['layer 1', 'layer 2', 'layer 3']
    >>> figure = plot.draw()  # matplotlib's
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
from unicornn.theory._growth import LARGEST
from unicornn.theory._jacobian import blocks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LN10 = math.log(10)
POINTS = 1000  # of a line at most: a picture has no room for more


@dataclass(frozen=True)
class Line:
    """A line through (x, y), and if ``low`` and ``high`` are given what lies between them."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    style: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """Axes with lines. ``axes`` are matplotlib's settings; ``vertical`` and ``horizontal`` are marks with a label."""

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
        """The plot of which ``dataclasses.asdict`` made these values, by way of JSON too."""
        panels = [{**panel, "lines": [Line(**line) for line in panel["lines"]]} for panel in values["panels"]]
        return cls(values["title"], [Panel(**panel) for panel in panels])

    def draw(self) -> Figure:
        """As a figure of matplotlib, which needs no closing."""
        from matplotlib.figure import Figure

        count = len(self.panels)
        figure = Figure(figsize=(5.2 * count, 3.6), layout="constrained", facecolor="white")
        figure.suptitle(self.title)
        for axis, panel in zip(figure.subplots(1, count, squeeze=False)[0], self.panels, strict=True):
            for line in panel.lines:
                (drawn,) = axis.plot(line.x, line.y, label=line.label, **line.style)
                if len(line.low):
                    axis.fill_between(line.x, line.low, line.high, alpha=0.2, color=drawn.get_color(), linewidth=0)
            if panel.vertical is not None:
                axis.axvline(panel.vertical[0], color="grey", linestyle=":", label=panel.vertical[1])
            if panel.horizontal is not None:
                axis.axhline(panel.horizontal[0], color="black", linewidth=0.8, label=panel.horizontal[1] or None)
            axis.set(xlabel=panel.x, ylabel=panel.y, **panel.axes)
            axis.grid(alpha=0.3)
        figure.axes[0].legend()
        return figure


def _line(label: str, values: Tensor, x: Tensor | None = None, quartiles: Sequence[Tensor] = (), **style: Any) -> Line:
    """Through values (N,), against 1, …, N unless x is given; no more than so many points of them."""
    x = torch.arange(1, len(values) + 1) if x is None else x

    def thin(t: Tensor) -> list[float]:
        return [float(f"{v:.6g}") for v in t.detach().cpu()[:: max(1, -(-len(values) // POINTS))].tolist()]

    low, high = map(thin, quartiles) if quartiles else ([], [])
    return Line(label, thin(x), thin(values), low, high, style)


def energy(layer: UnICORNN, input: Tensor, state: Any = None) -> Plot:
    """eq:hamil of the first layer along a run, relative to its first value, beside that of explicit Euler."""
    orbit, lines = theory.orbits(layer, input, state)[0], []
    for name, run in (("symplectic Euler: UnICORNN", orbit), ("explicit Euler", theory.explicit_euler(orbit))):
        H = theory.energy(run).sum((1, 2))
        lines.append(_line(name, H.abs() / H[0].abs()))
    panel = Panel("step n", "|H| relative to the first", lines, {"yscale": "log"})
    return Plot("Energy of the first layer", [panel])


def gradient_energy(layer: UnICORNN, input: Tensor, parameter: str = "w", state: Any = None) -> Plot:
    """eq:hsgHam of every layer's gradients: the median over neurons and sequences, and what lies between quartiles."""
    lines = []
    for l, H in enumerate(theory.gradient_hamiltonian(layer, input, parameter, state)):
        low, middle, high = torch.quantile(H.abs().flatten(1), torch.tensor([0.25, 0.5, 0.75], dtype=H.dtype), dim=1)
        lines.append(_line(f"layer {l + 1}", middle, quartiles=(low, high)))
    return Plot(f"Hamiltonian of the gradients by {parameter}", [Panel("step n", "|H|", lines, {"yscale": "log"})])


def volume(layer: UnICORNN, input: Tensor, state: Any = None) -> Plot:
    """The volume of phase space along a run, the product of all determinants of eq:mat2, beside explicit Euler's."""
    orbit = theory.orbits(layer, input, state)[0]
    ours = torch.linalg.det(blocks(orbit)).log().mean((1, 2)).cumsum(0).exp()
    other = theory.explicit_euler(orbit)
    theirs = (1 + other.a**2 * (other.w * other.slope + other.alpha)).log().mean((1, 2)).cumsum(0).exp()
    lines = [_line("symplectic Euler: UnICORNN", ours), _line("explicit Euler", theirs)]
    return Plot(
        "Phase-space volume per neuron of the first layer", [Panel("step n", "volume", lines, {"yscale": "log"})]
    )


def bounds(layer: UnICORNN, input: Tensor) -> Plot:
    """eq:hsbd beside the largest |y_n| and |z_n| of all layers, from a zero state."""
    run, panels = theory.orbits(layer, input), []
    N = len(run[0].x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where the proofs end is drawn
        limits = theory.bounds(layer, N)
    axes = {"yscale": "log", "xlim": (1, max(2, N))}
    for letter in "yz":
        lines = [_line("bound", getattr(limits, letter), color="black")]
        for l, orbit in enumerate(run):
            lines.append(_line(f"layer {l + 1}", getattr(orbit, letter)[1:].abs().amax((1, 2))))
        panels.append(Panel("step n", f"|{letter}|, at most", lines, axes, vertical=(limits.steps, "proofs end here")))
    return Plot("Bounds of the hidden states", panels)


def contributions(layer: UnICORNN, input: Tensor, target: Tensor | float = 0.0, state: Any = None) -> Plot:
    """Contributions of step k to the gradient of w¹ at step n: all ways, the paper's one way, and its formula."""
    every = {"exact": theory.contributions, "one way, eq:p43": theory.one_way, "formula": theory.representation}
    lines = [_line(name, f(layer, input, target, state).flatten(1).norm(dim=1)) for name, f in every.items()]
    title = "Contribution of step k to ∂E/∂w of the first layer"
    return Plot(title, [Panel("step k", "norm", lines, {"yscale": "log"})])


def profile(modules: Mapping[str, nn.Module], input: Tensor, loss: Callable[[Tensor], Tensor] | None = None) -> Plot:
    """``gradient_profile`` of several modules side by side, relative to the last step's."""
    lines = []
    for name, module in modules.items():
        sizes = theory.gradient_profile(module, input, loss).flip(0)
        at = torch.logspace(0, math.log10(len(sizes)), POINTS).round().long().unique() - 1  # the axis is logarithmic
        lines.append(_line(name, (sizes / sizes[:10].mean()).clamp_min(1e-30)[at], at + 1))
    panel = Panel("steps before the end", "‖∂E/∂u‖, relative", lines, {"xscale": "log", "yscale": "log"})
    return Plot("How much a step still matters at the end", [panel])


def growth(layer: UnICORNN, input: Tensor, state: Any = None) -> Plot:
    """``gradient_growth``: the size of every layer's gradient along the sequence, and each neuron's exponent."""
    found = theory.gradient_growth(layer, input, state)
    back = torch.as_tensor(found.N - found.steps)
    sizes = [_line(f"layer {l + 1}", own / LN10, back) for l, own in enumerate(found.layers.T)]
    exponents = [
        _line(f"layer {l + 1}", own.sort().values, torch.arange(len(own))) for l, own in enumerate(found.exponents)
    ]
    end = (LARGEST / LN10, "float32 ends here") if bool((found.layers > LARGEST / 2).any()) else None
    return Plot(
        "How the gradient grows on its way back",
        [
            Panel("steps before the end", "log₁₀ ‖∂E/∂(y, z)‖", sizes, horizontal=end),
            Panel("neuron, sorted", "exponent per step", exponents, horizontal=(0.0, "")),
        ],
    )


def lyapunov(modules: Mapping[str, nn.Module], input: Tensor, period: int = 10) -> Plot:
    """The estimate of the largest Lyapunov exponent of several modules as it settles."""
    lines = []
    for name, module in modules.items():
        running = theory.lyapunov_exponent(module, input, period=period).running.mean(1)
        lines.append(_line(name, running, period * torch.arange(1, len(running) + 1)))
    return Plot("Largest Lyapunov exponent", [Panel("step", "per step", lines, horizontal=(0.0, ""))])


def reconstruction(layer: UnICORNN, input: Tensor, lengths: Sequence[int]) -> Plot:
    """Error of the recovered start, and of the gradient of w¹, by inversion in plain floats, against the length."""
    results, axes = [theory.reconstruction_error(layer, input[:N]) for N in lengths], {"xscale": "log", "yscale": "log"}
    starts, gradients = [], []
    for l in range(layer.num_layers):
        errors = [float(r.plain[l]) for r in results], [r.gradients[f"w.{l}"] for r in results]
        starts.append(Line(f"layer {l + 1}", list(lengths), errors[0], style={"marker": "o"}))
        gradients.append(Line(f"w of layer {l + 1}", list(lengths), errors[1], style={"marker": "o"}))
    return Plot(
        "Inversion without a grid",
        [
            Panel("N (steps)", "error of the recovered start", starts, axes),
            Panel("N (steps)", "relative error of the gradient", gradients, axes),
        ],
    )


def time_steps(layer: UnICORNN) -> Plot:
    """fig:multi_scale_psmnist: the effective time steps Δt·σ̂(c) of every layer's neurons, sorted."""
    lines = [_line(f"layer {l + 1}", a.sort().values) for l, a in enumerate(layer.time_steps())]
    return Plot("Effective time steps", [Panel("neuron, sorted", "Δt σ̂(c)", lines, {"yscale": "log"})])


def weight_norms(norms: theory.WeightNorms) -> Plot:
    """fig:weights: ‖wˡ‖_∞ during training."""
    at = torch.as_tensor(norms.at)
    lines = [_line(f"layer {l + 1}", values, at) for l, values in enumerate(norms.norms.t())]
    return Plot("Norms of the hidden weights", [Panel("step of training", "‖w‖∞", lines)])
