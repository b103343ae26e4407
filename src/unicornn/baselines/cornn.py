"""coRNN: coupled, damped and driven oscillators."""

from __future__ import annotations

from typing import Any, Unpack

from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.baselines._base import Baseline, Common, Layer, States
from unicornn.baselines._ops import dense


class CoRNNLayer(Layer):
    """V (m, d) with the bias, W and Wz (m, m)."""

    def __init__(self, width: int, m: int, *, dt: float, gamma: float, epsilon: float, **factory: Any) -> None:
        super().__init__()
        self.constants = dt, gamma, epsilon
        self.V = nn.Linear(width, m, **factory)
        self.W, self.Wz = (nn.Linear(m, m, bias=False, **factory) for _ in range(2))

    def reset_parameters(self) -> None:
        for linear in (self.V, self.W, self.Wz):
            linear.reset_parameters()

    def forward(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        return dense.cornn(self.V(x), self.W.weight, self.Wz.weight, state, self.constants, lengths)


class CoRNN(Baseline):
    """Coupled oscillatory RNN (Rusch & Mishra, ICLR 2021).

        z_n = z_{n-1} + Δt [tanh(W y_{n-1} + Wz z_{n-1} + V x_n + b) - γ y_{n-1} - ε z_{n-1}]
        y_n = y_{n-1} + Δt z_n

    The paper's IMEX scheme has two forms, with the damping ε z at step n or n - 1; this is the explicit one, n - 1,
    used in its experiments. Initialisation: torch's for linear maps, U(-1/√fan-in, 1/√fan-in).

    Args:
        dt, gamma, epsilon: Δt, γ, ε > 0; by default those published for permuted sequential MNIST.
        The others are as for ``Baseline``.

    Shapes: input (N, b, d), output (N, b, m) = y, state (y, z), each (L, b, m).

    Example:
        >>> import torch
        >>> from unicornn.baselines import CoRNN
        >>> output, (y, z) = CoRNN(3, 16, dt=0.034, gamma=1.3, epsilon=12.7)(torch.randn(50, 4, 3))
        >>> output.shape, z.shape
        (torch.Size([50, 4, 16]), torch.Size([1, 4, 16]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        dt: float = 0.076,
        gamma: float = 0.4,
        epsilon: float = 8.0,
        **common: Unpack[Common],
    ) -> None:
        options = {name: checks.positive(name, v) for name, v in (("dt", dt), ("gamma", gamma), ("epsilon", epsilon))}
        super().__init__(input_size, hidden_size, num_layers, CoRNNLayer, options, states=2, **common)
