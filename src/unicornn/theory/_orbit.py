"""The hidden states of a run, layer by layer: what the functions of this package look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn import functional
from unicornn._layer import UnICORNN
from unicornn.errors import BadType, BadValue


class Orbit(NamedTuple):
    """One layer along a run, in float64; neuron i of sequence j is an oscillator of its own.

    y, z: (N + 1, b, m), the states from 0 to N.
    x: (N, b, m), what drives step n = 1, …, N: V yˡ⁻¹ + Λ yˡ⁻ˢ⁻¹ + b.
    w, a: (m,), weights and effective time steps Δt·σ̂(c). alpha: α.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> first, second = theory.orbits(UnICORNN(2, 4, num_layers=2), torch.randn(50, 3, 2))
        >>> first.y.shape, second.x.shape
        (torch.Size([51, 3, 4]), torch.Size([50, 3, 4]))
    """

    y: Tensor
    z: Tensor
    x: Tensor
    w: Tensor
    a: Tensor
    alpha: float

    @property
    def A(self) -> Tensor:
        """(N, b, m): the pre-activations A_{n-1} = w y_{n-1} + x_n of Suppl. Eq. (6)."""
        return self.w * self.y[:-1] + self.x

    @property
    def slope(self) -> Tensor:
        """(N, b, m): σ'(A_{n-1}), for σ = tanh."""
        return 1 - torch.tanh(self.A) ** 2


def check_orbit(orbit: Any) -> None:
    if not isinstance(orbit, Orbit):
        raise BadType(f"orbit: expected an Orbit, as orbits returns them, got {type(orbit).__name__}")


def orbits(layer: UnICORNN, input: Tensor, state: Any = None) -> list[Orbit]:
    """All layers of a run, without dropout, in float64.

    Args:
        layer: one direction only.
        input: as the layer takes it: (N, b, d), (b, N, d) with ``batch_first``, or (N, d), then b = 1.
        state: initial (y, z), each (L, b, m), or None for zero.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> first, second = theory.orbits(UnICORNN(2, 4, 2), torch.randn(100, 3, 2))
        >>> second.y.shape, second.x.shape
        (torch.Size([101, 3, 4]), torch.Size([100, 3, 4]))
    """
    if not isinstance(layer, UnICORNN):
        raise BadType(f"layer: expected a UnICORNN, got {type(layer).__name__}")
    if layer.bidirectional:
        raise BadValue("layer: expected bidirectional=False, for time has one direction here")
    u, batched = layer._time_first(input)
    checks.same_kind("input", u, next(layer.parameters()), "the parameters'")
    state = layer._with_batch(state, u.shape[1] if batched else None)
    w, _, _, c, _ = in_float64(layer)
    a = functional.time_steps(c, layer.dt, torch.float64)
    shape = (1, u.shape[1], layer.hidden_size)
    below: list[Tensor] = []
    result = []
    for l, x in enumerate(sources(layer, input, below)):
        start = [x.new_zeros(shape)] * 2 if state is None else [t[l : l + 1].detach().double() for t in state]
        with torch.no_grad():
            out = driven(layer, l, x, start[0], start[1])
        y = torch.cat([start[0], out])
        kicks = a[l] * (torch.tanh(w[l] * y[:-1] + x) + layer.alpha * y[:-1])
        z = start[1] - torch.cat([torch.zeros_like(start[1]), kicks.cumsum(0)])
        result.append(Orbit(y, z, x, w[l], a[l], layer.alpha))
        below.append(out)
    return result


def driven(layer: UnICORNN, l: int, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """What layer l makes of its drive x (N, b, m), from the state y, z (1, b, m): differentiable, (N, b, m)."""
    w, _, b, c, _ = in_float64(layer)
    direct = torch.eye(layer.hidden_size, dtype=torch.float64)
    options: dict[str, Any] = {"dt": layer.dt[l], "alpha": layer.alpha, "state": (y, z)}
    weights = functional.Weights([w[l]], [direct], [torch.zeros_like(b[l])], [c[l]])
    return functional.unicornn(x, weights, **options)[0]


def sources(layer: UnICORNN, input: Tensor, below: list[Tensor]) -> Iterator[Tensor]:
    """x of each layer in turn, (N, b, m): V yˡ⁻¹ + Λ yˡ⁻ˢ⁻¹ + b. Who asks, appends each layer's output to ``below``."""
    _, V, b, _, Lambda = in_float64(layer)
    u = layer._time_first(input)[0].detach().double()
    for l in range(layer.num_layers):
        x = (below[l - 1] if l else u) @ V[l].t() + b[l]
        if Lambda is not None and l >= layer.skip_layers:
            k = l - layer.skip_layers
            x = x + (below[k - 1] if k else u) @ Lambda[l].t()  # type: ignore[union-attr]
        yield x


def in_float64(layer: UnICORNN) -> functional.Weights:
    """The layer's weights, without gradient."""
    return layer.weights.map(lambda t: t.detach().double())
