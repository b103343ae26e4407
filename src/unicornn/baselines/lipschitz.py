"""Lipschitz RNN: a linear part and a Lipschitz non-linearity, both with matrices of controlled symmetry."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.baselines._base import Baseline, Common, States, Step, StepLayer


class LipschitzLayer(StepLayer):
    """M_A and M_W (m, m), U (m, d) with the bias."""

    def __init__(
        self, width: int, m: int, *, epsilon: float, beta: float, gamma: float, init_std: float, **factory: Any
    ) -> None:
        super().__init__()
        self.epsilon, self.beta, self.gamma, self.init_std = epsilon, beta, gamma, init_std
        self.M_A, self.M_W = (nn.Parameter(torch.empty(m, m, **factory)) for _ in range(2))
        self.U = nn.Linear(width, m, **factory)

    def reset_parameters(self) -> None:
        for M in (self.M_A, self.M_W):
            nn.init.normal_(M, std=self.init_std / len(M))
        nn.init.xavier_normal_(self.U.weight)
        nn.init.zeros_(self.U.bias)

    def matrix(self, M: Tensor) -> Tensor:
        """(1 - β)(M + Mᵀ) + β(M - Mᵀ) - γ I, (m, m)."""
        identity = torch.eye(len(M), device=M.device, dtype=M.dtype)
        return M + (1 - 2 * self.beta) * M.t() - self.gamma * identity

    def prepare(self, x: Tensor) -> tuple[Tensor, Step]:
        A, W, epsilon = self.matrix(self.M_A).t(), self.matrix(self.M_W).t(), self.epsilon

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
        The others are as for ``Baseline``. Defaults are those of the authors' code for permuted sequential MNIST.

    Shapes: input (N, b, d), output (N, b, m), state (h,), h (L, b, m).

    Example:
        >>> import torch
        >>> from unicornn.baselines import Lipschitz
        >>> output, (h,) = Lipschitz(3, 16, beta=0.65)(torch.randn(50, 4, 3))
        >>> output.shape, h.shape
        (torch.Size([50, 4, 16]), torch.Size([1, 4, 16]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        epsilon: float = 0.01,
        beta: float = 0.8,
        gamma: float = 0.001,
        init_std: float = 32.0,
        **common: Unpack[Common],
    ) -> None:
        options = {
            "epsilon": checks.positive("epsilon", epsilon),
            "beta": checks.number("beta", beta, "a number in [0.5, 1]", lambda x: 0.5 <= x <= 1),
            "gamma": checks.not_negative("gamma", gamma),
            "init_std": checks.positive("init_std", init_std),
        }
        super().__init__(input_size, hidden_size, num_layers, LipschitzLayer, options, **common)
