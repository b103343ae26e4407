"""coRNN's, expRNN's and LEM's recurrences as plain torch loops over time.

Any device, any floating dtype, differentiable by autograd as often as you like. Shapes: drives (N, b, ·), matrices
(out, in), states (b, m), lengths (b,) or None. Each returns what the recurrence shows at every step, of which the
padding does not matter, and the states at each sequence's own end.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unicornn.baselines._base import over_time


def cornn(
    x: Tensor, W: Tensor, Wz: Tensor, y: Tensor, z: Tensor, dt: float, gamma: float, epsilon: float, *,
    lengths: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """z ← z + Δt [tanh(W y + Wz z + x) - γ y - ε z], y ← y + Δt z."""
    W, Wz, damped, spring = W.t(), Wz.t(), 1 - dt * epsilon, -dt * gamma

    def step(x_n: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        force = torch.addmm(torch.addmm(x_n, y, W), z, Wz).tanh()
        z = (damped * z).add(force, alpha=dt).add(y, alpha=spring)
        return y.add(z, alpha=dt), z

    ys, (y, z) = over_time(step, x, (y, z), lengths)
    return ys, y, z


def exprnn(x: Tensor, W: Tensor, b: Tensor, h: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """h ← modrelu(W h + x), modrelu(a) = sign(a) relu(|a| + b)."""
    W = W.t()

    def step(x_n: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        a = torch.addmm(x_n, h, W)
        return (a.sign() * (a.abs() + b).relu(),)

    hs, (h,) = over_time(step, x, (h,), lengths)
    return hs, h


def lem(
    x: Tensor, W: Tensor, Wy: Tensor, y: Tensor, z: Tensor, dt: float, lengths: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """LEM's step; x (N, b, 4m) holds the drives of Δt, Δt', z and y, W (3m, m) is for the first three."""
    W, Wy, m = W.t(), Wy.t(), y.shape[1]

    def step(x_n: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        first, last = x_n.split((3 * m, m), 1)
        steps, force = torch.addmm(first, y, W).split((2 * m, m), 1)
        dt_z, dt_y = (dt * steps.sigmoid()).chunk(2, 1)
        z = z.lerp(force.tanh(), dt_z)
        return y.lerp(torch.addmm(last, z, Wy).tanh(), dt_y), z

    ys, (y, z) = over_time(step, x, (y, z), lengths)
    return ys, y, z
