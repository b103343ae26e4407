"""What inversion in plain floating point would have lost, on this layer and this input, against the exact one."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unicornn import functional
from unicornn._layer import UnICORNN
from unicornn._ops import adjoint, reference
from unicornn._ops.driver import Stack
from unicornn.errors import BadType
from unicornn.theory._orbit import orbits


class _Plain(adjoint.Recurrence):
    """The recurrence without a grid: states are floats of the layer's dtype, and so is all arithmetic."""

    def __init__(self, w: Tensor, b: Tensor, a: Tensor, alpha: float, grid: Tensor) -> None:
        self.w, self.b, self.a, self.alpha, self.unit = w, b, a.to(w.dtype), alpha, 1.0
        self.state = self.end = grid.clone()
        self.out_of_range = 0

    def _real(self, units: Tensor) -> Tensor:
        return units

    def _kick(self, t: Tensor, Y: Tensor) -> Tensor:
        return self.a * (t + self.alpha * Y)

    def _drift(self, Z: Tensor) -> Tensor:
        return self.a * Z

    def _check(self) -> None:
        pass


@dataclass(frozen=True)
class Reconstruction:
    """Errors of the inverse, by layer, and of the gradients it would have led to.

    size: (L,), the largest |y| of the run. plain, exact: (L,), the largest error of the recovered start, by inversion
    in plain floats and by the layer's own inverse (zero). gradients: by parameter, how far those by plain inversion
    are from those with the same states stored, relative to them.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> found = theory.reconstruction_error(UnICORNN(2, 4), torch.randn(200, 3, 2))
        >>> bool(found.plain.max() > 0), bool(found.exact.any()), sorted(found.gradients)
        (True, False, ['V.0', 'b.0', 'w.0'])
    """

    size: Tensor
    plain: Tensor
    exact: Tensor
    gradients: dict[str, float]


def reconstruction_error(layer: UnICORNN, input: Tensor, state: Any = None) -> Reconstruction:
    """Runs the layer forwards and backwards in its own dtype without a grid, as the authors' code does, and exactly.

    The gradients are those of ½‖output‖², all steps. The plain run is a loop in Python: some ten thousand steps of a
    layer take seconds.

    Args: as ``orbits``; float32 layers are the interesting ones.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> result = theory.reconstruction_error(UnICORNN(2, 8, dt=0.1), torch.randn(1000, 1, 2))
        >>> float(result.exact.max()), bool(result.plain.max() > 0)
        (0.0, True)
    """
    if not isinstance(layer, UnICORNN) or layer.bidirectional:
        raise BadType(f"layer: expected a UnICORNN of one direction, got {layer}")
    layer = copy.deepcopy(layer).eval()  # no dropout, and gradients of its own
    u, batched = layer._time_first(input)
    u, state = u.detach(), layer._with_batch(state, u.shape[1] if batched else None)
    shape = 2, layer.num_layers, u.shape[1], layer.hidden_size
    start = u.new_zeros(shape) if state is None else torch.stack([t.detach() for t in state])
    layer.batch_first = False

    with torch.no_grad():
        _, final = layer(u, (start[0], start[1]), output="last")
        exact = torch.stack(list(layer.inverse(u, final)))

    names = [name for name, _ in layer.named_parameters() if not name.startswith("c.")]
    layer.requires_grad_(True)
    p = functional._problem(
        u, layer.weights, (start[0], start[1]), dt=layer.dt, alpha=layer.alpha, lengths=None, mask=None,
        backend="reference", output="all",
    )  # fmt: skip
    output, y, z = reference.forward(p)
    parameters = dict(layer.named_parameters())
    right = torch.autograd.grad(output.square().sum() / 2, [parameters[name] for name in names])
    with torch.no_grad():
        plain = Stack(_Plain, p._replace(grid=torch.stack([y, z]), keep="reversible"))
        found = plain.backward(output, torch.zeros_like(start), False)
    by_letter: dict[str, Any] = {
        "w": found.w,
        "V": found.V,
        "b": found.b,
        "Lambda": [*[None] * layer.skip_layers, *found.Lambda],
    }
    gradients = {}
    for name, g in zip(names, right, strict=True):
        letter, _, l = name.partition(".")
        lost = by_letter[letter][int(l)] - g
        gradients[name] = float(lost.norm() / g.norm()) if g.any() else 0.0
    size = torch.stack([orbit.y.abs().max() for orbit in orbits(layer, u, (start[0], start[1]))])
    lost = [(recovered - start).abs().amax((0, 2, 3)) for recovered in (plain.state, exact)]
    return Reconstruction(size, lost[0], lost[1], gradients)
