"""A picture of each: functions that compute and draw, and return a matplotlib figure. Needs matplotlib."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from unicornn._layer import UnICORNN
from unicornn.theory._bounds import bounds
from unicornn.theory._contributions import contributions, one_way, representation
from unicornn.theory._energy import energy, explicit_euler, gradient_hamiltonian
from unicornn.theory._growth import LARGEST, gradient_growth
from unicornn.theory._jacobian import blocks
from unicornn.theory._lyapunov import lyapunov_exponent
from unicornn.theory._orbit import orbits
from unicornn.theory._profile import gradient_profile
from unicornn.theory._reconstruction import reconstruction_error
from unicornn.theory._scales import WeightNorms

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LN10 = math.log(10)
POINTS = 2000  # of a curve at most: a picture has no room for more


def _axes(title: str, x: str, y: str, columns: int = 1) -> tuple[Figure, list[Axes]]:
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, columns, figsize=(5.2 * columns, 3.6), layout="constrained", squeeze=False)
    fig.suptitle(title)
    for axis in axes[0]:
        axis.set(xlabel=x, ylabel=y)
        axis.grid(alpha=0.3)
    return fig, list(axes[0])


def _curve(axis: Axes, values: Tensor, label: str, **style: Any) -> None:
    n = torch.arange(1, len(values) + 1)
    keep = slice(None, None, max(1, len(values) // POINTS))
    axis.plot(n[keep], values.detach().cpu()[keep], label=label, **style)


def energy_figure(layer: UnICORNN, input: Tensor, state: Any = None) -> Figure:
    """eq:hamil of the first layer along a run, relative to its first value, beside that of explicit Euler."""
    fig, (axis,) = _axes("Energy of the first layer", "step n", "|H| relative to the first")
    orbit = orbits(layer, input, state)[0]
    for name, run in (("symplectic Euler: UnICORNN", orbit), ("explicit Euler", explicit_euler(orbit))):
        H = energy(run).sum((1, 2))
        _curve(axis, H.abs() / H[0].abs(), name)
    axis.set_yscale("log")
    axis.legend()
    return fig


def gradient_energy_figure(layer: UnICORNN, input: Tensor, parameter: str = "w", state: Any = None) -> Figure:
    """eq:hsgHam of every layer's gradients: the median over neurons and sequences, and what lies between quartiles."""
    fig, (axis,) = _axes(f"Hamiltonian of the gradients by {parameter}", "step n", "|H|")
    for l, H in enumerate(gradient_hamiltonian(layer, input, parameter, state)):
        low, middle, high = torch.quantile(H.abs().flatten(1), torch.tensor([0.25, 0.5, 0.75], dtype=H.dtype), dim=1)
        _curve(axis, middle, f"layer {l + 1}")
        axis.fill_between(range(1, len(middle) + 1), low, high, alpha=0.2)
    axis.set_yscale("log")
    axis.legend()
    return fig


def volume_figure(layer: UnICORNN, input: Tensor, state: Any = None) -> Figure:
    """The volume of phase space along a run, the product of all determinants of eq:mat2, beside explicit Euler's."""
    fig, (axis,) = _axes("Phase-space volume per neuron of the first layer", "step n", "volume")
    orbit = orbits(layer, input, state)[0]
    ours = torch.linalg.det(blocks(orbit)).log().mean((1, 2)).cumsum(0).exp()
    other = explicit_euler(orbit)
    theirs = (1 + other.a**2 * (other.w * other.slope + other.alpha)).log().mean((1, 2)).cumsum(0).exp()
    _curve(axis, ours, "symplectic Euler: UnICORNN")
    _curve(axis, theirs, "explicit Euler")
    axis.set_yscale("log")
    axis.legend()
    return fig


def bounds_figure(layer: UnICORNN, input: Tensor) -> Figure:
    """eq:hsbd beside the largest |y_n| and |z_n| of all layers, from a zero state."""
    fig, axes = _axes("Bounds of the hidden states", "step n", "", columns=2)
    run = orbits(layer, input)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where the proofs end is drawn
        limits = bounds(layer, len(run[0].x))
    for axis, letter in zip(axes, "yz", strict=True):
        _curve(axis, getattr(limits, letter), "bound", color="black")
        for l, orbit in enumerate(run):
            _curve(axis, getattr(orbit, letter)[1:].abs().amax((1, 2)), f"layer {l + 1}")
        axis.axvline(limits.steps, color="grey", linestyle=":", label="proofs end here")
        axis.set(ylabel=f"|{letter}|, at most", yscale="log", xlim=(1, max(2, len(run[0].x))))
    axes[0].legend()
    return fig


def contributions_figure(layer: UnICORNN, input: Tensor, target: Tensor | float = 0.0, state: Any = None) -> Figure:
    """Contributions of step k to the gradient of w¹ at step n: all ways, the paper's one way, and its formula."""
    fig, (axis,) = _axes("Contribution of step k to ∂E/∂w of the first layer", "step k", "norm")
    for name, f in (("exact", contributions), ("one way, eq:p43", one_way), ("formula", representation)):
        _curve(axis, f(layer, input, target, state).flatten(1).norm(dim=1), name)
    axis.set_yscale("log")
    axis.legend()
    return fig


def profile_figure(
    modules: Mapping[str, nn.Module], input: Tensor, loss: Callable[[Tensor], Tensor] | None = None
) -> Figure:
    """``gradient_profile`` of several modules side by side, relative to the last step's."""
    fig, (axis,) = _axes("How much a step still matters at the end", "steps before the end", "‖∂E/∂u‖, relative")
    for name, module in modules.items():
        profile = gradient_profile(module, input, loss).flip(0)
        _curve(axis, (profile / profile[:10].mean()).clamp_min(1e-30), name)
    axis.set(xscale="log", yscale="log")
    axis.legend()
    return fig


def growth_figure(layer: UnICORNN, input: Tensor, state: Any = None) -> Figure:
    """``gradient_growth``: the size of every layer's gradient along the sequence, and each neuron's exponent."""
    fig, axes = _axes("How the gradient grows on its way back", "", "", columns=2)
    growth = gradient_growth(layer, input, state)
    for l, sizes in enumerate(growth.layers.T):
        axes[0].plot(growth.N - growth.steps, sizes / LN10, label=f"layer {l + 1}")
        axes[1].plot(growth.exponents[l].sort().values, label=f"layer {l + 1}")
    if bool((growth.layers > LARGEST / 2).any()):
        axes[0].axhline(LARGEST / LN10, color="black", linewidth=0.8, label="float32 ends here")
    axes[0].set(xlabel="steps before the end", ylabel="log₁₀ ‖∂E/∂(y, z)‖")
    axes[1].set(xlabel="neuron, sorted", ylabel="exponent per step")
    axes[1].axhline(0, color="black", linewidth=0.8)
    axes[0].legend()
    return fig


def lyapunov_figure(modules: Mapping[str, nn.Module], input: Tensor, period: int = 10) -> Figure:
    """The estimate of the largest Lyapunov exponent of several modules as it settles."""
    fig, (axis,) = _axes("Largest Lyapunov exponent", "step", "per step")
    for name, module in modules.items():
        running = lyapunov_exponent(module, input, period=period).running
        axis.plot(period * torch.arange(1, len(running) + 1), running.mean(1), label=name)
    axis.axhline(0, color="black", linewidth=0.8)
    axis.legend()
    return fig


def reconstruction_figure(layer: UnICORNN, input: Tensor, lengths: Sequence[int]) -> Figure:
    """Error of the recovered start, and of the gradient of w¹, by inversion in plain floats, against the length."""
    fig, axes = _axes("Inversion without a grid", "N (steps)", "", columns=2)
    results = [reconstruction_error(layer, input[:N]) for N in lengths]
    for l in range(layer.num_layers):
        axes[0].loglog(lengths, [float(r.plain[l]) for r in results], "o-", label=f"layer {l + 1}")
        axes[1].loglog(lengths, [r.gradients[f"w.{l}"] for r in results], "o-", label=f"w of layer {l + 1}")
    axes[0].set_ylabel("error of the recovered start")
    axes[1].set_ylabel("relative error of the gradient")
    axes[0].legend()
    return fig


def time_steps_figure(layer: UnICORNN) -> Figure:
    """fig:multi_scale_psmnist: the effective time steps Δt·σ̂(c) of every layer's neurons, sorted."""
    fig, (axis,) = _axes("Effective time steps", "neuron, sorted", "Δt σ̂(c)")
    for l, a in enumerate(layer.time_steps().detach().cpu()):
        axis.semilogy(a.sort().values, label=f"layer {l + 1}")
    axis.legend()
    return fig


def weight_norms_figure(norms: WeightNorms) -> Figure:
    """fig:weights: ‖wˡ‖_∞ during training."""
    fig, (axis,) = _axes("Norms of the hidden weights", "step of training", "‖w‖∞")
    for l, values in enumerate(norms.norms.t()):
        axis.plot(norms.at, values, label=f"layer {l + 1}")
    axis.legend()
    return fig
