"""Contribution of step k to the gradient at step n, Eq. (13), by differentiation and by the paper's formulas.

The paper follows one path from the first layer at step k to the last layer at step n: along the first layer in time,
then up through all layers at step n (Suppl. Eq. (19), Suppl. Eq. (65)). A change can also move up earlier, and travel
in time in a higher layer. There are about (n - k)ᴸ⁻¹ such paths, and the gradient is the sum over all of them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn._layer import UnICORNN
from unicornn.errors import BadType
from unicornn.theory._orbit import Orbit, drive, float64_weights, orbits, run_driven


def contributions(
    layer: UnICORNN, input: Tensor, target: Tensor | float = 0.0, state: Any = None, method: str = "exact"
) -> Tensor:
    """Contribution of each step k to the gradient of E_n = ½‖y_nᴸ - ȳ‖² with respect to w¹, (n, b, m).

    w¹ are the weights of the first layer, n is the last step of ``input``. The methods "path" and "formula" follow the
    paper's single path; with one layer, there is no other.

    Args:
        layer, input, state: As for ``orbits``.
        target: Target ȳ, (b, m) or a number.
        method: "exact": by differentiation, along all paths; these add up to ∂E_n/∂w¹. "path": the paper's
            ∂E_{k,1}^{(n,L)}/∂w¹ of Eq. (13), without approximation. "formula": its leading term, Eq. (14) with one
            layer, Suppl. Eq. (62) with three. It depends on k through σ' and y_{k-1} only, hence gradients do not
            vanish with the distance n - k. It is derived for k ≪ n: multiply by (n - k + 1)/n for other k.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> layer, u = UnICORNN(2, 4, 3, dtype=torch.float64), torch.randn(50, 1, 2, dtype=torch.float64)
        >>> parts = theory.contributions(layer, u)
        >>> E = layer(u, output="last")[0].square().sum() / 2
        >>> torch.allclose(parts.sum((0, 1)), torch.autograd.grad(E, layer.w[0])[0])
        True
    """
    checks.choice("method", method, ("exact", "path", "formula"))
    run = orbits(layer, input, state)
    target = _checked_target(target, run[-1].y[-1])
    if method == "exact":
        return _exact(layer, input, run, target)
    first = run[0]
    kick = -first.a * first.slope * first.y[:-1]  # ∂⁺z_k/∂w of Suppl. Eq. (48); ∂⁺y_k/∂w is a times that
    δy = _up_at_the_last_step(layer, run, target)
    if method == "formula":
        return len(first.x) * first.a * kick * δy
    δz, result, J = torch.zeros_like(δy), torch.empty_like(first.x), first.jacobian()
    for k in range(len(J) - 1, -1, -1):
        result[k] = (δz + first.a * δy) * kick[k]
        δy, δz = δy * J[k, ..., 0, 0] + δz * J[k, ..., 1, 0], δy * J[k, ..., 0, 1] + δz * J[k, ..., 1, 1]
    return result


def _checked_target(target: Any, like: Tensor) -> Tensor | float:
    if not isinstance(target, Tensor):
        return checks.number("target", target, "a tensor (b, m) or a finite number")
    if not target.is_floating_point():
        raise BadType(f"target: expected floating-point numbers, got {target.dtype}")
    return checks.tensor("target", target.double(), like.shape if target.dim() else (), "(b, m) or a number", like)


def _exact(layer: UnICORNN, input: Tensor, run: list[Orbit], target: Tensor | float) -> Tensor:
    weights, x = float64_weights(layer), run[0].x.clone().requires_grad_()
    below = [layer._time_first(input)[0].detach().double()]
    for l, orbit in enumerate(run):
        source = drive(weights, l, below) if l else x
        below.append(run_driven(layer, l, weights, source, (orbit.y[0], orbit.z[0]))[0])
    (g,) = torch.autograd.grad((below[-1][-1] - target).square().sum() / 2, x)
    return g * run[0].y[:-1]  # w¹ and x enter as w¹ y + x, so the share of w¹ at step k alone is ∂E/∂x_k · y_{k-1}


def _up_at_the_last_step(layer: UnICORNN, run: list[Orbit], target: Tensor | float) -> Tensor:
    """∂E_n/∂y_n¹ along the paths that lie in step n alone, Suppl. Eq. (22): (b, m)."""
    weights = float64_weights(layer)
    g = [torch.zeros_like(orbit.y[-1]) for orbit in run]
    g[-1] = run[-1].y[-1] - target
    for l in range(len(run) - 1, 0, -1):
        pull = -(run[l].a ** 2) * run[l].slope[-1] * g[l]
        g[l - 1] = g[l - 1] + pull @ weights.V[l]
        if l > weights.S:
            g[l - weights.S - 1] = g[l - weights.S - 1] + pull @ weights.Lambda[l]  # type: ignore[index, operator]
    return g[0]
