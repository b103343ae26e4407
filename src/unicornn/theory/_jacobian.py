"""How a step moves the states of a neuron: Suppl. Eq. (21), and the phase-space volume that it preserves."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unicornn._layer import UnICORNN
from unicornn.theory._orbit import Orbit, orbits


def blocks(orbit: Orbit) -> Tensor:
    """∂(y_n, z_n)/∂(y_{n-1}, z_{n-1}) of every neuron and step, (N, b, m, 2, 2)."""
    a = orbit.a
    stiffness = orbit.w * orbit.slope + orbit.alpha
    one = torch.ones_like(stiffness)
    rows = torch.stack([1 - a**2 * stiffness, a * one], -1), torch.stack([-a * stiffness, one], -1)
    return torch.stack(rows, -2)


def jacobian(layer: UnICORNN, input: Tensor, state: Any = None) -> Tensor:
    """Suppl. Eq. (21): the 2×2 blocks of the Jacobian of a step, one per layer, step, sequence and neuron, (L, N, b, m, 2, 2).

    Neurons do not touch each other within a layer, so these blocks are all of ∂X_n/∂X_{n-1}. Their determinant is 1:
    the volume of phase space is preserved, whatever weights and input (Liouville).

    Args: as ``orbits``.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> J = theory.jacobian(UnICORNN(2, 4), torch.randn(50, 3, 2))
        >>> bool((torch.linalg.det(J) - 1).abs().max() < 1e-12)
        True
    """
    return torch.stack([blocks(orbit) for orbit in orbits(layer, input, state)])
