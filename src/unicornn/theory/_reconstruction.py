"""Error of inversion in plain floating point, compared with the exact inverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unicornn._layer import UnICORNN
from unicornn._state import State
from unicornn.theory._orbit import orbits, prepared

PIECE = 100  # steps recomputed from a recovered state at once; their own rounding is far below that of the inversion


class Reconstruction(NamedTuple):
    """Errors of the recovered start, by layer, and of the gradients obtained with the recovered states.

    Args:
        size: Largest |y| of the run, (L,).
        plain: Largest error of the start recovered in plain floating point, (L,).
        exact: Largest error of the start recovered by the layer's own inverse, (L,); zero.
        gradients: Relative error of each parameter's gradient, compared with the gradient from stored states.
    """

    size: Tensor
    plain: Tensor
    exact: Tensor
    gradients: dict[str, float]


def reconstruction_error(layer: UnICORNN, input: Tensor, state: Any = None) -> Reconstruction:
    """Runs the layer forwards and backwards in its own dtype without a grid, as the authors' code does, and exactly.

    The gradients are those of ½‖output‖², summed over all steps. The plain run is a loop in Python: ten thousand steps
    take seconds. Arguments as for ``orbits``; float32 layers show the largest errors.

    Returns:
        A ``Reconstruction`` with the fields ``size``, ``plain``, ``exact`` and ``gradients``.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> result = theory.reconstruction_error(UnICORNN(2, 8, dt=0.1), torch.randn(1000, 1, 2))
        >>> float(result.exact.max()), bool(result.plain.max() > 0), sorted(result.gradients)
        (0.0, True, ['V.0', 'b.0', 'c.0', 'w.0'])
    """
    layer, u, state = prepared(layer, input, state)
    zero = u.new_zeros(layer.num_layers, u.shape[1], layer.hidden_size)
    start = State(zero, zero) if state is None else State(*(t.detach() for t in state))

    def error(recovered: Sequence[Tensor]) -> Tensor:
        differences = [(t - s).abs().amax((1, 2)) for t, s in zip(recovered, start, strict=True)]
        return torch.stack(differences).amax(0)

    with torch.no_grad():
        _, final = layer(u, start, output="last")
        exact = error(layer.inverse(u, final))
    size = torch.stack([orbit.y.abs().max() for orbit in orbits(layer, u, tuple(start))])

    layer.backend = "reference"  # Eq. (6) and Eq. (7) in plain floating point
    pieces = u.split(PIECE)
    stored = [start]
    with torch.no_grad():
        for piece in pieces:
            stored.append(layer(piece, stored[-1], output="last")[1])
        recovered = [stored[-1]]
        for piece in reversed(pieces):
            recovered.append(layer.inverse(piece, recovered[-1]))
    reference = _gradients(layer, pieces, stored[:-1])
    gradients = {
        name: float((g - reference[name]).norm() / reference[name].norm()) if reference[name].any() else 0.0
        for name, g in _gradients(layer, pieces, recovered[:0:-1]).items()
    }
    return Reconstruction(size, error(recovered[-1]), exact, gradients)


def _gradients(layer: UnICORNN, pieces: Sequence[Tensor], starts: Sequence[State]) -> dict[str, Tensor]:
    """Gradients of ½‖output‖² by parameter, given the state before each piece."""
    trained = {name: p for name, p in layer.named_parameters() if p.requires_grad}
    sums = {name: torch.zeros_like(p) for name, p in trained.items()}
    adjoint = tuple(torch.zeros_like(t) for t in starts[0])
    for piece, start in zip(reversed(pieces), reversed(starts), strict=True):
        leaves = tuple(t.clone().requires_grad_() for t in start)
        output, final = layer(piece, leaves)
        loss = output.square().sum() / 2 + sum((t * g).sum() for t, g in zip(final, adjoint, strict=True))
        gradients = torch.autograd.grad(loss, [*leaves, *trained.values()])
        adjoint = gradients[:2]
        for name, g in zip(sums, gradients[2:], strict=True):
            sums[name] += g
    return sums
