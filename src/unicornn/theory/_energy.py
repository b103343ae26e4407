"""Energies: the Hamiltonian of the hidden states, Eq. (4), and that of their gradients, Eq. (9)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn import readouts
from unicornn._layer import UnICORNN
from unicornn.theory._orbit import Orbit, check_orbit, orbits


def energy(orbit: Orbit) -> Tensor:
    """Eq. (4) of every neuron and sequence after each step, with that step's input: (N, b, m).

    A neuron with w = 0, for which Eq. (4) is not defined, has the potential y tanh(x), whose force is the right one.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> orbit = theory.orbits(UnICORNN(2, 4), torch.randn(50, 3, 2))[0]
        >>> theory.energy(orbit).shape
        torch.Size([50, 3, 4])
    """
    check_orbit(orbit)
    return readouts.energy(orbit.y[1:], orbit.z[1:], orbit.w, orbit.alpha, orbit.x)


def hamiltonian(layer: UnICORNN, input: Tensor, state: Any = None) -> Tensor:
    """Eq. (4) along a run: H(y_n, z_n, t_n) of every layer, after steps n = 1, …, N, (L, N, b).

    With constant input the continuous system conserves it. Symplectic Euler does so up to an error of order Δt that
    does not grow with time; see ``explicit_euler`` for what another method does. A time step σ̂(c) of its own for each
    neuron changes nothing: neurons are independent, and each conserves its own part.

    Args: as ``orbits``.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> H = theory.hamiltonian(UnICORNN(1, 8, dt=0.01), torch.ones(10_000, 1, 1))
        >>> bool((H - H[:, :1]).abs().max() < 0.1)
        True
    """
    return torch.stack([energy(orbit).sum(-1) for orbit in orbits(layer, input, state)])


def explicit_euler(orbit: Orbit) -> Orbit:
    """The same oscillators, from the same state under the same drive, by explicit Euler: y moves with the old z.

    The method that keeps no structure: energy and phase-space volume grow with every step.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> (orbit,) = theory.orbits(UnICORNN(1, 8, dt=0.1), torch.ones(2000, 1, 1))
        >>> H = theory.energy(theory.explicit_euler(orbit)).sum(-1)
        >>> bool(H[-1] > 10 * H[0])
        True
    """
    check_orbit(orbit)
    y, z, w, a, alpha = orbit.y[0], orbit.z[0], orbit.w, orbit.a, orbit.alpha
    ys, zs = torch.empty_like(orbit.y), torch.empty_like(orbit.z)
    ys[0], zs[0] = y, z
    for n, x in enumerate(orbit.x):
        y, z = y + a * z, z - a * (torch.tanh(w * y + x) + alpha * y)
        ys[n + 1], zs[n + 1] = y, z
    return orbit._replace(y=ys, z=zs)


def gradient_orbit(orbit: Orbit, parameter: str = "w") -> tuple[Tensor, Tensor]:
    """Eq. (8), discretised as the layer is: y_θ and z_θ, (N + 1, b, m), for θ = w_i or b_i of each neuron i.

    A parameter of neuron i moves neuron i alone, so all neurons are looked at in one go.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> orbit = theory.orbits(UnICORNN(2, 4), torch.randn(50, 3, 2))[0]
        >>> y, z = theory.gradient_orbit(orbit, "b")
        >>> y.shape
        torch.Size([51, 3, 4])
    """
    check_orbit(orbit)
    checks.choice("parameter", parameter, ("w", "b"))
    slope, a = orbit.slope, orbit.a
    C = orbit.y[:-1] if parameter == "w" else torch.ones_like(orbit.x)
    y, z = torch.zeros_like(orbit.y), torch.zeros_like(orbit.z)
    for n in range(len(orbit.x)):
        z[n + 1] = z[n] - a * (slope[n] * (orbit.w * y[n] + C[n]) + orbit.alpha * y[n])
        y[n + 1] = y[n] + a * z[n + 1]
    return y, z


def gradient_hamiltonian(layer: UnICORNN, input: Tensor, parameter: str = "w", state: Any = None) -> Tensor:
    """Eq. (9) along a run, for θ = w_i or b_i of every neuron i: (L, N, b, m).

    The Hamiltonian of the hidden states' gradients y_θ, z_θ. Their phase-space volume is preserved too (see
    ``jacobian``), so they cannot fall into a stable fixed point at zero: gradients do not vanish.

    Args:
        parameter: "w" or "b". layer, input, state: as ``orbits``.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> theory.gradient_hamiltonian(UnICORNN(2, 4), torch.randn(50, 3, 2), "b").shape
        torch.Size([1, 50, 3, 4])
    """
    result = []
    for orbit in orbits(layer, input, state):
        y, z = (t[1:] for t in gradient_orbit(orbit, parameter))
        slope = 1 - torch.tanh(orbit.w * orbit.y[1:] + orbit.x) ** 2
        C = orbit.y[1:] if parameter == "w" else torch.ones_like(orbit.x)
        result.append(orbit.alpha / 2 * y**2 + z**2 / 2 + slope * (orbit.w * y**2 / 2 + C * y))
    return torch.stack(result)
