"""What LRU and LinOSS are layers of: a linear recurrence, then a nonlinearity at each step, and a skip connection."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unicornn.baselines._base import Layer
from unicornn.baselines._normalise import SequenceNorm


class StateSpaceLayer(Layer):
    """x + GLU(GELU(S(x̂) + D ⊙ x̂)), x̂ = x normalised, S the linear recurrence.

    Where the width is not m, a linear encoder makes m features of the input first. GLU(v) = (W v + b) ⊙ σ̂(W' v + b').

    Shapes: D (m,), GLU's W and W' together (2m, m), b and b' (2m,).
    """

    affine: bool  # whether the normalisation has a scale and a shift of its own

    def __init__(self, width: int, m: int, *, batch_norm: bool, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.encoder = nn.Linear(width, m, device=device, dtype=dtype) if width != m else None
        self.norm = SequenceNorm(m, affine=self.affine, device=device, dtype=dtype) if batch_norm else None
        self.D = nn.Parameter(torch.empty(m, device=device, dtype=dtype))
        self.glu = nn.Linear(m, 2 * m, device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        for module in (self.encoder, self.norm, self.glu):
            if module is not None:
                module.reset_parameters()
        nn.init.normal_(self.D)

    def recur(self, x: Tensor, state: tuple[Tensor, ...], lengths: Tensor | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        """S: from (N, b, m) to (N, b, m), and the final state."""
        raise NotImplementedError

    def forward(
        self, x: Tensor, state: tuple[Tensor, ...], lengths: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        x = x if self.encoder is None else self.encoder(x)
        normal = x if self.norm is None else self.norm(x, lengths)
        y, final = self.recur(normal, state, lengths)
        y = nn.functional.gelu(torch.addcmul(y, self.D, normal), approximate="tanh")
        return x + nn.functional.glu(self.glu(y), -1), final
