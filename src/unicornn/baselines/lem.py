"""LEM: two states with time steps that depend on the input and the state."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.baselines._base import Baseline, Layer, States, hyperparameters
from unicornn.baselines._ops import dense


class LEMLayer(Layer):
    """V (4m, d) with the biases, for Δt_n, Δt'_n, z, y in this order; W (3m, m) for the first three; Wy (m, m)."""

    def build(self, **factory: Any) -> None:
        m = self.m
        self.V = nn.Linear(self.width, 4 * m, **factory)
        self.W = nn.Linear(m, 3 * m, bias=False, **factory)
        self.Wy = nn.Linear(m, m, bias=False, **factory)

    def reset_parameters(self) -> None:
        for p in self.parameters():
            nn.init.uniform_(p, -(self.m**-0.5), self.m**-0.5)

    def forward(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        return dense.lem(self.V(x), self.W.weight, self.Wy.weight, state, self.options["dt"], lengths)


class LEM(Baseline):
    """Long expressive memory (Rusch, Mishra, Erichson & Mahoney, ICLR 2022).

    With σ̂ the sigmoid and ⊙ the element-wise product:

        Δt_n = Δt σ̂(W_1 y_{n-1} + V_1 x_n + b_1)
        Δt'_n = Δt σ̂(W_2 y_{n-1} + V_2 x_n + b_2)
        z_n = (1 - Δt_n) ⊙ z_{n-1} + Δt_n ⊙ tanh(W_z y_{n-1} + V_z x_n + b_z)
        y_n = (1 - Δt'_n) ⊙ y_{n-1} + Δt'_n ⊙ tanh(W_y z_n + V_y x_n + b_y)

    Initialisation: all parameters U(-1/√m, 1/√m).

    Args:
        dt: Δt in (0, 1]; 1 by default, as published.
    """

    layer, states = LEMLayer, ("y", "z")
    options = hyperparameters(dt=(1.0, partial(checks.number, expected="a number in (0, 1]", ok=lambda x: 0 < x <= 1)))
