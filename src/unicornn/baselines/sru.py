"""SRU: an element-wise recurrence with a forget gate, and a highway connection around it."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.baselines._base import Baseline, Layer, SequenceNorm, States, hyperparameters
from unicornn.baselines._ops import rowwise
from unicornn.baselines._ops.planes import to_planes


class SRULayer(Layer):
    """W (3, m, width) for x̃, f, r, or (4, m, width) including the highway; v (2, m) and b (2, m) for f, r."""

    def build(self, **factory: Any) -> None:
        m = self.m
        self.scale = math.sqrt(1 + 2 * math.exp(self.options["highway_bias"]))
        self.straight = self.width == m  # no matrix in the highway
        shapes = (3 if self.straight else 4, m, self.width), (2, m), (2, m)
        self.W, self.v, self.b = (nn.Parameter(torch.empty(shape, **factory)) for shape in shapes)
        self.norm = SequenceNorm(m, **factory) if self.options["batch_norm"] else None

    def reset_parameters(self) -> None:
        super().reset_parameters()
        bound = math.sqrt(3 / self.width)
        nn.init.uniform_(self.W, -bound, bound)
        nn.init.uniform_(self.v, -math.sqrt(1.5), math.sqrt(1.5))
        nn.init.zeros_(self.b)
        with torch.no_grad():
            self.W[1:3] *= math.sqrt(0.5)
            self.W[3:] *= self.scale
            self.b[1] += self.options["highway_bias"]

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

    Shapes: input (N, b, d), output (N, b, m) = h, state (c,), c (L, b, m).
    """

    layer, states = SRULayer, ("c",)
    options = hyperparameters(
        highway_bias=(0.0, partial(checks.number, expected="a number in [-100, 100]", ok=lambda x: abs(x) <= 100)),
        batch_norm=(False, checks.flag),
    )
