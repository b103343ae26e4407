"""Hidden states of a run, layer by layer, and what follows from them: energies and Jacobians."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn import functional
from unicornn._layer import UnICORNN
from unicornn._ops import reference
from unicornn._state import State
from unicornn.errors import BadType, BadValue
from unicornn.functional import Weights


class Orbit(NamedTuple):
    """States of one layer along a run, in float64. Neurons of a layer are independent oscillators.

    Args:
        y, z: states 0 to N, (N + 1, b, m).
        x: drive of steps 1 to N, V yˡ⁻¹ + Λ yˡ⁻ˢ⁻¹ + b, (N, b, m).
        w, a: weights and effective time steps Δt·σ̂(c), (m,).
        alpha: α.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> first, second = theory.orbits(UnICORNN(2, 4, num_layers=2), torch.randn(50, 3, 2))
        >>> first.y.shape, second.x.shape, first.energy().shape
        (torch.Size([51, 3, 4]), torch.Size([50, 3, 4]), torch.Size([50, 3, 4]))
    """

    y: Tensor
    z: Tensor
    x: Tensor
    w: Tensor
    a: Tensor
    alpha: float

    @property
    def slope(self) -> Tensor:
        """Derivative σ'(A_{n-1}) of the tanh at the pre-activations w y_{n-1} + x_n of Suppl. Eq. (6), (N, b, m)."""
        return 1 - torch.tanh(self.w * self.y[:-1] + self.x) ** 2

    def energy(self) -> Tensor:
        """Energy of every neuron after each step, Eq. (4) with that step's drive, (N, b, m).

        Eq. (4) is undefined for w = 0; such a neuron has the potential y tanh(x), which gives the right force.
        """
        return reference.energy(self.y[1:], self.z[1:], self.w, self.alpha, self.x)

    def jacobian(self) -> Tensor:
        """Jacobian ∂(y_n, z_n)/∂(y_{n-1}, z_{n-1}) of every neuron and step, (N, b, m, 2, 2)."""
        stiffness = self.w * self.slope + self.alpha
        y_row = torch.stack([1 - self.a**2 * stiffness, self.a.expand_as(stiffness)], -1)
        z_row = torch.stack([-self.a * stiffness, torch.ones_like(stiffness)], -1)
        return torch.stack([y_row, z_row], -2)

    def explicit_euler(self) -> Orbit:
        """Orbit of the same oscillators from the same start by explicit Euler, which conserves nothing."""
        y, z = [self.y[0]], [self.z[0]]
        for x in self.x:
            kick = reference.kick(torch.tanh(self.w * y[-1] + x), y[-1], self.a, self.alpha)
            y.append(y[-1] + self.a * z[-1])
            z.append(z[-1] - kick)
        return self._replace(y=torch.stack(y), z=torch.stack(z))


def prepared(layer: Any, input: Tensor, state: Any) -> tuple[UnICORNN, Tensor, Any]:
    """A copy of the layer in evaluation mode and with the time first, its input (N, b, d), and the initial state."""
    if not isinstance(layer, UnICORNN):
        raise BadType(f"layer: expected a UnICORNN, got {type(layer).__name__}")
    if layer.bidirectional:
        raise BadValue("layer: expected bidirectional=False, got True")
    u, batched = layer._time_first(input)
    checks.same_kind("input", u, next(layer.parameters()), "the parameters'")
    state = layer._with_batch(state, u.shape[1] if batched else None)
    layer = copy.deepcopy(layer).eval()
    layer.batch_first = False
    return layer, u.detach(), state


def float64_weights(layer: UnICORNN) -> Weights:
    return layer.weights.map(lambda t: t.detach().double())


def drive(weights: Weights, l: int, below: Sequence[Tensor]) -> Tensor:
    """Drive x of layer l (counted from 0), (N, b, m), given the input and the outputs of layers 0 to l - 1."""
    x = torch.nn.functional.linear(below[l], weights.V[l], weights.b[l])
    if weights.Lambda is None or (Lambda := weights.Lambda[l]) is None:
        return x
    return x + torch.nn.functional.linear(below[l - weights.S], Lambda)


def run_driven(layer: UnICORNN, l: int, weights: Weights, x: Tensor, start: Sequence[Tensor]) -> tuple[Tensor, State]:
    """Layer l alone, from its drive x (N, b, m) and start (y, z), each (b, m): outputs (N, b, m) and final state."""
    identity, zero = torch.eye(len(weights.w[l]), dtype=x.dtype, device=x.device), torch.zeros_like(weights.b[l])
    single = Weights([weights.w[l]], [identity], [zero], [weights.c[l]])
    state = (start[0][None], start[1][None])
    return functional.unicornn(x, single, dt=layer.dt[l], alpha=layer.alpha, state=state, gradient="stored")


def _trajectory(layer: UnICORNN, l: int, weights: Weights, x: Tensor, start: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """States y and z, (N + 1, b, m), of layer l along its drive x (N, b, m)."""
    y = torch.cat([start[0][None], run_driven(layer, l, weights, x, start)[0]])
    # A step adds to z what does not depend on z: a single step from z = 0 of all N·b states gives every increment.
    before = y[:-1].flatten(0, 1)
    _, after = run_driven(layer, l, weights, x.flatten(0, 1)[None], (before, torch.zeros_like(before)))
    return y, torch.cat([start[1][None], start[1] + after[1].view_as(x).cumsum(0)])


def orbits(layer: UnICORNN, input: Tensor, state: Any = None) -> list[Orbit]:
    """States of every layer along a run, in float64 and without dropout.

    Args:
        layer: Layer with one direction.
        input: Input in the layer's own form: (N, b, d), (b, N, d) with ``batch_first``, or (N, d), then b = 1.
        state: Initial (y, z), each (L, b, m); zero if None.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> first, second = theory.orbits(UnICORNN(2, 4, 2), torch.randn(100, 3, 2))
        >>> second.y.shape, second.x.shape
        (torch.Size([101, 3, 4]), torch.Size([100, 3, 4]))
    """
    layer, u, state = prepared(layer, input, state)
    weights = float64_weights(layer)
    a = functional.time_steps(weights.c, layer.dt)
    zero = a.new_zeros(layer.num_layers, u.shape[1], layer.hidden_size)
    y0, z0 = (zero, zero) if state is None else (t.detach().double() for t in state)
    below, result = [u.double()], []
    with torch.no_grad():
        for l in range(layer.num_layers):
            x = drive(weights, l, below)
            y, z = _trajectory(layer, l, weights, x, (y0[l], z0[l]))
            result.append(Orbit(y, z, x, weights.w[l], a[l], layer.alpha))
            below.append(y[1:])
    return result


def hamiltonian(layer: UnICORNN, input: Tensor, state: Any = None) -> Tensor:
    """Energy H(y_n, z_n, t_n) of every layer along a run, Eq. (4), after steps n = 1, …, N: (L, N, b).

    With constant input the differential equation conserves it. Symplectic Euler conserves it up to an error of order
    Δt that does not grow with time, also with a different time step σ̂(c) for each neuron: neurons are independent,
    and each conserves its own energy. Arguments as for ``orbits``.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> H = theory.hamiltonian(UnICORNN(1, 8, dt=0.01), torch.ones(10_000, 1, 1))
        >>> bool((H - H[:, :1]).abs().max() < 0.1)
        True
    """
    return torch.stack([orbit.energy().sum(-1) for orbit in orbits(layer, input, state)])


def jacobian(layer: UnICORNN, input: Tensor, state: Any = None) -> Tensor:
    """Jacobian of every step, Suppl. Eq. (21), as 2×2 blocks per neuron: (L, N, b, m, 2, 2).

    Neurons of a layer are independent, so these blocks are all of ∂X_n/∂X_{n-1}. Their determinant is 1: every step
    preserves the volume of phase space, regardless of weights and input. Arguments as for ``orbits``.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> J = theory.jacobian(UnICORNN(2, 4), torch.randn(50, 3, 2))
        >>> bool((torch.linalg.det(J) - 1).abs().max() < 1e-12)
        True
    """
    return torch.stack([orbit.jacobian() for orbit in orbits(layer, input, state)])
