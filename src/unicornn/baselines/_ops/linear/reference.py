"""The linear recurrences of LRU and LinOSS as plain torch loops over time.

Any device, any floating dtype, differentiable by autograd as often as you like. Shapes: drives (N, b, m), coefficients
(m,), states (b, m), lengths (b,) or None. Each returns what the recurrence shows at every step, of which the padding
does not matter, and the state at each sequence's own end.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unicornn.baselines._base import over_time


def rotation(v: Tensor, re: Tensor, im: Tensor, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """x ← λ x + v, complex: λ = re + i im; v (2, N, b, m), x (2, b, m) and what is shown are two real planes."""

    def step(v_n: Tensor, pair: Tensor) -> tuple[Tensor, ...]:
        p, q = pair.chunk(2, -1)
        return (torch.cat([re * p - im * q, re * q + im * p], -1) + v_n,)

    outputs, (final,) = over_time(step, torch.cat([v[0], v[1]], -1), (torch.cat([x[0], x[1]], -1),), lengths)
    return torch.stack(outputs.chunk(2, -1)), torch.stack(final.chunk(2, -1))


def oscillation(v: Tensor, M: Tensor, z: Tensor, y: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """(z, y) ← M (z + v, y), real: M (4, m) row by row; y is shown; the final z and y."""

    def step(v_n: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        p = z + v_n
        return M[2] * p + M[3] * y, M[0] * p + M[1] * y

    outputs, (y, z) = over_time(step, v, (y, z), lengths)
    return outputs, z, y
