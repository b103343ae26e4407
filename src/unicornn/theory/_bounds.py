"""Appendix C's bounds: of the hidden states, Suppl. Eq. (7), and of the gradients, Eq. (12), with all their constants.

The paper's proofs end after a time of order 1/β, and that of Eq. (12) is for one layer only. What holds for any length
and any number of layers stands beside them; docs/theory.md derives it.
"""

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

    y, z: (N,), what |y_n| and |z_n| of no neuron and layer exceed, n = 1, …, N: Suppl. Eq. (7), for n <= steps. Later it may
    be false: an input in resonance passes it.
    gradient: what |∂E/∂θ| of no parameter exceeds, for the loss of Eq. (10): Eq. (12), for N <= gradient_steps. The proof
    (Suppl. Eq. (38), Suppl. Eq. (39)) takes the input for a hidden state y⁰ that keeps to the same bound: |u| must not exceed F.
    steps: up to which n Suppl. Eq. (7) is proven. The proof uses (1 + βΔt)ⁿ ≤ 1 + 2βnΔt "as Δt ≪ 1" (Suppl. Eq. (11)), which is true
    up to about βnΔt = 1.26, however small Δt is.
    gradient_steps: up to which N Eq. (12) is proven. With one layer as before, with γ too (Suppl. Eq. (27)). With more layers it
    is 0: Suppl. Eq. (19) follows one way through the layers, γ is the top layer's, and Suppl. Eq. (40) and Suppl. Eq. (41) lose a factor m.
    y_always, z_always, gradient_always: (N,), (N,) and a number, bounds that hold for every N and L; infinite where
    a²α >= 4, for then the step itself is unstable. That of the gradient is exponential in N; it holds for |u| <= F too.
    beta, gamma, V, F, Delta, T: the paper's letters. Delta is the main text's; the supplement (Suppl. Eq. (15)) has
    √(1 + 2βT) in it where the main text has √(2(1 + 2βT)), but its own proof (Suppl. Eq. (39)) arrives at the latter.

    Example:
        >>> from unicornn import UnICORNN, theory
        >>> limits = theory.bounds(UnICORNN(2, 4, dt=0.01), N=30)
        >>> limits.y.shape, limits.proven
        (torch.Size([30]), True)
    """

    y: Tensor
    z: Tensor
    gradient: float
    y_always: Tensor
    z_always: Tensor
    gradient_always: float
    beta: float
    gamma: float
    V: float
    F: float
    Delta: float
    T: float
    steps: int
    gradient_steps: int

    @property
    def proven(self) -> bool:
        """Whether Suppl. Eq. (7) and Eq. (12) are both proven for N steps of this layer."""
        return min(self.steps, self.gradient_steps) >= len(self.y)


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
    """Suppl. Eq. (7) and Eq. (12) for this layer, as it is now, and sequences of N steps; and what holds for every N.

    With a Δt for each layer the largest counts. Warns where the paper's proofs do not reach (see ``Bounds``).

    Args:
        layer: with α > 0 and without residual connections, as in the proofs.
        N: steps.
        target: Ȳ, the largest |ȳ| of the data in the loss E = 1/N Σ ½‖y_n - ȳ_n‖² of Eq. (10).

    Example:
        >>> from unicornn import UnICORNN, theory
        >>> theory.bounds(UnICORNN(2, 4, dt=0.01), N=30).proven
        True
    """
    if not isinstance(layer, UnICORNN) or layer.bidirectional or layer.skip_layers:
        raise BadValue(f"layer: expected a UnICORNN of one direction, without residual connections, got {layer}")
    if layer.alpha == 0:
        raise BadValue("layer: expected alpha > 0, for the bounds divide by it; got alpha=0")
    checks.integer("N", N, 1)
    target = checks.not_negative("target", target)
    alpha, dt, L = layer.alpha, max(layer.dt), layer.num_layers
    if dt >= 1:
        raise BadValue(f"layer: expected dt < 1, which the proofs use, got {dt}")
    beta = max(1 + 2 * alpha, 4 * alpha**2)
    rate = max(2.0, float(layer.w[-1].detach().abs().max()) + alpha)
    gamma = rate + rate**2 / 2
    V = math.prod(max(1.0, norm) for norm in _norms(layer))
    n = torch.arange(1, N + 1, dtype=torch.float64)
    T = N * dt
    growth = 1 + 2 * beta * T
    F = math.sqrt(2 / alpha * growth)
    Delta = 2 + math.sqrt(2 * growth) + (2 + alpha) * F
    gradient = (1 - dt**L) / (1 - dt) * T * (1 + 2 * gamma * T) * V * (target + F) * Delta
    steps = steps_proven(beta, dt)
    gradient_steps = min(steps, steps_proven(gamma, dt)) if L == 1 else 0
    if min(steps, gradient_steps) < N:
        of_gradient = f"{gradient_steps} steps" if L == 1 else f"no steps, for it is of one layer and this has {L}"
        warnings.warn(
            f"bounds: Suppl. Eq. (7) is proven up to {steps} steps with this layer and Eq. (12) up to {of_gradient}; N={N}",
            RuntimeWarning,
            stacklevel=2,
        )
    a = float(layer.time_steps().detach().max())
    z_rate = a / math.sqrt(1 - a**2 * alpha / 4) if a**2 * alpha < 4 else math.inf
    return Bounds(
        y=torch.sqrt(2 / alpha * (1 + 2 * beta * dt * n)),
        z=torch.sqrt(2 * (1 + 2 * beta * dt * n)),
        gradient=gradient,
        y_always=n * z_rate / math.sqrt(alpha),
        z_always=n * z_rate,
        gradient_always=_gradient_always(layer, N, target, N * z_rate, F),
        beta=beta, gamma=gamma, V=V, F=F, Delta=Delta, T=T, steps=steps, gradient_steps=gradient_steps,
    )  # fmt: skip


def _norms(layer: UnICORNN) -> list[float]:
    """‖V‖_∞ of every layer."""
    return [float(torch.linalg.matrix_norm(V.detach().double(), math.inf)) for V in layer.V]


def _gradient_always(layer: UnICORNN, N: int, target: float, z: float, u: float) -> float:
    """|∂E/∂θ| at most, all ways through all layers, for |z_n| <= z and |u| <= u.

    A layer's change (δy, δz) is measured by max(s|δy|, |δz|), s² = ‖w‖_∞ + α. A step multiplies that of layer q by at
    most 1 + a s + a² s², and adds what the layer below has changed by in the same step, times a ‖V‖_∞ max(1, a s) / s
    of the layer below. So the largest of all layers grows by at most ``step`` per step, and what one parameter does at
    step k reaches the layers above with at most ``kick``. ∂E_n/∂y_n has m entries.
    """
    if math.isinf(z):
        return math.inf
    a = [float(row.max()) for row in layer.time_steps().detach().double()]
    s = [math.sqrt(float(w.detach().abs().max()) + layer.alpha) for w in layer.w]
    y = z / math.sqrt(layer.alpha)
    step = kick = step_below = kick_below = 0.0
    for q, V in enumerate(_norms(layer)):
        link = a[q] * V * max(1.0, a[q] * s[q]) / s[q - 1] if q else 0.0
        step_below = 1 + a[q] * s[q] + (a[q] * s[q]) ** 2 + link * step_below
        # c changes z by at most a (1 + α y) and y by a z besides; w, b and V change z by at most a max(y, 1, |below|).
        dz = a[q] * (1 + layer.alpha * y + max(y, 1.0, y if q else u))
        kick_below = max(dz, s[q] * a[q] * (z + dz), link * kick_below)
        step, kick = max(step, step_below), max(kick, kick_below)
    exponent = N * math.log(step)
    total = math.inf if exponent > 700 else (math.exp(exponent) - 1) / (step - 1)
    return layer.hidden_size * (target + y) / s[-1] * kick * total
