"""Lipschitz RNN: a linear part and a Lipschitz non-linearity, both with matrices of controlled symmetry."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.baselines._base import Baseline, States, Step, StepLayer, hyperparameters


class LipschitzLayer(StepLayer):
    """M_A and M_W (m, m), U (m, d) with the bias."""

    def build(self, **factory: Any) -> None:
        self.M_A, self.M_W = (nn.Parameter(torch.empty(self.m, self.m, **factory)) for _ in range(2))
        self.U = nn.Linear(self.width, self.m, **factory)

    def reset_parameters(self) -> None:
        for M in (self.M_A, self.M_W):
            nn.init.normal_(M, std=self.options["init_std"] / self.m)
        nn.init.xavier_normal_(self.U.weight)
        nn.init.zeros_(self.U.bias)

    def matrix(self, M: Tensor) -> Tensor:
        """(1 - β)(M + Mᵀ) + β(M - Mᵀ) - γ I, (m, m)."""
        identity = torch.eye(len(M), device=M.device, dtype=M.dtype)
        return M + (1 - 2 * self.options["beta"]) * M.t() - self.options["gamma"] * identity

    def prepare(self, x: Tensor) -> tuple[Tensor, Step]:
        A, W, epsilon = self.matrix(self.M_A).t(), self.matrix(self.M_W).t(), self.options["epsilon"]

        def step(x_n: Tensor, h: Tensor) -> States:
            return (torch.addmm(h, h, A, alpha=epsilon).add(torch.addmm(x_n, h, W).tanh(), alpha=epsilon),)

        return self.U(x), step


class Lipschitz(Baseline):
    """Lipschitz RNN (Erichson, Azencot, Queiruga, Hodgkinson & Mahoney, ICLR 2021), with Euler steps.

        h_n = h_{n-1} + ε [A h_{n-1} + tanh(W h_{n-1} + U x_n + b)]
        A = (1 - β)(M_A + M_Aᵀ) + β(M_A - M_Aᵀ) - γ I, and W likewise from M_W

    β = 1 makes A + γ I antisymmetric. Initialisation: M_A and M_W ~ N(0, (init_std/m)²), U Xavier-normal, b = 0.

    Args:
        epsilon: Step ε > 0.
        beta: β in [0.5, 1], for A and W.
        gamma: γ >= 0, for A and W.
        init_std: Standard deviation of the entries of M_A and M_W, in units of 1/m.

    Defaults are those of the authors' code for permuted sequential MNIST.
    """

    layer = LipschitzLayer
    options = hyperparameters(
        epsilon=(0.01, checks.positive),
        beta=(0.8, partial(checks.number, expected="a number in [0.5, 1]", ok=lambda x: 0.5 <= x <= 1)),
        gamma=(0.001, checks.not_negative),
        init_std=(32.0, checks.positive),
    )
