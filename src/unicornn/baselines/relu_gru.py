"""GRU with ReLU in place of tanh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from unicornn.baselines._base import Baseline, States, Step, StepLayer


def gru_step(
    h: Tensor, x_n: Tensor, gates: Tensor, candidate: Tensor, activation: Callable[[Tensor], Tensor]
) -> Tensor:
    """A step of the GRU by Cho et al., with the reset gate before the product.

    Shapes: h (b, m), x_n (b, 3m) for z, r and the candidate, gates (m, 2m), candidate (m, m).
    """
    m = h.shape[1]
    into, rest = x_n.split((2 * m, m), 1)
    z, r = torch.addmm(into, h, gates).sigmoid().chunk(2, 1)
    return h.lerp(activation(torch.addmm(rest, r * h, candidate)), z)


class ReLUGRULayer(StepLayer):
    """W (3m, d) with the biases, for z, r and the candidate in this order; U (2m, m) for the gates; U_c (m, m)."""

    def build(self, **factory: Any) -> None:
        m = self.m
        self.W = nn.Linear(self.width, 3 * m, **factory)
        self.U = nn.Linear(m, 2 * m, bias=False, **factory)
        self.U_c = nn.Linear(m, m, bias=False, **factory)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        for gate in self.W.weight.chunk(3):
            nn.init.xavier_uniform_(gate)
        for matrix in (*self.U.weight.chunk(2), self.U_c.weight):
            nn.init.orthogonal_(matrix)
        nn.init.zeros_(self.W.bias)

    def prepare(self, x: Tensor) -> tuple[Tensor, Step]:
        U, U_c = self.U.weight.t(), self.U_c.weight.t()

        def step(x_n: Tensor, h: Tensor) -> States:
            return (gru_step(h, x_n, U, U_c, torch.relu),)

        return self.W(x), step


class ReLUGRU(Baseline):
    """GRU with ReLU (Dey & Salem, MWSCAS 2017: their full GRU, "GRU0", with g = ReLU).

    With σ̂ the sigmoid and ⊙ the element-wise product:

        z, r = σ̂(W x_n + U h_{n-1} + b), each with its own W, U, b
        c = relu(W_c x_n + U_c (r ⊙ h_{n-1}) + b_c)
        h_n = (1 - z) ⊙ h_{n-1} + z ⊙ c

    Initialisation, that of Keras, which the paper used: W Glorot-uniform, U orthogonal, b = 0.
    """

    layer = ReLUGRULayer
