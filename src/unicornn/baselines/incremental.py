"""Incremental RNN: the state is the increment that leads to the equilibrium of an ODE."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.baselines._base import Baseline, States, Step, StepLayer, at_least_one, hyperparameters


class IncrementalLayer(StepLayer):
    """W (m, d) with the bias, U (m, m), and the K trained steps η."""

    def build(self, **factory: Any) -> None:
        self.W = nn.Linear(self.width, self.m, **factory)
        self.U = nn.Linear(self.m, self.m, bias=False, **factory)
        self.eta = nn.Parameter(torch.empty(self.options["iterations"], **factory))

    def reset_parameters(self) -> None:
        nn.init.normal_(self.W.weight, std=0.1)
        nn.init.normal_(self.U.weight, std=0.1)
        nn.init.zeros_(self.W.bias)
        nn.init.constant_(self.eta, 0.01)

    def prepare(self, x: Tensor) -> tuple[Tensor, Step]:
        U, alpha, steps = self.U.weight.t(), self.options["alpha"], self.eta.unbind(0)

        def step(x_n: Tensor, h: Tensor) -> States:
            s = h + h  # g + h_{n-1}, where g starts from h_{n-1}
            for eta in steps:
                s = torch.addcmul(s, eta, torch.addmm(x_n, s, U).relu().sub(s, alpha=alpha))
            return (s - h,)

        return self.W(x), step


class Incremental(Baseline):
    """Incremental RNN, iRNN (Kag, Zhang & Saligrama, ICLR 2020).

    The state after step n is the equilibrium of g' = φ(U (g + h_{n-1}) + W x_n + b) - α (g + h_{n-1}), φ being ReLU,
    approximated by K Euler steps from g⁰ = h_{n-1} with trained step sizes η_i:

        g^{i+1} = g^i + η_i [φ(U (g^i + h_{n-1}) + W x_n + b) - α (g^i + h_{n-1})]
        h_n = g^K

    At the equilibrium ∂h_n/∂h_{n-1} = -I, so gradients neither vanish nor explode. The published η also depend on n,
    which ties a model to one length; here they do not. Start and initialisation are those of the authors' later code
    for such cells: g⁰ = h_{n-1}, W, U ~ N(0, 0.1²), b = 0, η = 0.01.

    Args:
        iterations: Number of Euler steps K >= 1.
        alpha: α > 0.
    """

    layer = IncrementalLayer
    options = hyperparameters(iterations=(1, at_least_one), alpha=(1.0, checks.positive))
