"""One time step of all layers on the CPU without gradient: the bits of a sequence of one step, in a fraction of the
time.

The kernel works on memory addresses. ``address`` decides which tensors it may read; everything else takes the ordinary
path through the op.
"""

from __future__ import annotations

import threading
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from unicornn._ops.cpu import launch
from unicornn._ops.cpu.driver import grid_constants, number_type, state_type
from unicornn._ops.cpu.memory import LARGE, reused
from unicornn._ops.cpu.sizes import PANEL, ROWS, B, blocks
from unicornn._state import UNIT, State, value
from unicornn._torch_internals import any_mode_active

if TYPE_CHECKING:
    from unicornn._weights import Weights

_PLAIN = (Tensor, nn.Parameter)
_time_steps: dict[Any, Any] = {}  # c and its time steps, by address; the kernel compares the values of c
_packed = threading.local()


def empty_packed(dtype: torch.dtype, L: int, m: int, d: int, skip: int, alpha: float) -> Any:
    """A ``Packed`` for ``pack_layers``, without parameters. Its bits are those of NaN, which no parameters match."""
    number, wide = number_type(dtype), PANEL // dtype.itemsize
    columns = np.array([d, *[m] * (L - 1), *([d, *[m] * (L - skip - 1)] if skip < L else [])])
    sizes = columns * (-(-m // wide) * wide)
    M = np.full(sizes.sum(), np.nan, number)
    bits = np.full(columns.sum() * m, -1, np.int32 if dtype == torch.float32 else np.int64)
    size = L * blocks(m) * 2 * B
    constants = grid_constants(dtype, alpha)
    at = sizes.cumsum() - sizes
    return _kernel("Packed")(M, at, bits, np.zeros(size, number), np.zeros(size), constants, L, m, d, skip)


def _kernel(name: str) -> Any:
    return launch.kernel("unicornn._ops.cpu.step_kernels", name)


def address(t: Any, shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """The address at which a kernel may read ``t``, or 0 if it must not.

    It may if t is a plain strided tensor on the CPU (not a subclass, which may redefine anything) of this shape and
    dtype, contiguous, in a storage that is large enough, and if its memory holds its values: no lazy negation or zero.
    """
    if type(t) not in _PLAIN or t.dtype is not dtype or t.is_nested or t.layout is not torch.strided:
        return 0
    if t.shape != shape or not (t.is_cpu and t.is_contiguous()):
        return 0
    size = dtype.itemsize
    if t.is_neg() or t.untyped_storage().nbytes() < (t.storage_offset() + prod(shape)) * size:
        return 0
    at: int = t.data_ptr()  # of an _efficientzerotensor: 0
    return 0 if at % size else at


def step(
    u: Any, weights: Weights, dt: tuple[float, ...], alpha: float, state: Any, backend: str
) -> tuple[Tensor, State] | None:
    """The output (b, m) and the state after a step without gradient from u (b, d), or None if this path does not apply.

    Also None if y and z differ from the grid or leave its range: the ordinary path raises the appropriate error.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return None
    if any_mode_active():
        return None
    first = weights.w[0]
    if type(u) is not Tensor or u.is_nested or u.dim() != 2 or type(first) not in _PLAIN or first.dim() != 1:
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
    if 2 * y.nbytes < LARGE:  # ``reused`` would take longer than a small step
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
    # A copy, so that keeping the outputs of many steps does not keep their states.
    return y_next[-1].clone(), State(y_next, z_next, grid=grid_next, rest=rest)


def _addresses(weights: Weights, m: int, d: int, dtype: torch.dtype) -> list[int] | None:
    """Addresses of w, b, c, V, Λ (or 0) and a 0 for each layer; None if one of them must not be read."""
    w, V, b, c, Lambda = weights
    L, S = len(w), weights.S
    if not len(V) == len(b) == len(c) == L or not (S >= 2 or S == L) or (Lambda is not None and len(Lambda) != L):
        return None
    row, at = (m,), []
    for l in range(L):
        vectors = address(w[l], row, dtype), address(b[l], row, dtype), address(c[l], row, dtype)
        matrix = address(V[l], (m, m if l else d), dtype)
        skip = address(Lambda[l], (m, d if l == S else m), dtype) if l >= S and Lambda is not None else -1
        if not (all(vectors) and matrix and skip):
            return None
        at += [*vectors, matrix, max(skip, 0), 0]
    return at


def _launch(at: list[int], batch: int, d: int, dtype: torch.dtype, weights: Weights, dt: Any, alpha: float) -> bool:
    """Runs the kernels; returns whether they could. Avoids torch functions, which take longer than a small step."""
    L, (m,) = len(weights.w), weights.w[0].shape
    sizes = dtype, L, m, d, weights.S, alpha
    if getattr(_packed, "sizes", None) != sizes:  # one per thread, kept for the next step
        _packed.sizes, _packed.net = sizes, empty_packed(*sizes)
        _packed.state = np.empty(0, state_type(dtype))
    addresses, net, state = np.array(at, np.int64).reshape(-1, 6), _packed.net, _packed.state
    threads = min(torch.get_num_threads(), batch // (2 * ROWS))
    key = at[2], L, m, dt, dtype
    for again in (False, True):
        if again or key not in _time_steps:
            from unicornn._weights import time_steps

            if len(_time_steps) >= 64:
                _time_steps.clear()
            c = weights.c
            _time_steps[key] = torch.stack(list(c)).numpy(), time_steps(c, dt, torch.float64).numpy()
        known = _time_steps[key]
        if threads > 1 and not launch.call(_kernel("pack_layers"), dtype, addresses, *known, net):
            continue
        arguments = addresses, *known, net, state, batch  # threads find that the layers are packed
        wrong = launch.share_out(_kernel("step"), dtype, -(-batch // ROWS), threads, *arguments)
        if wrong >= 0:
            return wrong == 0
    return False  # c has NaN
