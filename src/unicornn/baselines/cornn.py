"""coRNN: coupled, damped and driven oscillators."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.baselines._base import Baseline, Layer, States, hyperparameters
from unicornn.baselines._ops import dense


class CoRNNLayer(Layer):
    """V (m, d) with the bias, W and Wz (m, m)."""

    def build(self, **factory: Any) -> None:
        self.V = nn.Linear(self.width, self.m, **factory)
        self.W, self.Wz = (nn.Linear(self.m, self.m, bias=False, **factory) for _ in range(2))

    def forward(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        return dense.cornn(self.V(x), self.W.weight, self.Wz.weight, state, tuple(self.options.values()), lengths)


class CoRNN(Baseline):
    """Coupled oscillatory RNN (Rusch & Mishra, ICLR 2021).

        z_n = z_{n-1} + Δt [tanh(W y_{n-1} + Wz z_{n-1} + V x_n + b) - γ y_{n-1} - ε z_{n-1}]
        y_n = y_{n-1} + Δt z_n

    The paper's IMEX scheme has two forms, with the damping ε z at step n or n - 1; this is the explicit one, n - 1,
    used in its experiments. Initialisation: torch's for linear maps, U(-1/√fan-in, 1/√fan-in).

    Args:
        dt, gamma, epsilon: Δt, γ, ε > 0; by default those published for permuted sequential MNIST.
    """

    layer, states = CoRNNLayer, ("y", "z")
    options = hyperparameters(
        dt=(0.076, checks.positive),
        gamma=(0.4, checks.positive),
        epsilon=(8.0, checks.positive),
    )
