"""The largest Lyapunov exponent of any recurrent module that is driven by an input."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.errors import BadValue
from unicornn.theory._profile import check_module, check_sequence, ran, tensors_of


class Lyapunov(NamedTuple):
    """exponent: per step, the mean over the batch. running: (periods, b), the estimate after each period of steps.

    Example:
        >>> import torch
        >>> from unicornn import theory
        >>> found = theory.lyapunov_exponent(torch.nn.LSTM(2, 4), torch.randn(300, 3, 2))
        >>> found.exponent < 0, found.running.shape[1]
        (True, 3)
    """

    exponent: float
    running: Tensor


def lyapunov_exponent(module: nn.Module, input: Tensor, size: float = 1e-7, period: int = 10) -> Lyapunov:
    """The largest Lyapunov exponent with respect to a perturbation of the input, by forward differences.

    Two runs side by side: in the second the first step's input is changed. From then on both see the same input; after
    every ``period`` steps the logarithm of their states' distance is noted, and the second state is pulled back to
    ``size`` from the first. Zero: a change of the input neither dies away nor grows exponentially; negative: it is
    forgotten; positive: chaos. In float64, whatever the module's dtype, without dropout. That of a driven UnICORNN is
    positive and small: over N steps an estimate cannot tell it from a growth by a power of N, which adds ln(N)/N.
    ``gradient_growth`` follows a UnICORNN over a million steps in seconds.

    Args:
        module: takes (input, state), gives (output, state), as nn.LSTM and UnICORNN do.
        input: (N, b, d), (b, N, d) if the module is ``batch_first``. The first tenth is left for the runs to settle.
        size: of the perturbation.
        period: steps between renormalisations.

    Example:
        >>> import torch
        >>> from unicornn import theory
        >>> theory.lyapunov_exponent(torch.nn.LSTM(2, 8), torch.randn(1000, 2, 2)).exponent < -0.1  # it forgets
        True
    """
    check_module(module)
    checks.positive("size", size)
    checks.integer("period", period, 1)
    check_sequence(input)
    net = copy.deepcopy(module).double().eval()
    if getattr(net, "batch_first", False):
        input = input.transpose(0, 1)
        setattr(net, "batch_first", False)  # noqa: B010, for mypy
    u = input.detach().double()
    N, b, _ = u.shape
    if 20 * period > N:
        raise BadValue(f"input: expected at least 20 periods of {period} steps, got N={N}")
    both = torch.cat([u, u], 1)
    changed = both.clone()
    changed[0, b:] += size * torch.randn_like(u[0]) / u.shape[2] ** 0.5

    growth, settle = [], N // 10 // period
    with torch.no_grad():
        _, state = ran(net, changed[:period])
        for n in range(period, N - period + 1, period):
            _, state = ran(net, both[n : n + period], _pulled_back(state, b, size))
            growth.append(torch.log(_distance(state, b) / size))
    kept = torch.stack(growth[settle:])
    running = kept.cumsum(0) / (period * torch.arange(1, len(kept) + 1, dtype=torch.float64)[:, None])
    return Lyapunov(float(running[-1].mean()), running)


def _distance(state: Any, b: int) -> Tensor:
    """Between the states of the two runs, per sequence: (b,)."""
    squares = [(t[..., b:, :] - t[..., :b, :]).square().sum(-1) for t in tensors_of(state)]
    return torch.stack([s.sum(0) if s.dim() > 1 else s for s in squares]).sum(0).sqrt()


def _pulled_back(state: Any, b: int, size: float) -> Any:
    """The second state brought to ``size`` from the first, in the direction in which it lies."""
    distance, tensors = _distance(state, b), []
    for t in tensors_of(state):
        mine, other = t[..., :b, :], t[..., b:, :]
        tensors.append(torch.cat([mine, mine + (other - mine) * (size / distance)[:, None]], -2))
    return tensors[0] if isinstance(state, Tensor) else tuple(tensors)
