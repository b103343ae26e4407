"""Incremental RNN: the state is the increment that leads to the equilibrium of an ODE."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.baselines._base import Baseline, Common, States, Step, StepLayer


class IncrementalLayer(StepLayer):
    """W (m, d) with the bias, U (m, m), and the K trained steps η."""

    def __init__(self, width: int, m: int, *, iterations: int, alpha: float, **factory: Any) -> None:
        super().__init__()
        self.alpha = alpha
        self.W = nn.Linear(width, m, **factory)
        self.U = nn.Linear(m, m, bias=False, **factory)
        self.eta = nn.Parameter(torch.empty(iterations, **factory))

    def reset_parameters(self) -> None:
        nn.init.normal_(self.W.weight, std=0.1)
        nn.init.normal_(self.U.weight, std=0.1)
        nn.init.zeros_(self.W.bias)
        nn.init.constant_(self.eta, 0.01)

    def prepare(self, x: Tensor) -> tuple[Tensor, Step]:
        U, alpha, steps = self.U.weight.t(), self.alpha, self.eta.unbind(0)

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
        The others are as for ``Baseline``.

    Shapes: input (N, b, d), output (N, b, m), state (h,), h (L, b, m).

    Example:
        >>> import torch
        >>> from unicornn.baselines import Incremental
        >>> output, (h,) = Incremental(3, 16, iterations=5)(torch.randn(50, 4, 3))
        >>> output.shape, h.shape
        (torch.Size([50, 4, 16]), torch.Size([1, 4, 16]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        iterations: int = 1,
        alpha: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        options = {"iterations": checks.integer("iterations", iterations, 1), "alpha": checks.positive("alpha", alpha)}
        super().__init__(input_size, hidden_size, num_layers, IncrementalLayer, options, **common)
