"""One time step of all layers on the CPU for a stream: the bits of a stack over one step, in a fraction of the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from unicornn._ops import cpu, launch
from unicornn._state import UNIT, State, value

if TYPE_CHECKING:
    from unicornn._weights import Weights

_steps: dict[Any, Any] = {}  # c and its time steps, by address; the kernel compares c's values


def step(
    u: Any, weights: Weights, dt: tuple[float, ...], alpha: float, state: Any, backend: str
) -> tuple[Tensor, State] | None:
    """The output (b, m) and the state after a step without gradient, u (b, d), or None where this path does not apply.

    None too if y and z are not what the grid says, or leave its range. What is wrong, the long way will say.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return None
    first: Tensor = weights.w[0]
    dtype = first.dtype
    if not isinstance(u, Tensor) or u.dim() != 2 or u.dtype != dtype or dtype not in UNIT:
        return None
    batch, d = u.shape
    if not (u.is_cpu and first.is_cpu and d == weights.d and batch <= cpu.FEW and backend in ("auto", "cpu")):
        return None
    shape, rest = (len(weights.w), batch, len(first)), None
    if state is None:
        y = z = first.new_zeros(shape)
        grid = torch.zeros((2, *shape), dtype=torch.int64)
    elif isinstance(state, State) and state.grid is not None and state[0].shape == shape == state[1].shape:
        (y, z), grid, rest = state, state.grid, state.rest
        if y.dtype != dtype or z.dtype != dtype or grid.shape != (2, *shape):
            return None
        if rest is not None:
            if not torch.equal(torch.stack([y, z]), value(grid, rest, dtype)):
                return None
            y, z = value(grid, None, dtype).unbind(0)
    else:
        return None
    S = weights.S
    if not _fits(weights, S, d, dtype) or not all(t.is_contiguous() and t.is_cpu for t in (u, y, z, grid)):
        return None
    after = _launch(u, (y, z, grid), weights, S, dt, alpha)
    if after is None:
        return None
    y, z, grid = after
    if rest is not None:
        y, z = value(grid, rest, dtype).unbind(0)
    return y[-1], State(y, z, grid=grid, rest=rest)


def _fits(weights: Weights, S: int, d: int, dtype: torch.dtype) -> bool:
    """Whether a kernel may read all parameters at their addresses."""
    w, V, b, c, Lambda = weights
    L, m = len(w), w[0].shape[0]
    if not len(V) == len(b) == len(c) == L or (Lambda is not None and len(Lambda) != L):
        return False
    for l in range(L):
        shapes = [(w[l], (m,)), (b[l], (m,)), (c[l], (m,)), (V[l], (m, m if l else d))]
        if l >= S and Lambda is not None:
            shapes.append((Lambda[l], (m, d if l == S else m)))  # type: ignore[arg-type]
        for t, shape in shapes:
            if t is None or t.shape != shape or t.dtype != dtype or not (t.is_cpu and t.is_contiguous()):
                return False
    return S >= 2 or S == L


def _launch(
    u: Tensor, state: tuple[Tensor, Tensor, Tensor], weights: Weights, S: int, dt: tuple[float, ...], alpha: float
) -> tuple[Tensor, Tensor, Tensor] | None:
    """y and z (L, b, m) and the grid (2, L, b, m) after the step. Every call of torch counts."""
    w, V, b, c, Lambda = weights
    y, _, grid = state
    key = c[0].data_ptr(), y.shape[0], y.shape[2], dt, y.dtype
    known = _steps.get(key)
    after = torch.empty_like(y), torch.empty_like(y), torch.empty_like(grid)
    at = [[w[l].data_ptr(), b[l].data_ptr(), c[l].data_ptr(), V[l].data_ptr(), 0, 0] for l in range(len(w))]
    if Lambda is not None:
        for l in range(S, len(w)):
            at[l][4] = Lambda[l].data_ptr()  # type: ignore[union-attr]
    at.append([t.data_ptr() for t in (*state, *after)])
    arrays, constants, out = (u.numpy(), np.array(at)), cpu._constants(y.dtype, alpha), -1
    if known is not None:
        out = launch.call(cpu._kernel("step"), y.dtype, *arrays, *known, *constants, S)
    if out == -1:  # another c
        from unicornn._weights import time_steps

        if len(_steps) >= 64:
            _steps.clear()
        known = _steps[key] = torch.stack(list(c)).numpy(), time_steps(c, dt, torch.float64).numpy()
        out = launch.call(cpu._kernel("step"), y.dtype, *arrays, *known, *constants, S)
    return None if out else after
