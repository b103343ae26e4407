"""Layer structure of LRU and LinOSS: a linear recurrence, a nonlinearity at each step, and a skip connection."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.baselines._base import Baseline, Layer, SequenceNorm, States, hyperparameters, or_none


class StateSpaceLayer(Layer):
    """x + GLU(GELU(S(x̂) + D ⊙ x̂)), with x̂ = x after normalisation and S the linear recurrence.

    If the width is not m, a linear encoder first maps the input to m features. GLU(v) = (W v + b) ⊙ σ̂(W' v + b').
    Shapes: B (2, P, m) and C (2, m, P), real and imaginary parts of S's matrices; D (m,); GLU's W and W' together
    (2m, m), b and b' (2m,).
    """

    affine: bool  # whether the normalisation has a trained scale and shift

    def build(self, **factory: Any) -> None:
        m, P = self.m, self.options["state_size"]
        self.encoder = nn.Linear(self.width, m, **factory) if self.width != m else None
        self.norm = SequenceNorm(m, affine=self.affine, **factory) if self.options["batch_norm"] else None
        self.D = nn.Parameter(torch.empty(m, **factory))
        self.glu = nn.Linear(m, 2 * m, **factory)
        self.B, self.C = (nn.Parameter(torch.empty(2, *shape, **factory)) for shape in ((P, m), (m, P)))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.normal_(self.D)

    def recur(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        """S: from (N, b, m) to (N, b, m), and the final state."""
        raise NotImplementedError

    def forward(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        x = x if self.encoder is None else self.encoder(x)
        normal = x if self.norm is None else self.norm(x, lengths)
        y, final = self.recur(normal, state, lengths)
        y = nn.functional.gelu(torch.addcmul(y, self.D, normal), approximate="tanh")
        return x + nn.functional.glu(self.glu(y), -1), final


class StateSpace(Baseline):
    """A stack of such layers, with P states of each kind per layer."""

    options = hyperparameters(
        state_size=(None, or_none(partial(checks.integer, least=1, most=checks.SIZE))), batch_norm=(True, checks.flag)
    )

    def _checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options = super()._checked(given)
        return options | {"state_size": options["state_size"] or self.hidden_size}

    def _state_widths(self) -> tuple[int, ...]:
        return (self.hyperparameters["state_size"],) * len(self.states)
