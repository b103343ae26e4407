"""Appendix C's bounds: of the hidden states, eq:hsbd, and of the gradients, eq:gbd, with all their constants."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn._layer import UnICORNN
from unicornn.errors import BadValue


@dataclass(frozen=True)
class Bounds:
    """The bounds for a layer over N steps from a zero state, and the constants they are made of.

    y, z: (N,), what |y_n| and |z_n| of no neuron and layer exceed, n = 1, …, N: eq:hsbd.
    gradient: what |∂E/∂θ| of no parameter exceeds, for the loss of eq:lf1: eq:gbd. The proof (eq:p11, eq:p12) takes the
    input for a hidden state y⁰ that keeps to the same bound: |u| must not exceed F.
    beta, gamma, V, F, Delta, T: the paper's letters. Delta is the main text's; the supplement (eq:gbddef_SM) has
    √(1 + 2βT) in it where the main text has √(2(1 + 2βT)), but its own proof (eq:p12) arrives at the latter.
    steps: up to which n the proofs hold. They use (1 + βΔt)ⁿ ≤ 1 + 2βnΔt "as Δt ≪ 1" (eq:pf35), and the same with γ
    (eq:mat7). That is true up to about βnΔt = 1.26, however small Δt is; beyond, nothing is proven.
    """

    y: Tensor
    z: Tensor
    gradient: float
    beta: float
    gamma: float
    V: float
    F: float
    Delta: float
    T: float
    steps: int

    @property
    def proven(self) -> bool:
        """Whether the proofs hold for all N steps."""
        return self.steps >= len(self.y)


def steps_proven(rate: float, dt: float) -> int:
    """The largest n with (1 + rate·Δt)ⁿ ≤ 1 + 2·rate·n·Δt.

    Example:
        >>> steps_proven(1.0, 1e-4)
        12565
    """
    r = rate * dt

    def holds(n: int) -> bool:
        return n * math.log1p(r) <= math.log1p(2 * n * r)

    if not holds(1):
        return 0
    high = 2
    while holds(high):
        high *= 2
    low = high // 2  # holds there, and not at high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def bounds(layer: UnICORNN, N: int, target: float = 0.0) -> Bounds:
    """eq:hsbd and eq:gbd for this layer, as it is now, and sequences of N steps.

    With a Δt for each layer the largest counts. Warns where the proofs do not reach (see ``Bounds.steps``).

    Args:
        layer: with α > 0 and without residual connections, as in the proofs.
        N: steps.
        target: Ȳ, the largest |ȳ| of the data in the loss E = 1/N Σ ½‖y_n - ȳ_n‖² of eq:lf1.

    Example:
        >>> from unicornn import UnICORNN, theory
        >>> theory.bounds(UnICORNN(2, 4, 2, dt=0.01), N=30).proven
        True
    """
    if not isinstance(layer, UnICORNN) or layer.bidirectional or layer.residual:
        raise BadValue(f"layer: expected a UnICORNN of one direction, without residual connections, got {layer}")
    if layer.alpha == 0:
        raise BadValue("layer: expected alpha > 0, for the bounds divide by it; got alpha=0")
    checks.whole("N", N, 1)
    target = checks.not_negative("target", target)
    alpha, dt, L = layer.alpha, max(layer.dt), layer.num_layers
    if dt >= 1:
        raise BadValue(f"layer: expected dt < 1, which the proofs use, got {dt}")
    beta = max(1 + 2 * alpha, 4 * alpha**2)
    rate = max(2.0, float(layer.w[-1].detach().abs().max()) + alpha)
    gamma = rate + rate**2 / 2
    V = math.prod(max(1.0, float(torch.linalg.matrix_norm(V.detach().double(), math.inf))) for V in layer.V)
    t = dt * torch.arange(1, N + 1, dtype=torch.float64)
    T = N * dt
    growth = 1 + 2 * beta * T
    F = math.sqrt(2 / alpha * growth)
    Delta = 2 + math.sqrt(2 * growth) + (2 + alpha) * F
    gradient = (1 - dt**L) / (1 - dt) * T * (1 + 2 * gamma * T) * V * (target + F) * Delta
    steps = min(steps_proven(beta, dt), steps_proven(gamma, dt))
    if steps < N:
        warnings.warn(
            f"bounds: the proofs reach {steps} steps with this layer (βnΔt and γnΔt up to 1.26), not N={N}",
            RuntimeWarning,
            stacklevel=2,
        )
    y, z = torch.sqrt(2 / alpha * (1 + 2 * beta * t)), torch.sqrt(2 * (1 + 2 * beta * t))
    return Bounds(y, z, gradient, beta, gamma, V, F, Delta, T, steps)
