"""SRU: an element-wise recurrence with a forget gate, and a highway connection around it."""

from __future__ import annotations

import math
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.baselines._base import Baseline, Common, Layer, SequenceNorm, States
from unicornn.baselines._ops import rowwise
from unicornn.baselines._ops.planes import to_planes


class SRULayer(Layer):
    """W (3, m, width) for x̃, f, r, or (4, m, width) including the highway; v (2, m) and b (2, m) for f, r."""

    def __init__(self, width: int, m: int, *, highway_bias: float, batch_norm: bool, **factory: Any) -> None:
        super().__init__()
        self.highway_bias = highway_bias
        self.scale = math.sqrt(1 + 2 * math.exp(highway_bias))
        self.straight = width == m  # no matrix in the highway
        self.W, self.v, self.b = (
            nn.Parameter(torch.empty(shape, **factory))
            for shape in ((3 if self.straight else 4, m, width), (2, m), (2, m))
        )
        self.norm = SequenceNorm(m, **factory) if batch_norm else None

    def reset_parameters(self) -> None:
        bound = math.sqrt(3 / self.W.shape[2])
        nn.init.uniform_(self.W, -bound, bound)
        nn.init.uniform_(self.v, -math.sqrt(1.5), math.sqrt(1.5))
        nn.init.zeros_(self.b)
        with torch.no_grad():
            self.W[1:3] *= math.sqrt(0.5)
            self.W[3:] *= self.scale
            self.b[1] += self.highway_bias
        if self.norm is not None:
            self.norm.reset_parameters()

    def forward(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        skip, alpha = (x, self.scale) if self.straight else (nn.functional.linear(x, self.W[3]), 1.0)
        b = torch.cat([torch.zeros_like(self.b[:1]), self.b])
        h, c = rowwise.gated(to_planes(x, self.W[:3]), skip, self.v, b, state[0], alpha, lengths)
        return (h if self.norm is None else self.norm(h, lengths)), (c,)


class SRU(Baseline):
    """Simple recurrent unit (Lei et al., EMNLP 2018).

    With σ̂ the sigmoid and ⊙ the element-wise product:

        f_n = σ̂(W_f x_n + v_f ⊙ c_{n-1} + b_f)
        r_n = σ̂(W_r x_n + v_r ⊙ c_{n-1} + b_r)
        c_n = f_n ⊙ c_{n-1} + (1 - f_n) ⊙ W x_n
        h_n = r_n ⊙ c_n + (1 - r_n) ⊙ α x_n,  α = √(1 + 2 exp(initial b_r))

    If x_n does not have m features, W_h x_n replaces α x_n in the last line.

    Initialisation: all W ~ U(-√(3/d), √(3/d)), variance 1/d; v ~ U(-√3, √3); both times √½ in the gates, W_h times α;
    b_f = 0.

    Args:
        highway_bias: Initial b_r.
        batch_norm: Whether h is normalised before the next layer, over all steps of all sequences: not in the published
            network, but in that of Fig. 2.
        The others are as for ``Baseline``.

    Shapes: input (N, b, d), output (N, b, m) = h, state (c,), c (L, b, m).

    Example:
        >>> import torch
        >>> from unicornn.baselines import SRU
        >>> output, (c,) = SRU(3, 16, num_layers=2)(torch.randn(50, 4, 3))
        >>> output.shape, c.shape
        (torch.Size([50, 4, 16]), torch.Size([2, 4, 16]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        highway_bias: float = 0.0,
        batch_norm: bool = False,
        **common: Unpack[Common],
    ) -> None:
        options: dict[str, Any] = {
            "highway_bias": checks.number(
                "highway_bias", highway_bias, "a number in [-100, 100]", lambda x: abs(x) <= 100
            ),
            "batch_norm": checks.flag("batch_norm", batch_norm),
        }
        super().__init__(input_size, hidden_size, num_layers, SRULayer, options, **common)
