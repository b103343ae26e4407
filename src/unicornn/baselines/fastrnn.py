"""FastRNN: a plain RNN with a weighted residual connection."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unicornn.baselines._base import Baseline, States, Step, StepLayer


class FastRNNLayer(StepLayer):
    """W (m, d) with the bias, U (m, m), and the numbers α and β."""

    def build(self, **factory: Any) -> None:
        self.W = nn.Linear(self.width, self.m, **factory)
        self.U = nn.Linear(self.m, self.m, bias=False, **factory)
        self.alpha, self.beta = (nn.Parameter(torch.empty((), **factory)) for _ in range(2))

    def reset_parameters(self) -> None:
        nn.init.normal_(self.W.weight, std=0.1)
        nn.init.normal_(self.U.weight, std=0.1)
        nn.init.ones_(self.W.bias)
        nn.init.constant_(self.alpha, -3.0)
        nn.init.constant_(self.beta, 3.0)

    def prepare(self, x: Tensor) -> tuple[Tensor, Step]:
        U, alpha, beta = self.U.weight.t(), self.alpha.sigmoid(), self.beta.sigmoid()

        def step(x_n: Tensor, h: Tensor) -> States:
            return (torch.addcmul(beta * h, alpha, torch.addmm(x_n, h, U).tanh()),)

        return self.W(x), step


class FastRNN(Baseline):
    """FastRNN (Kusupati, Singh, Bhatia, Kumar, Jain & Varma, NeurIPS 2018), without compression of the matrices.

    With σ̂ the sigmoid and two trained numbers, α and β:

        h_n = σ̂(α) tanh(W x_n + U h_{n-1} + b) + σ̂(β) h_{n-1}

    Initialisation, that of the authors' code: W, U ~ N(0, 0.1²), b = 1, α = -3, β = 3.
    """

    layer = FastRNNLayer
