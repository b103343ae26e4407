"""LinOSS: forced harmonic oscillators, linear in their state."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.baselines._base import States, hyperparameters
from unicornn.baselines._ops import rowwise
from unicornn.baselines._state_space import StateSpace, StateSpaceLayer


class LinOSSLayer(StateSpaceLayer):
    """A, step (P,)."""

    affine = False

    def build(self, **factory: Any) -> None:
        super().build(**factory)
        self.A, self.step = (nn.Parameter(torch.empty(self.options["state_size"], **factory)) for _ in range(2))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        P, m = self.B.shape[1:]
        nn.init.uniform_(self.A, 0.0, 1.0)
        nn.init.uniform_(self.step, 0.0, 1.0)
        nn.init.uniform_(self.B, -(m**-0.5), m**-0.5)
        nn.init.uniform_(self.C, -(P**-0.5), P**-0.5)

    def transition(self) -> tuple[Tensor, Tensor]:
        """M (4, P), row by row, and the time steps Δt (P,)."""
        A, dt = torch.relu(self.A), torch.sigmoid(self.step)
        if self.options["discretisation"] == "im":
            S = 1 / (1 + dt**2 * A)
            return torch.stack([S, -dt * A * S, dt * S, S]), dt
        return torch.stack([torch.ones_like(A), -dt * A, dt, 1 - dt**2 * A]), dt

    def recur(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        # M is real, so real and imaginary parts are independent neurons.
        M, dt = self.transition()
        v = nn.functional.linear(x, (dt[:, None] * self.B).flatten(0, 1))
        z, y = torch.cat(state[:2], -1), torch.cat(state[2:], -1)
        ys, z, y = rowwise.oscillation(v, torch.cat([M, M], -1), z, y, lengths)
        C = torch.cat([self.C[0], -self.C[1]], -1)
        return nn.functional.linear(ys, C), (*z.chunk(2, -1), *y.chunk(2, -1))


class LinOSS(StateSpace):
    """Linear oscillatory state-space model (Rusch & Rus, ICLR 2025), in the blocks of the paper.

    P oscillators y'' = -A ⊙ y + B x̂ with A >= 0, as a first-order system with z = y', and A, Δt diagonal:

        im     z_n = z_{n-1} + Δt (-A y_n + B x̂_n),      y_n = y_{n-1} + Δt z_n
        imex   z_n = z_{n-1} + Δt (-A y_{n-1} + B x̂_n),  y_n = y_{n-1} + Δt z_n

        h_n = x_n + GLU(GELU(Re(C y_n) + D ⊙ x̂_n))

    B and C are complex, x̂ = x after batch normalisation (without scale and shift), and a linear encoder precedes the
    first layer if d is not m. The implicit equations have the dissipative solution (z, y)_n = M (z + Δt B x̂, y);
    "imex" is symplectic, like UnICORNN. A is the relu of a parameter, Δt the sigmoid of one.

    Initialisation: A and Δt's parameter ~ U(0, 1), B ~ U(-1/√m, 1/√m) and C ~ U(-1/√P, 1/√P), real and imaginary
    parts each, D ~ N(0, 1), linear maps as torch does.

    Args:
        state_size: Number of oscillators P; m if None.
        discretisation: "im" or "imex".
        batch_norm: Whether x is normalised, over all steps of all sequences.

    The paper also applies dropout after GELU; here it follows each layer.

    Shapes: input (N, b, d), output (N, b, m) = h, state (Re z, Im z, Re y, Im y), each (L, b, P).
    """

    layer, states = LinOSSLayer, ("z_re", "z_im", "y_re", "y_im")
    options = hyperparameters(
        **StateSpace.options,
        discretisation=("im", partial(checks.choice, among=("im", "imex"))),
    )
