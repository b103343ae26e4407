"""expRNN: an orthogonal recurrent matrix, the exponential of an antisymmetric one."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal

from unicornn import _checks as checks
from unicornn.baselines._base import Baseline, Layer, States, hyperparameters
from unicornn.baselines._ops import dense


class ExpRNNLayer(Layer):
    """V (m, d), the orthogonal W (m, m), parametrised by the numbers below the diagonal of a matrix, and b (m,)."""

    def build(self, **factory: Any) -> None:
        self.V = nn.Linear(self.width, self.m, bias=False, **factory)
        self.W = nn.Linear(self.m, self.m, bias=False, **factory)
        orthogonal(self.W, orthogonal_map="matrix_exp", use_trivialization=False)
        self.b = nn.Parameter(torch.empty(self.m, **factory))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        nn.init.kaiming_normal_(self.V.weight, nonlinearity="relu")
        nn.init.uniform_(self.b, -0.01, 0.01)
        lower: Tensor = self.W.parametrizations["weight"].original  # type: ignore[index, union-attr]
        half = self.m // 2
        if self.options["init"] == "henaff":
            s = torch.empty(half).uniform_(-math.pi, math.pi)
        else:
            # -√((1 - cos t) / (1 + cos t)) with t ~ U(0, π/2) is -tan(t / 2).
            s = -torch.tan(torch.empty(half).uniform_(0, math.pi / 2) / 2)
        lower.zero_()
        even = 2 * torch.arange(half)
        lower[even + 1, even] = -s.to(lower)

    def free_parameters(self) -> int:
        return super().free_parameters() - self.m * (self.m + 1) // 2

    def forward(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        hs, h = dense.exprnn(self.V(x), self.W.weight, self.b, state[0], lengths)
        return hs, (h,)


class ExpRNN(Baseline):
    """expRNN (Lezcano-Casado & Martínez-Rubio, ICML 2019).

        h_n = modrelu(W h_{n-1} + V x_n), W = exp(A), A = -Aᵀ
        modrelu(a) = sign(a) ⊙ relu(|a| + b)

    A has m(m-1)/2 free numbers, which ``free_parameters`` counts; their parameter has m² elements, of which torch's
    parametrisation ignores those on and above the diagonal. Initialisation: V Kaiming-normal, b ~ U(-0.01, 0.01), A
    block-diagonal with blocks [[0, s], [-s, 0]]. The authors train A with a tenth of the learning rate of the rest.

    Args:
        init: "cayley" (Helfrich et al., 2018): s = -√((1 - cos t)/(1 + cos t)), t ~ U(0, π/2); or "henaff" (Henaff
            et al., 2016): s ~ U(-π, π).
    """

    layer = ExpRNNLayer
    options = hyperparameters(init=("cayley", partial(checks.choice, among=("cayley", "henaff"))))

    def learning_rates(self) -> dict[str, float]:
        return {"W.parametrizations.weight.original": 0.1}
