"""Appendix C's bounds on hidden states, Suppl. Eq. (7), and on gradients, Eq. (12), with all their constants.

The paper's proofs end after a time of order 1/β, and that of Eq. (12) covers a single layer. Next to them are bounds
that hold for any length and any number of layers; docs/theory.md derives them.
"""

from __future__ import annotations

import bisect
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
    """Bounds for a layer over N steps from a zero state, and the constants they consist of.

    Args:
        y, z: Bounds on |y_n| and |z_n| of every neuron and layer, n = 1, …, N, (N,): Suppl. Eq. (7), proven for
            n <= steps. Later it can be false: a resonant input exceeds it.
        gradient: Bound on |∂E/∂θ| of every parameter, for the loss of Eq. (10): Eq. (12), proven for
            N <= gradient_steps. The proof (Suppl. Eq. (38), Suppl. Eq. (39)) treats the input as a hidden state y⁰ with
            the same bound: |u| must not exceed F.
        y_always, z_always, gradient_always: Bounds that hold for every N and L, (N,), (N,) and a number; infinite if
            a²α >= 4, where the step itself is unstable. The last one is exponential in N, and also needs |u| <= F.
        beta, gamma, V, F, Delta, T: Constants, in the paper's letters. Delta is the main text's; the supplement (Suppl.
            Eq. (15)) has √(1 + 2βT) in place of √(2(1 + 2βT)), but its own proof (Suppl. Eq. (39)) gives the latter.
        steps: Largest n for which Suppl. Eq. (7) is proven. The proof uses (1 + βΔt)ⁿ ≤ 1 + 2βnΔt "as Δt ≪ 1" (Suppl.
            Eq. (11)), which holds up to about βnΔt = 1.26, however small Δt is.
        gradient_steps: Largest N for which Eq. (12) is proven. With one layer, the same argument also with γ (Suppl.
            Eq. (27)). With more layers 0: Suppl. Eq. (19) follows a single path through the layers, γ is that of the
            top layer, and Suppl. Eq. (40) and Suppl. Eq. (41) lose a factor m.

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


def proven_steps(rate: float, dt: float) -> int:
    """Largest n with (1 + rate·Δt)ⁿ ≤ 1 + 2·rate·n·Δt."""
    r = max(rate * dt, 1e-15)

    def fails(n: int) -> bool:
        return n * math.log1p(r) > math.log1p(2 * n * r)

    return bisect.bisect_left(range(1, int(4 / r) + 4), True, key=fails)


def bounds(layer: UnICORNN, N: int, target: float = 0.0) -> Bounds:
    """Bounds of Suppl. Eq. (7) and Eq. (12) for a layer with its current weights, and bounds that hold for every N.

    If the layers differ in Δt, the largest counts. Warns where the paper's proofs do not reach (see ``Bounds``).

    Args:
        layer: Layer with α > 0 and without residual connections, as in the proofs.
        N: Number of steps.
        target: Largest |ȳ| of the targets in the loss E = 1/N Σ ½‖y_n - ȳ_n‖² of Eq. (10).

    Example:
        >>> from unicornn import UnICORNN, theory
        >>> theory.bounds(UnICORNN(2, 4, dt=0.01), N=30).proven
        True
    """
    if not isinstance(layer, UnICORNN) or layer.bidirectional or layer.skip_layers:
        raise BadValue(f"layer: expected a UnICORNN with one direction and without residual connections, got {layer}")
    if layer.alpha == 0:
        raise BadValue("layer: expected alpha > 0, by which the bounds divide, got alpha=0")
    checks.integer("N", N, 1, checks.SIZE)
    target = checks.not_negative("target", target)
    alpha, dt, L = layer.alpha, max(layer.dt), layer.num_layers
    if dt >= 1:
        raise BadValue(f"layer: expected dt < 1, as in the proofs, got {dt}")
    beta = max(1 + 2 * alpha, 4 * alpha**2)
    rate = max(2.0, float(layer.w[-1].detach().abs().max()) + alpha)
    gamma = rate + rate**2 / 2
    V = math.prod(max(1.0, norm) for norm in _row_norms(layer))
    n = torch.arange(1, N + 1, dtype=torch.float64)
    T = N * dt
    growth = 1 + 2 * beta * T
    F = math.sqrt(2 / alpha * growth)
    Delta = 2 + math.sqrt(2 * growth) + (2 + alpha) * F
    steps = proven_steps(beta, dt)
    gradient_steps = min(steps, proven_steps(gamma, dt)) if L == 1 else 0
    if min(steps, gradient_steps) < N:
        reach = f"{gradient_steps} steps" if L == 1 else f"no steps, since this layer stack has L={L} > 1"
        warnings.warn(
            f"bounds: Suppl. Eq. (7) is proven up to {steps} steps and Eq. (12) up to {reach}, got N={N}",
            RuntimeWarning,
            stacklevel=2,
        )
    a = float(layer.time_steps().detach().max())
    z_rate = a / math.sqrt(1 - a**2 * alpha / 4) if a**2 * alpha < 4 else math.inf
    return Bounds(
        y=torch.sqrt(2 / alpha * (1 + 2 * beta * dt * n)),
        z=torch.sqrt(2 * (1 + 2 * beta * dt * n)),
        gradient=(1 - dt**L) / (1 - dt) * T * (1 + 2 * gamma * T) * V * (target + F) * Delta,
        y_always=n * z_rate / math.sqrt(alpha),
        z_always=n * z_rate,
        gradient_always=_gradient_always(layer, N, target, N * z_rate, F),
        beta=beta, gamma=gamma, V=V, F=F, Delta=Delta, T=T, steps=steps, gradient_steps=gradient_steps,
    )  # fmt: skip


def _row_norms(layer: UnICORNN) -> list[float]:
    """‖V‖_∞ of every layer."""
    return [float(torch.linalg.matrix_norm(V.detach().double(), math.inf)) for V in layer.V]


def _gradient_always(layer: UnICORNN, N: int, target: float, z: float, u: float) -> float:
    """Bound on |∂E/∂θ| along all paths through all layers, given |z_n| <= z and |u_n| <= u.

    Measure a layer's change (δy, δz) by max(s|δy|, |δz|), s² = ‖w‖_∞ + α. A step multiplies that of layer q by at most
    1 + a s + a² s², and adds that of the layer below in the same step, times a ‖V‖_∞ max(1, a s) / s of the layer
    below. So the largest change over the layers grows by at most ``step`` per step, and the direct effect of one
    parameter at step k on the layers above is at most ``kick``. ∂E_n/∂y_n has m entries.
    """
    if math.isinf(z):
        return math.inf
    a = [float(row.max()) for row in layer.time_steps().detach().double()]
    s = [math.sqrt(float(w.detach().abs().max()) + layer.alpha) for w in layer.w]
    y = z / math.sqrt(layer.alpha)
    step = kick = step_below = kick_below = 0.0
    for q, V in enumerate(_row_norms(layer)):
        link = a[q] * V * max(1.0, a[q] * s[q]) / s[q - 1] if q else 0.0
        step_below = 1 + a[q] * s[q] + (a[q] * s[q]) ** 2 + link * step_below
        # c changes z by at most a (1 + α y), and y by a z besides; w, b and V change z by at most a max(y, 1, |below|).
        dz = a[q] * (1 + layer.alpha * y + max(y, 1.0, y if q else u))
        kick_below = max(dz, s[q] * a[q] * (z + dz), link * kick_below)
        step, kick = max(step, step_below), max(kick, kick_below)
    exponent = N * math.log(step)
    total = math.inf if exponent > 700 else (math.exp(exponent) - 1) / (step - 1)
    return layer.hidden_size * (target + y) / s[-1] * kick * total
