"""One time step of all layers on the CPU for a stream: the bits of a stack over one step, in a fraction of the time.

The kernel works on addresses. ``address`` alone says which tensors it may be given; all others go the long way.
"""

from __future__ import annotations

import threading
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from unicornn._ops.cpu import driver as cpu
from unicornn._ops.cpu import launch
from unicornn._ops.cpu.memory import LARGE, reused
from unicornn._ops.cpu.sizes import PANEL, ROWS, B
from unicornn._state import UNIT, State, value

if TYPE_CHECKING:
    from unicornn._weights import Weights

_PLAIN = (Tensor, nn.Parameter)
_transforms = torch._C._functorch.peek_interpreter_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack

_steps: dict[Any, Any] = {}  # c and its time steps, by address; the kernel compares c's values
_own = threading.local()


class _Room(NamedTuple):
    """What ``step_kernels`` wants the parameters to be packed in, and an array of the type of the states."""

    M: np.ndarray[Any, Any]
    P: np.ndarray[Any, Any]
    A: np.ndarray[Any, Any]
    K: np.ndarray[Any, Any]
    kind: np.ndarray[Any, Any]


def _room(dtype: torch.dtype, L: int, m: int, d: int, S: int) -> _Room:
    """The room of this thread, kept for the next step."""
    sizes = dtype, L, m, d, S
    kept = getattr(_own, "room", None)
    if kept is None or kept[0] != sizes:
        number, state = (np.float32, np.float64) if dtype == torch.float32 else (np.float64, np.int64)
        blocks, wide = -(-m // B), PANEL // np.dtype(number).itemsize
        ld = -(-m // wide) * wide
        width = d + (L - 1) * m + (d + (L - S - 1) * m if S < L else 0)
        M, P, A = np.empty(width * ld, number), np.zeros(L * blocks * 2 * B, number), np.zeros(L * blocks * 2 * B)
        K = np.full(
            width * m, -1, np.int32 if dtype == torch.float32 else np.int64
        )  # NaN, which is packed all the same
        M.fill(np.nan)
        kept = _own.room = sizes, _Room(M, P, A, K, np.empty(0, state))
    return kept[1]


def _kernel(name: str) -> Any:
    return launch.kernel("unicornn._ops.cpu.step_kernels", name)


def address(t: Any, shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """Where a kernel may read ``t``, or 0 if it must not.

    It may, if t is a plain, strided tensor on the CPU (of no subclass, which could mean anything) of this shape and
    dtype, contiguous, in a storage that is as large as that, and if its memory holds its values: no negation or zero
    that is yet to be carried out.
    """
    if type(t) not in _PLAIN or t.dtype is not dtype or t.shape != shape or not (t.is_cpu and t.is_contiguous()):
        return 0
    size = dtype.itemsize
    if t.is_neg() or t.untyped_storage().nbytes() < (t.storage_offset() + prod(shape)) * size:
        return 0
    at: int = t.data_ptr()  # of an _efficientzerotensor: 0
    return 0 if at % size else at


def step(
    u: Any, weights: Weights, dt: tuple[float, ...], alpha: float, state: Any, backend: str
) -> tuple[Tensor, State] | None:
    """The output (b, m) and the state after a step without gradient, u (b, d), or None where this path does not apply.

    None too if y and z are not what the grid says, or leave its range. What is wrong, the long way will say.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return None
    if _transforms() is not None or forward_ad._current_level >= 0 or _dispatch_modes() or _function_modes():
        return None
    first = weights.w[0]
    if type(u) is not Tensor or u.dim() != 2 or type(first) not in _PLAIN or first.dim() != 1:
        return None
    (batch, d), (m,), dtype = u.shape, first.shape, first.dtype
    if not (batch and dtype in UNIT and backend in ("auto", "cpu")):
        return None
    shape, both = (len(weights.w), batch, m), (2, len(weights.w), batch, m)
    grid: Tensor | None
    rest = None
    if state is None:
        y = z = first.new_zeros(shape)
        grid = torch.zeros(both, dtype=torch.int64)
    elif isinstance(state, State) and len(state) == 2:
        (y, z), grid, rest = state, state.grid, state.rest
    else:
        return None
    states = [address(y, shape, dtype), address(z, shape, dtype), address(grid, both, torch.int64)]
    at = _addresses(weights, m, d, dtype)
    at_u = address(u, (batch, d), dtype)
    if at is None or grid is None or not (all(states) and at_u):
        return None
    if rest is not None:
        fine = address(rest, both, torch.float64) and torch.equal(torch.stack([y, z]), value(grid, rest, dtype))
        if not fine:
            return None
        y, z = value(grid, None, dtype).unbind(0)
        states[:2] = y.data_ptr(), z.data_ptr()
    if 2 * y.nbytes < LARGE:  # of which ``reused`` would think for longer than a small step takes
        grid_next, pair = torch.empty(both, dtype=torch.int64), torch.empty(both, dtype=dtype)
    else:
        grid_next, pair = reused(grid, *both), reused(first, *both)
    y_next, z_next = pair.unbind(0)
    at.extend((*states, y_next.data_ptr(), z_next.data_ptr(), grid_next.data_ptr()))
    at[5] = at_u
    if not _launch(at, batch, d, dtype, weights, dt, alpha):
        return None
    if rest is not None:
        y_next, z_next = value(grid_next, rest, dtype).unbind(0)
    # A copy: one who keeps the outputs of many steps should not keep their states.
    return y_next[-1].clone(), State(y_next, z_next, grid=grid_next, rest=rest)


def _addresses(weights: Weights, m: int, d: int, dtype: torch.dtype) -> list[int] | None:
    """Of w, b, c, V, Λ (0 if there is none) and one more 0, layer by layer; None if one must not be read."""
    w, V, b, c, Lambda = weights
    L, S = len(w), weights.S
    if not len(V) == len(b) == len(c) == L or not (S >= 2 or S == L) or (Lambda is not None and len(Lambda) != L):
        return None
    row, at = (m,), []
    for l in range(L):
        own = address(w[l], row, dtype), address(b[l], row, dtype), address(c[l], row, dtype)
        matrix = address(V[l], (m, m if l else d), dtype)
        skip = address(Lambda[l], (m, d if l == S else m), dtype) if l >= S and Lambda is not None else -1
        if not (all(own) and matrix and skip):
            return None
        at += [*own, matrix, max(skip, 0), 0]
    return at


def _launch(at: list[int], batch: int, d: int, dtype: torch.dtype, weights: Weights, dt: Any, alpha: float) -> bool:
    """Runs the kernels; whether they could. Every call of torch counts."""
    L, S, (m,), (unit, *constants) = len(weights.w), weights.S, weights.w[0].shape, cpu._constants(dtype, alpha)
    addresses, room = np.array(at, np.int64).reshape(-1, 6), _room(dtype, L, m, d, S)
    packed = room.M, room.P, room.A, room.kind, unit, *constants, batch, L, m, d, S
    blocks, threads = -(-batch // ROWS), min(torch.get_num_threads(), batch // (2 * ROWS))
    key = at[2], L, m, dt, dtype
    for again in (False, True):
        if again or key not in _steps:
            from unicornn._weights import time_steps

            if len(_steps) >= 64:
                _steps.clear()
            c = weights.c
            _steps[key] = torch.stack(list(c)).numpy(), time_steps(c, dt, torch.float64).numpy()
        known = _steps[key]
        if threads <= 1:
            wrong = launch.call(_kernel("pack_and_step"), dtype, addresses, *known, room.K, *packed, 0, blocks)
        else:
            own = room.M, room.P, room.A, room.K, unit, L, m, d, S
            fits = launch.call(_kernel("pack_all"), dtype, addresses, *known, *own)
            wrong = launch.share_out(_kernel("step"), dtype, blocks, threads, addresses, *packed) if fits else -1
        if wrong >= 0:
            return wrong == 0
    return False  # c has NaN
