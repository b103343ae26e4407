"""Eq. (6), Eq. (7) and the energy as plain PyTorch: the definition that every kernel is tested against.

Runs on any device in any floating dtype and is differentiable by autograd any number of times. There is no grid, so
reversal is exact only up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unicornn._ops.problem import Problem

ENERGY_FLOOR = 1e-8
"""Energies of this size or less count as zero: the logarithm of the energy and its gradient stay finite."""

ENERGY_SERIES = 0.03
"""Below this |w y|, log cosh loses digits to cancellation and a series is used."""


def kick(t: Tensor, y: Tensor, a: Tensor, alpha: float | Tensor) -> Tensor:
    """a (t + α y): the amount that a step subtracts from z, with t = tanh(w y + x)."""
    return a * (t + alpha * y)


def step(t: Tensor, y: Tensor, z: Tensor, a: Tensor, alpha: float | Tensor) -> tuple[Tensor, Tensor]:
    """One step of Eq. (6) from t = tanh(w y + x): the next y and z."""
    z = z - kick(t, y, a, alpha)
    return y + a * z, z


def energy(y: Tensor, z: Tensor, w: Tensor, alpha: float, x: Tensor | None = None) -> Tensor:
    """The Hamiltonian of each oscillator, Eq. (4): ½z² + ½αy² + log cosh(w y + x) / w.

    Without input x it is defined for w = 0 as well, where the last term vanishes; with x, that term is then y tanh(x),
    which has the right force. The energy may be negative for w < 0, where the force is repulsive.

    Shapes: y, z (..., m); w (m,) or broadcastable; x like y; returns the shape of y.

    Example:
        >>> import torch
        >>> from unicornn.readouts import energy
        >>> energy(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 2.0]), torch.tensor([0.0, 1.0]), alpha=1.0)
        tensor([2.5000, 2.9338])
    """
    kinetic_and_spring = z**2 / 2 + alpha / 2 * y**2
    if x is not None:
        safe = torch.where(w == 0, 1.0, w)
        return kinetic_and_spring + torch.where(w == 0, y * torch.tanh(x), _log_cosh((w * y + x).abs()) / safe)
    t = w * y
    near = t.abs() < ENERGY_SERIES
    far = torch.where(near, 1.0, t.abs())
    slope = torch.where(near, t / 2 * (1 - t**2 / 6 + 2 * t**4 / 45), _log_cosh(far) / torch.where(near, 1.0, t))
    return kinetic_and_spring + slope * y


def _log_cosh(t: Tensor) -> Tensor:
    """log cosh(t) for t >= 0, without overflow."""
    return t + torch.log1p(torch.expm1(-2 * t) / 2)


def fade_rate(horizon: float) -> float:
    """1 - e^(-1/H): the fraction of the adjoint that each step removes. Unlike e^(-1/H) accurate in float32."""
    return -math.expm1(-1 / horizon)


class _ScaledGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a factor."""

    generate_vmap_rule = True

    @staticmethod
    def forward(t: Tensor, factor: float) -> Tensor:
        return t.view_as(t)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return g * ctx.factor, None


def drive(l: int, below: Sequence[Tensor], p: Any) -> Tensor:
    """x = V yˡ⁻¹ + b, plus Λ yˡ⁻ˢ⁻¹ with residual connections (Suppl. Eq. (75)). ``below`` holds u, y¹, …, yˡ⁻¹."""
    x = torch.nn.functional.linear(below[l], p.V[l], p.b[l])
    if l >= p.S:
        x = x + torch.nn.functional.linear(below[l - p.S], p.Lambda[l - p.S])
    return x + 0 * x  # tanh would turn an infinite drive into a finite number


def forward(p: Problem) -> tuple[Tensor, Tensor, Tensor]:
    """Output of the top layer (N, b, m), zero in the padding, and the final y and z (L, b, m)."""
    w, a, (ys, zs), outputs = p.w, p.a.to(p.w.dtype), map(list, p.start), []
    for n, u_n in enumerate(p.u):
        running = None if p.lengths is None else (n < p.lengths)[:, None]
        below = [u_n if running is None else torch.where(running, u_n, 0)]
        for l in range(len(p.V)):
            y, z = ys[l], zs[l]
            if p.horizon:
                y, z = (_ScaledGradient.apply(t, math.exp(-1 / p.horizon[l])) for t in (y, z))
            y, z = step(torch.tanh(w[l] * y + drive(l, below, p)), y, z, a[l], p.alpha)
            if running is not None:
                y, z = torch.where(running, y, ys[l]), torch.where(running, z, zs[l])
            ys[l], zs[l] = y, z
            below.append(y if p.mask is None else y * p.mask[l])
        outputs.append(below[-1] if running is None else torch.where(running, below[-1], 0))
    return torch.stack(outputs), torch.stack(ys), torch.stack(zs)


def inverse(p: Problem) -> tuple[Tensor, Tensor]:
    """Initial y and z (L, b, m) from the final ones, Eq. (7)."""
    w, a, (ys, zs) = p.w, p.a.to(p.w.dtype), map(list, p.start)
    for n in range(len(p.u) - 1, -1, -1):
        running = None if p.lengths is None else (n < p.lengths)[:, None]
        below = [p.u[n] if running is None else torch.where(running, p.u[n], 0)]
        for l in range(len(p.V)):
            below.append(ys[l] if p.mask is None else ys[l] * p.mask[l])
            y = ys[l] - a[l] * zs[l]
            z = zs[l] + kick(torch.tanh(w[l] * y + drive(l, below, p)), y, a[l], p.alpha)
            if running is not None:
                y, z = torch.where(running, y, ys[l]), torch.where(running, z, zs[l])
            ys[l], zs[l] = y, z
    return torch.stack(ys), torch.stack(zs)
