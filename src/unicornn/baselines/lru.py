"""LRU: a complex diagonal linear recurrence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.baselines._base import States, hyperparameters
from unicornn.baselines._ops import rowwise
from unicornn.baselines._ops.planes import from_planes, to_planes
from unicornn.baselines._state_space import StateSpace, StateSpaceLayer


class LRULayer(StateSpaceLayer):
    """nu, theta, gamma (P,), the logarithms of ν, θ, γ."""

    affine = True

    def build(self, **factory: Any) -> None:
        super().build(**factory)
        P = self.options["state_size"]
        self.nu, self.theta, self.gamma = (nn.Parameter(torch.empty(P, **factory)) for _ in range(3))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        r_min, r_max, max_phase = (self.options[name] for name in ("r_min", "r_max", "max_phase"))
        P, m = self.B.shape[1:]
        with torch.no_grad():
            # 1 - U(0, 1) is never 0, so that the logarithms are finite.
            square = r_min**2 + (r_max**2 - r_min**2) * (1 - torch.rand_like(self.nu))
            square.clamp_(max=1 - torch.finfo(square.dtype).eps)
            self.nu.copy_((-0.5 * square.log()).log())
            self.theta.copy_((max_phase * (1 - torch.rand_like(self.theta))).log())
            self.gamma.copy_(0.5 * torch.log1p(-square))
        nn.init.normal_(self.B, std=(2 * m) ** -0.5)
        nn.init.normal_(self.C, std=P**-0.5)

    def eigenvalues(self) -> tuple[Tensor, Tensor]:
        """Real and imaginary part of λ, (P,) each."""
        modulus, phase = torch.exp(-torch.exp(self.nu)), torch.exp(self.theta)
        return modulus * torch.cos(phase), modulus * torch.sin(phase)

    def recur(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        v = to_planes(x, torch.exp(self.gamma)[:, None] * self.B)
        states, final = rowwise.rotation(v, *self.eigenvalues(), torch.stack(state), lengths)
        conjugate = self.C.new_tensor([1.0, -1.0])[:, None, None]
        return from_planes(states, self.C * conjugate), (final[0], final[1])


class LRU(StateSpace):
    """Linear recurrent unit (Orvieto et al., ICML 2023), in the blocks of the paper.

        s_n = λ ⊙ s_{n-1} + γ ⊙ B x̂_n,  λ = exp(-ν + iθ), complex, as are s (P), B and C
        y_n = Re(C s_n) + D ⊙ x̂_n
        h_n = x_n + GLU(GELU(y_n))

    ν, θ, γ are trained as logarithms, x̂ = x after batch normalisation, and a linear encoder precedes the first layer
    if d is not m.

    Initialisation: λ uniform on the ring r_min <= |λ| <= r_max with phases in (0, max_phase], γ = √(1 - |λ|²),
    B ~ N(0, 1/(2m)) and C ~ N(0, 1/P), real and imaginary parts each, D ~ N(0, 1), linear maps as torch does.

    Args:
        state_size: Number of complex states P; m if None.
        r_min, r_max: Radii of the ring, 0 <= r_min < r_max <= 1.
        max_phase: Largest phase, in (0, 2π].
        batch_norm: Whether x is normalised, over all steps of all sequences.

    Shapes: input (N, b, d), output (N, b, m) = h, state (Re s, Im s), each (L, b, P).
    """

    layer, states = LRULayer, ("re", "im")
    options = hyperparameters(
        **StateSpace.options,
        r_min=(0.0, checks.not_negative),
        r_max=(1.0, partial(checks.number, expected="a number in (0, 1]", ok=lambda x: 0 < x <= 1)),
        max_phase=(
            2 * math.pi,
            partial(checks.number, expected="a number in (0, 2π]", ok=lambda x: 0 < x <= 2 * math.pi),
        ),
    )

    def _checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        options = super()._checked(given)
        r_max = options["r_max"]
        checks.number("r_min", options["r_min"], f"a number in [0, r_max={r_max})", lambda x: x < r_max)
        return options
