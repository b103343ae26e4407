"""Eq. (6) and Eq. (7) as plain torch loops over time: the definition.

Any device, any floating dtype, differentiable by autograd as often as you like. No grid: reversal is exact only up to
rounding. Shapes: u (N, b, d); y, z (L, b, m); mask (L, b, m) or None; lengths (b,) or None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unicornn._ops.coefficients import Coefficients


def drive(l: int, below: Sequence[Tensor], k: Coefficients) -> Tensor:
    """x = V yˡ⁻¹ + b, and Λ yˡ⁻ˢ⁻¹ with residual stacking (Suppl. Eq. (75)). ``below`` holds u, y¹, …, yˡ⁻¹."""
    x = torch.nn.functional.linear(below[l], k.V[l], k.b[l])
    if l >= k.S:
        x = x + torch.nn.functional.linear(below[l - k.S], k.Lambda[l - k.S])
    return x + 0 * x  # tanh would make a plausible number of an infinite one


def step(x: Tensor, y: Tensor, z: Tensor, w: Tensor, a: Tensor, alpha: float | Tensor) -> tuple[Tensor, Tensor]:
    """One step of a layer, Eq. (6): y and z after it."""
    z = z - a * (torch.tanh(w * y + x) + alpha * y)
    return y + a * z, z


class _Faded(torch.autograd.Function):
    """A tensor as it is; its gradient is multiplied by a factor."""

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


def forward(
    u: Tensor,
    y: Tensor,
    z: Tensor,
    k: Coefficients,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    horizon: Sequence[float] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """Output of the top layer (N, b, m), zero in the padding, and the final y and z (L, b, m).

    horizon: H of every layer, in steps, or nothing: what comes back from a step fades by e^(-1/H).
    """
    w, a, alpha = k.w, k.a, k.alpha
    ys, zs, outputs = list(y), list(z), []
    for n, u_n in enumerate(u):
        running = None if lengths is None else (n < lengths)[:, None]
        if running is not None:
            u_n = torch.where(running, u_n, 0)
        below = [u_n]
        for l in range(len(k.V)):
            x, y_l, z_l = drive(l, below, k), ys[l], zs[l]
            if horizon:
                y_l, z_l = (_Faded.apply(t, math.exp(-1 / horizon[l])) for t in (y_l, z_l))
            y_n, z_n = step(x, y_l, z_l, w[l], a[l], alpha)
            if running is not None:
                y_n, z_n = torch.where(running, y_n, ys[l]), torch.where(running, z_n, zs[l])
            ys[l], zs[l] = y_n, z_n
            below.append(y_n if mask is None else y_n * mask[l])
        outputs.append(below[-1] if running is None else torch.where(running, below[-1], 0))
    return torch.stack(outputs), torch.stack(ys), torch.stack(zs)


def inverse(
    u: Tensor,
    y: Tensor,
    z: Tensor,
    k: Coefficients,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Initial y and z (L, b, m) from the final ones, Eq. (7)."""
    w, a, alpha = k.w, k.a, k.alpha
    ys, zs = list(y), list(z)
    for n in range(len(u) - 1, -1, -1):
        running = None if lengths is None else (n < lengths)[:, None]
        below = [u[n] if running is None else torch.where(running, u[n], 0)]
        for l in range(len(k.V)):
            below.append(ys[l] if mask is None else ys[l] * mask[l])
            x = drive(l, below, k)
            y_n = ys[l] - a[l] * zs[l]
            z_n = zs[l] + a[l] * (torch.tanh(w[l] * y_n + x) + alpha * y_n)
            if running is not None:
                y_n, z_n = torch.where(running, y_n, ys[l]), torch.where(running, z_n, zs[l])
            ys[l], zs[l] = y_n, z_n
    return torch.stack(ys), torch.stack(zs)
