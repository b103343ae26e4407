"""Antisymmetric RNN, plain and gated: the recurrent matrix has eigenvalues on the imaginary axis."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.baselines._base import Baseline, Layer, States, Step, StepLayer, hyperparameters


class AntisymmetricLayer(StepLayer):
    """The m(m-1)/2 numbers above the diagonal of W, row by row, and V (m, d) with the bias."""

    gates = 1  # rows of V, in units of m

    def build(self, **factory: Any) -> None:
        self.W = nn.Parameter(torch.empty(self.m * (self.m - 1) // 2, **factory))
        self.V = nn.Linear(self.width, self.gates * self.m, **factory)

    def reset_parameters(self) -> None:
        nn.init.normal_(self.W, std=self.m**-0.5)
        nn.init.normal_(self.V.weight, std=self.width**-0.5)
        nn.init.zeros_(self.V.bias)

    def matrix(self) -> Tensor:
        """W - Wᵀ - γ I, (m, m)."""
        row, column = torch.triu_indices(self.m, self.m, 1, device=self.W.device).unbind(0)
        upper = self.W.new_zeros(self.m, self.m).index_put((row, column), self.W)
        return upper - upper.t() - self.options["gamma"] * torch.eye(self.m, device=self.W.device, dtype=self.W.dtype)

    def prepare(self, x: Tensor) -> tuple[Tensor, Step]:
        A, epsilon = self.matrix().t(), self.options["epsilon"]

        def step(x_n: Tensor, h: Tensor) -> States:
            return (h.add(torch.addmm(x_n, h, A).tanh(), alpha=epsilon),)

        return self.V(x), step


class GatedAntisymmetricLayer(AntisymmetricLayer):
    """As ``AntisymmetricLayer``, but V (2m, d), with the rows of the gate last."""

    gates = 2

    def prepare(self, x: Tensor) -> tuple[Tensor, Step]:
        A, epsilon = self.matrix().t(), self.options["epsilon"]

        def step(x_n: Tensor, h: Tensor) -> States:
            candidate, gate = x_n.chunk(2, 1)
            Ah = h @ A
            return (torch.addcmul(h, (gate + Ah).sigmoid(), (candidate + Ah).tanh(), value=epsilon),)

        return self.V(x), step


class Antisymmetric(Baseline):
    """Antisymmetric RNN (Chang, Chen, Haber & Chi, ICLR 2019).

        h_n = h_{n-1} + ε tanh((W - Wᵀ - γ I) h_{n-1} + V x_n + b)

    W is strictly upper triangular: an antisymmetric matrix has m(m-1)/2 free numbers. Initialisation: W ~ N(0, 1/m),
    V ~ N(0, 1/d), b = 0. The paper also tries other variances of W, and tunes ε and γ for each task.

    Args:
        epsilon: Step ε > 0.
        gamma: Diffusion γ >= 0.
    """

    layer: type[Layer] = AntisymmetricLayer
    options = hyperparameters(epsilon=(0.01, checks.positive), gamma=(0.01, checks.not_negative))


class GatedAntisymmetric(Antisymmetric):
    """Antisymmetric RNN with an input gate that shares the recurrent matrix (Chang, Chen, Haber & Chi, ICLR 2019).

    With A = W - Wᵀ - γ I, σ̂ the sigmoid and ⊙ the element-wise product:

        g_n = σ̂(A h_{n-1} + V_g x_n + b_g)
        h_n = h_{n-1} + ε g_n ⊙ tanh(A h_{n-1} + V x_n + b)

    Initialisation and arguments as for ``Antisymmetric``; V_g as V, b_g = 0.
    """

    layer = GatedAntisymmetricLayer
