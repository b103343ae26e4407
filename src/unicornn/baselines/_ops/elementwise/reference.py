"""The element-wise recurrences of IndRNN, SRU and minGRU as plain torch loops over time.

Any device, any floating dtype, differentiable by autograd as often as you like. Shapes: drives (N, b, m), parameters
(m,), states (b, m), lengths (b,) or None. Each returns what the recurrence shows at every step, of which the padding
does not matter, and the state at each sequence's own end.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unicornn.baselines._base import over_time


def indrnn(x: Tensor, u: Tensor, b: Tensor, h: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """h ← relu(x + b + u h)."""
    outputs, (final,) = over_time(lambda x_n, h: (torch.relu(x_n + b + u * h),), x, (h,), lengths)
    return outputs, final


def gated(
    x: Tensor, s: Tensor | None, v: Tensor, b: Tensor, c: Tensor, alpha: float, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:
    """f, r = σ(x + v c + b), c ← f c + (1 - f) x̃, h = r c + (1 - r) α s; without s, there is no r, and c is shown.

    x (3, N, b, m) holds the drives of x̃, f, r, or (2, N, b, m) those of x̃ and f; v (2, m); b (3, m).
    """
    planes = x if s is None else torch.cat([x, s[None]])

    def step(x_n: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        new, f = x_n[0] + b[0], torch.sigmoid(x_n[1] + v[0] * c + b[1])
        after = f * c + (1 - f) * new
        if s is None:
            return after, after
        r = torch.sigmoid(x_n[2] + v[1] * c + b[2])
        return r * after + (1 - r) * alpha * x_n[3], after

    outputs, (_, final) = over_time(step, planes.transpose(0, 1), (c, c), lengths)
    return outputs, final
