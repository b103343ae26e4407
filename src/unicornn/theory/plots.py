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

_LN10 = math.log(10)
_POINTS = 1000  # of a line at most: a picture has no room for more


@dataclass(frozen=True)
class Line:
    """A line through (x, y), and if ``low`` and ``high`` are given what lies between them.

    Example:
        >>> from unicornn.theory.plots import Line
        >>> Line("squares", [1, 2, 3], [1, 4, 9]).low
        ()
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    style: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """Axes with lines. ``axes`` are matplotlib's settings; ``vertical`` and ``horizontal`` are marks with a label.

    Example:
        >>> from unicornn.theory.plots import Line, Panel
        >>> Panel("x", "x²", [Line("squares", [1, 2], [1, 4])], {"yscale": "log"}).y
        'x²'
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
        return [float(f"{v:.6g}") for v in t.detach().cpu()[:: max(1, -(-len(values) // _POINTS))].tolist()]

    low, high = map(thin, quartiles) if quartiles else ([], [])
    return Line(label, thin(x), thin(values), low, high, style)


def energy(layer: UnICORNN, input: Tensor, state: Any = None) -> Plot:
    """Eq. (4) of the first layer along a run, relative to its first value, beside that of explicit Euler.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.theory import plots
        >>> plot = plots.energy(UnICORNN(2, 8), torch.ones(50, 1, 2))
        >>> [line.label for line in plot.panels[0].lines]
        ['symplectic Euler: UnICORNN', 'explicit Euler']
    """
    orbit, lines = theory.orbits(layer, input, state)[0], []
    for name, run in (("symplectic Euler: UnICORNN", orbit), ("explicit Euler", theory.explicit_euler(orbit))):
        H = theory.energy(run).sum((1, 2))
        lines.append(_line(name, H.abs() / H[0].abs()))
    panel = Panel("step n", "|H| relative to the first", lines, {"yscale": "log"})
    return Plot("Energy of the first layer", [panel])


def gradient_energy(layer: UnICORNN, input: Tensor, parameter: str = "w", state: Any = None) -> Plot:
    """Eq. (9) of every layer's gradients: the median over neurons and sequences, and what lies between quartiles.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.theory import plots
        >>> plot = plots.gradient_energy(UnICORNN(2, 8, num_layers=2), torch.randn(50, 1, 2))
        >>> len(plot.panels[0].lines)
        2
    """
    lines = []
    for l, H in enumerate(theory.gradient_hamiltonian(layer, input, parameter, state)):
        low, middle, high = torch.quantile(H.abs().flatten(1), torch.tensor([0.25, 0.5, 0.75], dtype=H.dtype), dim=1)
        lines.append(_line(f"layer {l + 1}", middle, quartiles=(low, high)))
    return Plot(f"Hamiltonian of the gradients by {parameter}", [Panel("step n", "|H|", lines, {"yscale": "log"})])


def volume(layer: UnICORNN, input: Tensor, state: Any = None) -> Plot:
    """The volume of phase space along a run, the product of all determinants of Suppl. Eq. (21), beside explicit Euler's.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.theory import plots
        >>> ours, theirs = plots.volume(UnICORNN(2, 8), torch.randn(50, 1, 2)).panels[0].lines
        >>> ours.y[-1], theirs.y[-1] > 1
        (1.0, True)
    """
    orbit = theory.orbits(layer, input, state)[0]
    ours = torch.linalg.det(blocks(orbit)).log().mean((1, 2)).cumsum(0).exp()
    other = theory.explicit_euler(orbit)
    theirs = (1 + other.a**2 * (other.w * other.slope + other.alpha)).log().mean((1, 2)).cumsum(0).exp()
    lines = [_line("symplectic Euler: UnICORNN", ours), _line("explicit Euler", theirs)]
    return Plot(
        "Phase-space volume per neuron of the first layer", [Panel("step n", "volume", lines, {"yscale": "log"})]
    )


def bounds(layer: UnICORNN, input: Tensor) -> Plot:
    """Suppl. Eq. (7) beside the largest |y_n| and |z_n| of all layers, from a zero state.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.theory import plots
        >>> plot = plots.bounds(UnICORNN(2, 8, dt=0.01), torch.randn(50, 1, 2))
        >>> [panel.y for panel in plot.panels]
        ['|y|, at most', '|z|, at most']
    """
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
    """Contributions of step k to the gradient of w¹ at step n: all ways, the paper's one way, and its formula.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.theory import plots
        >>> plot = plots.contributions(UnICORNN(2, 4), torch.randn(10, 1, 2))
        >>> [line.label for line in plot.panels[0].lines]
        ['exact', 'one way, Suppl. Eq. (65)', 'formula']
    """
    every = {
        "exact": theory.contributions,
        "one way, Suppl. Eq. (65)": theory.one_way,
        "formula": theory.representation,
    }
    lines = [_line(name, f(layer, input, target, state).flatten(1).norm(dim=1)) for name, f in every.items()]
    title = "Contribution of step k to ∂E/∂w of the first layer"
    return Plot(title, [Panel("step k", "norm", lines, {"yscale": "log"})])


def profile(modules: Mapping[str, nn.Module], input: Tensor, loss: Callable[[Tensor], Tensor] | None = None) -> Plot:
    """``gradient_profile`` of several modules side by side, relative to the last step's.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.theory import plots
        >>> modules = {"UnICORNN": UnICORNN(2, 8), "LSTM": torch.nn.LSTM(2, 8)}
        >>> len(plots.profile(modules, torch.randn(50, 1, 2)).panels[0].lines)
        2
    """
    lines = []
    for name, module in modules.items():
        sizes = theory.gradient_profile(module, input, loss).flip(0)
        at = torch.logspace(0, math.log10(len(sizes)), _POINTS).round().long().unique() - 1  # the axis is logarithmic
        lines.append(_line(name, (sizes / sizes[:10].mean()).clamp_min(1e-30)[at], at + 1))
    panel = Panel("steps before the end", "‖∂E/∂u‖, relative", lines, {"xscale": "log", "yscale": "log"})
    return Plot("How much a step still matters at the end", [panel])


def growth(layer: UnICORNN, input: Tensor, state: Any = None) -> Plot:
    """``gradient_growth``: the size of every layer's gradient along the sequence, and each neuron's exponent.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.theory import plots
        >>> plot = plots.growth(UnICORNN(2, 8), torch.randn(100, 1, 2))
        >>> [panel.x for panel in plot.panels]
        ['steps before the end', 'neuron, sorted']
    """
    found = theory.gradient_growth(layer, input, state)
    back = torch.as_tensor(found.N - found.steps)
    sizes = [_line(f"layer {l + 1}", own / _LN10, back) for l, own in enumerate(found.layers.T)]
    exponents = [
        _line(f"layer {l + 1}", own.sort().values, torch.arange(len(own))) for l, own in enumerate(found.exponents)
    ]
    end = (LARGEST / _LN10, "float32 ends here") if bool((found.layers > LARGEST / 2).any()) else None
    return Plot(
        "How the gradient grows on its way back",
        [
            Panel("steps before the end", "log₁₀ ‖∂E/∂(y, z)‖", sizes, horizontal=end),
            Panel("neuron, sorted", "exponent per step", exponents, horizontal=(0.0, "")),
        ],
    )


def lyapunov(modules: Mapping[str, nn.Module], input: Tensor, period: int = 10) -> Plot:
    """The estimate of the largest Lyapunov exponent of several modules as it settles.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.theory import plots
        >>> plot = plots.lyapunov({"UnICORNN": UnICORNN(2, 8)}, torch.randn(200, 1, 2))
        >>> plot.panels[0].lines[0].x[:3]
        [10.0, 20.0, 30.0]
    """
    lines = []
    for name, module in modules.items():
        running = theory.lyapunov_exponent(module, input, period=period).running.mean(1)
        lines.append(_line(name, running, period * torch.arange(1, len(running) + 1)))
    return Plot("Largest Lyapunov exponent", [Panel("step", "per step", lines, horizontal=(0.0, ""))])


def reconstruction(layer: UnICORNN, input: Tensor, lengths: Sequence[int]) -> Plot:
    """Error of the recovered start, and of the gradient of w¹, by inversion in plain floats, against the length.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.theory import plots
        >>> plot = plots.reconstruction(UnICORNN(2, 8), torch.randn(20, 1, 2), (10, 20))
        >>> plot.panels[0].lines[0].x
        [10, 20]
    """
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
    """Fig. 5: the effective time steps Δt·σ̂(c) of every layer's neurons, sorted.

    Example:
        >>> from unicornn import UnICORNN
        >>> from unicornn.theory import plots
        >>> len(plots.time_steps(UnICORNN(2, 8, num_layers=3)).panels[0].lines)
        3
    """
    lines = [_line(f"layer {l + 1}", a.sort().values) for l, a in enumerate(layer.time_steps())]
    return Plot("Effective time steps", [Panel("neuron, sorted", "Δt σ̂(c)", lines, {"yscale": "log"})])


def weight_norms(norms: theory.WeightNorms) -> Plot:
    """Fig. 7: ‖wˡ‖_∞ during training.

    Example:
        >>> from unicornn import UnICORNN
        >>> from unicornn.theory import plots
        >>> from unicornn.theory import WeightNorms
        >>> norms = WeightNorms(UnICORNN(2, 8, num_layers=2))
        >>> norms(0)
        >>> len(plots.weight_norms(norms).panels[0].lines)
        2
    """
    at = torch.as_tensor(norms.at)
    lines = [_line(f"layer {l + 1}", values, at) for l, values in enumerate(norms.norms.t())]
    return Plot("Norms of the hidden weights", [Panel("step of training", "‖w‖∞", lines)])
