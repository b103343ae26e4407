"""Numba kernels of the recurrence on the CPU: one layer over one chunk of time, or one row of neurons over one step.

Neurons and sequences are independent, so a step works on one flat row of E = b·m elements. Rows are cut into blocks of
B elements, which stay in the L1 cache over the whole chunk. Blocks do not interact, so the block size changes no bit.

A step is a chain of operations of about 150 cycles, and about as many instructions as a processor looks ahead. The
vectors of a block are therefore interleaved: tanh and the increments are separate loops over the block, which makes the
forward pass a quarter and the backward pass a tenth faster. All arrays of a block start at multiples of the constant B:

    S  the state           Y, Z: integers in grid units (float64 for float32 layers, int64 for float64 layers)
    A  the time steps      a, and a in grid units, in float64
    P  the parameters      w, b, and in ``advance`` a scratch row: y before the chunk
    D  the adjoint         w, a (and what float32 cuts off of it), δy, δz, the gradients of w, b, a over one chunk

In float32 layers only tanh and the adjoint are computed in float32. Rounded time steps or α would detune every
oscillator, with a phase error that grows with the length of the sequence.

No fast-math: every fused multiply-add is explicit, so that forward and inverse round alike. Imported on first use,
because it imports numba.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from unicornn._ops.cpu.jit import INLINE, fma, helper, inline, least, log, tanh, view
from unicornn._ops.cpu.sizes import B
from unicornn._ops.cpu.vectors import (
    W,
    absolute,
    any_not_below,
    broadcast,
    convert,
    first,
    load,
    load_where,
    maximum,
    minus,
    prefetch_read,
    prefetch_write,
    rounded,
    store,
    store_where,
    where,
)  # fmt: skip

P_ROWS, D_ROWS, T_ROWS = 3, 8, 3
_BIAS, _Y = B, 2 * B  # offsets in P; w is at 0
_A, _A_REST, _DY, _DZ, _GW, _GB, _GA = (k * B for k in range(1, 8))  # offsets in D; w is at 0

AHEAD = 8
"""Rows that may not be in the cache are prefetched this many steps ahead: they are too far apart to be predicted."""

GONE = np.int64(-(2**63))  # ``_state.GONE``


class Constants(NamedTuple):
    """Unit of the grid, α per unit, and the limit of the range in units."""

    unit: float
    alpha: float
    limit: float


class Layer(NamedTuple):
    """Arrays of a layer or of one of its blocks."""

    S: np.ndarray
    A: np.ndarray
    P: np.ndarray


class Pullback(NamedTuple):
    """Adjoint of a layer: D; T (3 rows per block) accumulates the gradients of w, b, a; α as the sum of two numbers."""

    D: np.ndarray
    T: np.ndarray
    alpha: float
    alpha_rest: float


# A float64 state can hold NaN and numbers beyond the grid's range. An int64 state can hold neither and would wrap
# around, so whatever leaves the range is replaced by a sentinel and stays lost.


def guarded(X, kick, drift, reach, limit):
    """State X after increments that took it to |y| + |z| = ``reach`` units; the sentinel if that is out of range."""


@overload(guarded, jit_options=INLINE)
def _guarded(X, kick, drift, reach, limit):
    if isinstance(X.dtype, types.Float):
        return lambda X, kick, drift, reach, limit: X
    return lambda X, kick, drift, reach, limit: where(
        (reach < limit) & (absolute(kick) < limit) & (absolute(drift) < limit), X, GONE
    )


def real(X, like, unit):
    """X grid units as numbers of the type of ``like``."""


@overload(real, jit_options=INLINE)
def _real(X, like, unit):
    if isinstance(X.dtype, types.Float):
        return lambda X, like, unit: convert(X, like) * unit
    return lambda X, like, unit: where(X == GONE, like.dtype.type(np.nan), convert(X, like) * unit)


# One step of one vector. ``on``: lanes in which the sequence runs; ``inside``: lanes within the row. Both are None if
# all lanes are; Numba compiles a separate version for None.


@inline
def _get(on, row, at):
    return load(row, at) if on is None else load_where(on, row, at)


@inline
def _put(on, row, at, v):
    if on is None:
        store(row, at, v)
    else:
        store_where(on, row, at, v)


@inline
def _put_or_zero(on, inside, row, at, v):
    if on is None:
        store(row, at, v)
    else:
        store_where(inside, row, at, where(on, v, row.dtype.type(0)))


@inline
def _if_on(on, new, old):
    return new if on is None else where(on, new, old)


@inline
def _activated(x, y, P, i):
    """tanh(w y + x + b); NaN where the drive is infinite."""
    v = fma(y, load(P, i), x + load(P, _BIAS + i))
    return tanh(v + (v - v))


@inline
def _kick(t, Y, A, i, alpha):
    """a (t + α y) in grid units, rounded."""
    return rounded(load(A, B + i) * fma(alpha, convert(Y, A), convert(t, A)))


@inline
def _drift(Z, A, i):
    """a z in grid units, rounded."""
    return rounded(load(A, i) * convert(Z, A))


@inline
def _reach(Y, Z, A):
    return absolute(convert(Z, A)) + absolute(convert(Y, A))


@inline
def step(t, Y, Z, A, i, constants):
    """Eq. (6) from t = tanh(…): z ← z - a (t + α y), y ← y + a z, with increments rounded to the grid."""
    kick = _kick(t, Y, A, i, constants.alpha)
    Z1 = Z - convert(kick, Z)
    drift = _drift(Z1, A, i)
    Y1 = Y + convert(drift, Y)
    reach = _reach(Y1, Z1, A)
    return guarded(Y1, kick, drift, reach, constants.limit), guarded(Z1, kick, drift, reach, constants.limit)


@inline
def rounding_step(t, y, z, a, alpha):
    """As ``step`` in plain float32, without the grid: it cannot be reversed."""
    z = fma(minus(a), fma(alpha, y, t), z)
    return fma(a, z, y), z


@inline
def energy(y, z, w, alpha):
    """Eq. (4) without input, in float32 and for w > 0. log cosh v is |v| - log(1 + tanh |v|)."""
    half, one = np.float32(0.5), np.float32(1)
    v = absolute(w * y)
    vv = v * v
    near = half * v * fma(vv, fma(vv, np.float32(2 / 45), np.float32(-1 / 6)), one)
    slope = where(v < np.float32(0.25), near, (v - log(one + tanh(v))) / v)
    return fma(half * z, z, fma(half * alpha * y, y, slope * absolute(y)))


@inline
def _activate(x, t, at, y, before, P, i, on, inside):
    """t ← tanh(w y + x + b), y being that of the step before; zero where a sequence is over."""
    _put_or_zero(on, inside, t, at, _activated(_get(on, x, at), _get(on, y, before), P, i))


@inline
def _increment(t, at, y, block, i, constants, far, on, inside):
    """A step from a row of t; writes y, and returns the largest |y| + |z| so far."""
    Y, Z = load(block.S, i), load(block.S, B + i)
    Y1, Z1 = step(_get(on, t, at), Y, Z, block.A, i, constants)
    Y, Z = _if_on(on, Y1, Y), _if_on(on, Z1, Z)
    store(block.S, i, Y)
    store(block.S, B + i, Z)
    _put_or_zero(on, inside, y, i, real(Y, y, constants.unit))
    return maximum(far, _reach(Y, Z, block.A))


@inline
def _block(layer, k):
    return Layer(
        view(layer.S, k * 2 * B, 2 * B),
        view(layer.A, k * 2 * B, 2 * B),
        view(layer.P, k * P_ROWS * B, P_ROWS * B),
    )


@helper
def advance(x, t, y, stride, layer, constants, active, E):
    """Forwards through a chunk, Eq. (6): from rows x of E elements writes rows t, which may be x, and y, whose rows are
    ``stride`` apart. active: number of running elements in each step. Returns the number of vectors out of range."""
    out = 0
    for k in range(-(-E // B)):
        lo = k * B
        inside, block = min(E - lo, B), _block(layer, k)
        before, far = view(block.P, _Y, B), broadcast(0.0)
        for i in range(0, B, W):
            store(before, i, real(load(block.S, i), x, constants.unit))
        for n in range(len(active)):
            e, o, after = min(inside, active[n] - lo), n * E + lo, view(y, n * stride + lo, inside)
            for i in range(0, e - W + 1, W):
                prefetch_write(t, o + AHEAD * E + i)
                _activate(x, t, o + i, before, i, block.P, i, None, None)
            for i in range(0, e - W + 1, W):
                prefetch_write(y, (n + AHEAD) * stride + lo + i)
                far = _increment(t, o + i, after, block, i, constants, far, None, None)
            for i in range(max(e, 0) // W * W, inside, W):
                on, there = first(e - i), first(inside - i)
                _activate(x, t, o + i, before, i, block.P, i, on, there)
                far = _increment(t, o + i, after, block, i, constants, far, on, there)
            before = after
        out += any_not_below(far, constants.limit)
    return out


@inline
def _advance_vector(x, y, block, i, constants, far, on):
    Y = load(block.S, i)
    t = _activated(_get(on, x, i), real(Y, y, constants.unit), block.P, i)
    Y, Z = step(t, Y, load(block.S, B + i), block.A, i, constants)
    store(block.S, i, Y)
    store(block.S, B + i, Z)
    _put(on, y, i, real(Y, y, constants.unit))
    return maximum(far, _reach(Y, Z, block.A))


@helper
def advance_row(x, y, block, constants, e):
    """One step of e ≤ B neurons from the drive x; writes y. Returns 0 if they stayed in range."""
    far = broadcast(0.0)
    for i in range(0, e - W + 1, W):
        far = _advance_vector(x, y, block, i, constants, far, None)
    if e % W:
        i = e - e % W
        far = _advance_vector(x, y, block, i, constants, far, first(e - i))
    return any_not_below(far, constants.limit)


@inline
def _undrift(Y, Z, A, i, limit, on):
    """y ← y - a z."""
    drift = _drift(Z, A, i)
    Y1 = Y - convert(drift, Y)
    return _if_on(on, guarded(Y1, drift, drift, _reach(Y1, Z, A), limit), Y)


@inline
def _unkick(t, Y, Z, A, i, constants, on):
    """z ← z + a (t + α y)."""
    kick = _kick(t, Y, A, i, constants.alpha)
    return _if_on(on, guarded(Z + convert(kick, Z), kick, kick, absolute(kick), constants.limit), Z)


@inline
def _undrift_row(y, at, block, i, constants, far, on, shown, inside):
    """y ← y - a z, stored and written to y."""
    Z = load(block.S, B + i)
    Y = _undrift(load(block.S, i), Z, block.A, i, constants.limit, on)
    store(block.S, i, Y)
    _put_or_zero(shown, inside, y, at, real(Y, y, constants.unit))
    return maximum(far, _reach(Y, Z, block.A))


@inline
def _unkick_row(t, at, block, i, constants, on):
    """z ← z + a (t + α y), stored."""
    Y, Z = load(block.S, i), load(block.S, B + i)
    store(block.S, B + i, _unkick(_get(on, t, at), Y, Z, block.A, i, constants, on))


@inline
def _write_state(y, lo, S, unit, e, inside):
    """y ← the state after the chunk, zero where a sequence was over."""
    for i in range(0, inside, W):
        _put_or_zero(first(e - i), first(inside - i), y, lo + i, real(load(S, i), y, unit))


@helper
def retreat(x, y, layer, constants, active, E):
    """Backwards through a chunk, Eq. (7): rows x of E elements become t; writes y, one row more, starting with the
    state before the chunk. Returns the number of vectors out of range."""
    K, out = len(active), 0
    for k in range(-(-E // B)):
        lo = k * B
        inside, block, far = min(E - lo, B), _block(layer, k), broadcast(0.0)
        _write_state(y, K * E + lo, block.S, constants.unit, active[K - 1] - lo, inside)
        for n in range(K - 1, -1, -1):
            e, o = min(inside, active[n] - lo), n * E + lo
            for i in range(0, e - W + 1, W):
                far = _undrift_row(y, o + i, block, i, constants, far, None, None, None)
            for i in range(0, e - W + 1, W):
                _activate(x, x, o + i, y, o + i, block.P, i, None, None)
            for i in range(0, e - W + 1, W):
                _unkick_row(x, o + i, block, i, constants, None)
            for i in range(max(e, 0) // W * W, inside, W):
                on, shown, there = first(e - i), first(active[max(n - 1, 0)] - lo - i), first(inside - i)
                far = _undrift_row(y, o + i, block, i, constants, far, on, shown, there)
                _activate(x, x, o + i, y, o + i, block.P, i, on, there)
                _unkick_row(x, o + i, block, i, constants, on)
        out += any_not_below(far, constants.limit)
    return out


@inline
def _adjoint_step(t, y, z, g, back, i, fade, on):
    """Suppl. Eq. (3) and Suppl. Eq. (5): ∂E/∂x of a step from g = ∂E/∂y; y before the step, z after it."""
    D = back.D
    a, a_rest, δy, δz = load(D, _A + i), load(D, _A_REST + i), load(D, _DY + i), load(D, _DZ + i)
    dy = δy + g
    dz = fma(a_rest, dy, fma(a, dy, δz))
    q = fma(a_rest, dz, a * dz)
    gx = q * (t * t - D.dtype.type(1))
    down = fma(q, -back.alpha_rest, fma(q, -back.alpha, fma(gx, load(D, i), dy)))
    old = load(D, _GA + i)
    store(D, _GA + i, _if_on(on, fma(minus(dz), fma(back.alpha, y, t), fma(dy, z, old)), old))
    old = load(D, _GW + i)
    store(D, _GW + i, _if_on(on, fma(gx, y, old), old))
    old = load(D, _GB + i)
    store(D, _GB + i, _if_on(on, old + gx, old))
    if fade is not None:
        down, dz = fma(down, -fade, down), fma(dz, -fade, dz)
        zero = D.dtype.type(0)
        gone = absolute(down) + absolute(dz) < D.dtype.type(1024) * least(D)  # so that products are not subnormal
        down, dz = where(gone, zero, down), where(gone, zero, dz)
    store(D, _DY + i, _if_on(on, down, δy))
    store(D, _DZ + i, _if_on(on, dz, δz))
    return gx


@inline
def _pull_back(rows, at, block, back, i, constants, fade, on, shown, inside):
    """Inverts a step from a known t and computes its adjoint. rows: t, y and g."""
    t, y, g = rows
    Z = load(block.S, B + i)
    Y = _undrift(load(block.S, i), Z, block.A, i, constants.limit, on)
    t_n, before, z = _get(on, t, at), real(Y, t, constants.unit), real(Z, t, constants.unit)
    _put_or_zero(shown, inside, y, at, before)
    store(block.S, i, Y)
    store(block.S, B + i, _unkick(t_n, Y, Z, block.A, i, constants, on))
    _put_or_zero(on, inside, g, at, _adjoint_step(t_n, before, z, _get(on, g, at), back, i, fade, on))


@helper
def adjoint(t, y, g, layer, constants, back, fade, active, E):
    """Appendix B through a chunk, inverting the state along stored rows t: rows g of E elements change from ∂E/∂y to
    ∂E/∂x; y is written as in ``retreat``. fade: rate by which the adjoint fades, or None."""
    K, rows = len(active), (t, y, g)
    for k in range(-(-E // B)):
        lo = k * B
        inside, block = min(E - lo, B), _block(layer, k)
        total = view(back.T, k * T_ROWS * B, T_ROWS * B)
        own = Pullback(view(back.D, k * D_ROWS * B, D_ROWS * B), total, back.alpha, back.alpha_rest)
        _write_state(y, K * E + lo, block.S, constants.unit, active[K - 1] - lo, inside)
        for n in range(K - 1, -1, -1):
            e, o = min(inside, active[n] - lo), n * E + lo
            for i in range(0, e - W + 1, W):
                prefetch_read(t, o - AHEAD * E + i)
                _pull_back(rows, o + i, block, own, i, constants, fade, None, None, None)
            for i in range(max(e, 0) // W * W, inside, W):
                on, shown, there = first(e - i), first(active[max(n - 1, 0)] - lo - i), first(inside - i)
                _pull_back(rows, o + i, block, own, i, constants, fade, on, shown, there)
        for i in range(T_ROWS * B):
            total[i] += np.float64(own.D[_GW + i])
            own.D[_GW + i] = 0
