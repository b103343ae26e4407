"""IndRNN: independently recurrent neurons, in a plain or a dense stack."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.baselines._base import Baseline, Layer, SequenceNorm, States, at_least_one, hyperparameters, or_none
from unicornn.baselines._ops import rowwise


class IndRNNLayer(Layer):
    """W (m, width), u and b (m,), and the optional normalisation."""

    def build(self, **factory: Any) -> None:
        m, length = self.m, self.options["length"]
        self.bound = 1.0 if length is None else 2 ** (1 / length)
        shapes = (m, self.width), (m,), (m,)
        self.W, self.u, self.b = (nn.Parameter(torch.empty(shape, **factory)) for shape in shapes)
        self.norm = SequenceNorm(m, **factory) if self.options["batch_norm"] else None

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.kaiming_uniform_(self.W, a=8.0, mode="fan_in")
        nn.init.uniform_(self.u, 0.0, self.bound)
        nn.init.zeros_(self.b)

    def forward(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        with torch.no_grad():
            if bool((self.u.abs() > self.bound).any()):  # after a step of the optimiser
                self.u.clamp_(-self.bound, self.bound)
        outputs, final = rowwise.indrnn(nn.functional.linear(x, self.W), self.u, self.b, state[0], lengths)
        return (outputs if self.norm is None else self.norm(outputs, lengths)), (final,)


class IndRNN(Baseline):
    """Independently recurrent neural network (Li et al., CVPR 2018; Deep IndRNN, arXiv:1910.06251).

        h_n = relu(W x_n + u ⊙ h_{n-1} + b),  |u| <= 2^(1/N)

    Initialisation: u ~ U(0, 2^(1/N)), and U(2^(-1/N), 2^(1/N)) in the last layer, which has to remember; W
    Kaiming-uniform (fan-in, a=8), b = 0. After each step of the optimiser, the next forward pass clips u to its bound.

    Args:
        connection: "plain": each layer reads the outputs of the layer below. "dense": it reads those of all layers
            below, concatenated, and the output is that of all layers, (N, b, L·m).
        batch_norm: Whether h is normalised before the next layer, over all steps of all sequences, as in the published
            networks.
        length: Length N for which u is bounded; None for any length, which bounds u by 1 and draws it from U(0, 1).

    Shapes: input (N, b, d), output (N, b, m) or (N, b, L·m), state (h,), h (L, b, m), before normalisation.
    """

    layer = IndRNNLayer
    options = hyperparameters(
        connection=("plain", partial(checks.choice, among=("plain", "dense"))),
        batch_norm=(True, checks.flag),
        length=(None, or_none(at_least_one)),
    )

    @property
    def output_size(self) -> int:
        """Number of output features: m, or L·m if dense."""
        return self.hidden_size * (self.num_layers if self.hyperparameters["connection"] == "dense" else 1)

    def _widths(self) -> list[int]:
        dense = self.hyperparameters["connection"] == "dense"
        return [self.input_size] + [self.hidden_size * (l if dense else 1) for l in range(1, self.num_layers)]

    def reset_parameters(self) -> None:
        super().reset_parameters()
        last = self.layers[-1]
        if isinstance(last, IndRNNLayer) and self.hyperparameters["length"] is not None:
            nn.init.uniform_(last.u, 1 / last.bound, last.bound)

    def _stack(
        self, x: Tensor, start: States, lengths: Tensor | None, finish: Callable[[Tensor, int], Tensor]
    ) -> tuple[Tensor, list[States]]:
        if self.hyperparameters["connection"] == "plain":
            return super()._stack(x, start, lengths, finish)
        outputs: list[Tensor] = []
        finals: list[States] = []
        for l, layer in enumerate(self.layers):
            h, final = layer(x, (start[0][l],), lengths)
            outputs.append(finish(h, l))
            finals.append(final)
            x = torch.cat(outputs, -1)
        return x, finals
