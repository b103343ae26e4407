"""What step k still contributes to the gradient at step n: Eq. (13), by differentiation and by the paper's formulas.

Throughout, E_n = ½‖y_nᴸ - ȳ‖² and θ = w¹, the weights of the first layer, of every neuron p: all results are (n, b, m),
with k = 1, …, n in front.

The paper follows one way from the first layer at step k to the last at step n: along the first layer in time, then up
through all layers at step n (Suppl. Eq. (19), Suppl. Eq. (65)). A change can also go up earlier, and travel in time higher up. There
are about (n - k)ᴸ⁻¹ such ways, and ``contributions`` takes them all, as the gradient does. With one layer there is one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn._layer import UnICORNN
from unicornn.errors import BadType, BadValue
from unicornn.theory._jacobian import blocks
from unicornn.theory._orbit import Orbit, driven, orbits, sources


def _check_target(target: Any, like: Tensor) -> None:
    if not isinstance(target, Tensor):
        checks.number("target", target, "a tensor (b, m) or a finite number")
    elif target.layout != torch.strided or not target.is_floating_point() or target.device != like.device:
        raise BadType(f"target: expected floating-point numbers on {like.device}, got {checks.describe(target)}")
    elif target.shape not in ((), like.shape):
        raise BadValue(f"target: expected shape {tuple(like.shape)} (b, m) or a number, got {tuple(target.shape)}")


def contributions(layer: UnICORNN, input: Tensor, target: Tensor | float = 0.0, state: Any = None) -> Tensor:
    """∂E_n/∂w¹ as a sum over k of what w¹ did at step k, exactly, by differentiation: n is the last step of ``input``.

    Args:
        target: ȳ, (b, m) or a number. layer, input, state: as ``orbits``.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> layer, u = UnICORNN(2, 4, 3, dtype=torch.float64), torch.randn(50, 1, 2, dtype=torch.float64)
        >>> parts = theory.contributions(layer, u)
        >>> E = layer(u, output="last")[0].square().sum() / 2
        >>> torch.allclose(parts.sum((0, 1)), torch.autograd.grad(E, layer.w[0])[0])
        True
    """
    run = orbits(layer, input, state)
    _check_target(target, run[-1].y[-1])
    x = run[0].x.clone().requires_grad_()  # what w¹ y adds to at step k: ∂E/∂w at k alone is ∂E/∂x_k · y_{k-1}
    below: list[Tensor] = []
    for l, (orbit, source) in enumerate(zip(run, sources(layer, input, below), strict=True)):
        below.append(driven(layer, l, source if l else x, orbit.y[:1], orbit.z[:1]))
    loss = (below[-1][-1] - target).square().sum() / 2
    (g,) = torch.autograd.grad(loss, x)
    return g * run[0].y[:-1]


def _up_at_the_end(layer: UnICORNN, run: list[Orbit], target: Tensor | float) -> Tensor:
    """∂E_n/∂y_n¹ by the ways that lie in step n alone, Suppl. Eq. (22): (b, m)."""
    g = [torch.zeros_like(orbit.y[-1]) for orbit in run]
    g[-1] = run[-1].y[-1] - target
    _, V, _, _, Lambda = layer.weights
    for l in range(len(run) - 1, 0, -1):
        orbit = run[l]
        pull = -(orbit.a**2) * orbit.slope[-1] * g[l]
        g[l - 1] = g[l - 1] + pull @ V[l].detach().double()
        if Lambda is not None and l > layer.skip_layers:
            g[l - layer.skip_layers - 1] = g[l - layer.skip_layers - 1] + pull @ Lambda[l].detach().double()  # type: ignore[union-attr]
    return g[0]


def _kick(orbit: Orbit) -> Tensor:
    """∂⁺z_k/∂w of Suppl. Eq. (48), (n, b, m); ∂⁺y_k/∂w is a times that."""
    return -orbit.a * orbit.slope * orbit.y[:-1]


def one_way(layer: UnICORNN, input: Tensor, target: Tensor | float = 0.0, state: Any = None) -> Tensor:
    """The paper's ∂E_{k,1}^{(n,L)}/∂w¹ of Eq. (13): along the first layer, then up at step n (Suppl. Eq. (65)). Exact otherwise.

    With one layer these are the ``contributions``. Arguments as there.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> layer, u = UnICORNN(2, 4), torch.randn(50, 3, 2)
        >>> torch.allclose(theory.one_way(layer, u), theory.contributions(layer, u))
        True
    """
    run = orbits(layer, input, state)
    _check_target(target, run[-1].y[-1])
    first, B = run[0], blocks(run[0])
    δy = _up_at_the_end(layer, run, target)
    δz = torch.zeros_like(δy)
    result = torch.empty_like(first.x)
    kick = _kick(first)
    for k in range(len(first.x) - 1, -1, -1):
        result[k] = (δz + first.a * δy) * kick[k]
        J = B[k]
        δy, δz = δy * J[..., 0, 0] + δz * J[..., 1, 0], δy * J[..., 0, 1] + δz * J[..., 1, 1]
    return result


def representation(
    layer: UnICORNN, input: Tensor, target: Tensor | float = 0.0, state: Any = None, since_k: bool = False
) -> Tensor:
    """Eq. (14) (one layer), Suppl. Eq. (62) (three) and the like for any number: the leading term of ``one_way``.

    With one layer -Δt σ̂(c)² t_n σ'(A_{k-1}) y_{k-1} (y_n - ȳ). It depends on k through σ' and y only: gradients do not
    vanish with the distance n - k.

    Args:
        since_k: t_n - t_{k-1} in place of t_n, which is what the derivation has before k ≪ n. Others as for
            ``contributions``.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> layer, u = UnICORNN(2, 4, dt=1e-3), torch.randn(20, 1, 2)
        >>> exact, formula = theory.contributions(layer, u), theory.representation(layer, u, since_k=True)
        >>> bool((exact - formula).abs().max() < 1e-3 * exact.abs().max())
        True
    """
    run = orbits(layer, input, state)
    _check_target(target, run[-1].y[-1])
    first, n = run[0], len(run[0].x)
    steps = torch.arange(n, 0, -1, dtype=torch.float64)[:, None, None] if since_k else float(n)
    return steps * first.a * _kick(first) * _up_at_the_end(layer, run, target)


def layers_on_the_shortest_way(L: int, S: int = 0) -> int:
    """From the first layer to the last, by Suppl. Eq. (75)'s connections from layer ℓ - S - 1 to ℓ, for ℓ > S + 1.

    Example:
        >>> layers_on_the_shortest_way(7), layers_on_the_shortest_way(7, S=3)
        (7, 4)
    """
    checks.integer("L", L, 1)
    checks.integer("S", S, 0)
    at, count = L, 1
    while at > 1:
        at -= S + 1 if S and at > S + 1 else 1
        count += 1
    return count


def papers_exponent(L: int, S: int = 0) -> int:
    """Suppl. Eq. (74), 2L - 1, and with residual stacking Suppl. Eq. (80), 2ν + 2L - 2νS - 1: the power of Δt of the contributions.

    Example:
        >>> papers_exponent(7), papers_exponent(7, S=3)
        (13, 5)
    """
    checks.integer("L", L, 1)
    if not checks.integer("S", S, 0):
        return 2 * L - 1
    ν = L // S if L % S else L // S - 1
    return 2 * ν + 2 * L - 2 * ν * S - 1
