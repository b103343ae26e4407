"""Numba kernels of the recurrence on the CPU: one layer over one chunk of time.

All neurons of all sequences are independent, so a step works on one flat row of E = b·m elements. Rows are cut into
blocks of B elements that stay in the L1 cache over the whole chunk, and blocks are shared out among threads; nothing
crosses a block, so neither the block size nor the number of threads changes a bit of the result.

Vectors of W elements are worked on one after another, so that the processor has the chains of many at hand: a step is a
chain of some 150 cycles. It is also about as many instructions as a processor looks ahead by, so tanh and what follows
are loops of their own, each with the shorter chains of many vectors: that takes a quarter less time forwards, a tenth
backwards. What belongs to a block lies in one array, at multiples of the constant B.

    S  the state           Y, Z: integers of grid units (float64 for float32 layers, int64 for float64 ones)
    A  the time steps      a, and a in grid units, in float64
    P  the parameters      w, b, and a scratch row: y before the chunk
    D  the adjoint         w, a (and what its float32 form cuts off), δy, δz, the gradients of w, b, a over one chunk

In float32 layers only tanh and the adjoint are done in float32. Time steps and α are not: rounded ones would detune
every oscillator, by a phase that grows with the length of the sequence.

No fast-math: every fused multiply-add is written as one, hence forward and inverse round alike. Imported on first use,
for it brings numba along.
"""

import numpy as np
from numba import types
from numba.extending import overload

from unicornn._ops.cpu.jit import INLINE, fma, inline, kernel, least, tanh, view
from unicornn._ops.cpu.sizes import B
from unicornn._ops.cpu.vectors import (
    W,
    any_not_below,
    first,
    larger,
    load,
    load_where,
    minus,
    number,
    size,
    soon_read,
    soon_written,
    spread,
    store,
    store_where,
    where,
    where_equal,
    whole,
)  # fmt: skip

P_ROWS, D_ROWS, T_ROWS = 3, 8, 3
_B, _Y = B, 2 * B  # offsets in P, w being at 0
_DA, _REST, _DY, _DZ, _GW, _GB, _GA = (k * B for k in range(1, 8))  # offsets in D, w being at 0

AHEAD = 8
"""Steps by which rows are asked for that may not be in the cache: too far apart for the processor to foresee them."""

GONE = np.int64(-(2**63))  # ``_state.GONE``: a number that is none, or is beyond the grid, as an integer


# A float64 state holds NaN, and numbers beyond the grid's range too. An integer one does neither, and wraps around
# where floating-point numbers overflow, so what leaves the range there is lost, and says so from then on.


def guarded(X, kick, drift, reach, limit):
    """A state X after increments that took it to |y| + |z| = ``reach`` units: as it is, or lost if that is too far."""


@overload(guarded, jit_options=INLINE)
def _guarded(X, kick, drift, reach, limit):
    if isinstance(X.dtype, types.Float):
        return lambda X, kick, drift, reach, limit: X
    return lambda X, kick, drift, reach, limit: where(
        (reach < limit) & (size(kick) < limit) & (size(drift) < limit), X, GONE
    )


def real(X, like, unit):
    """X grid units as numbers of the type of ``like``."""


@overload(real, jit_options=INLINE)
def _real(X, like, unit):
    if isinstance(X.dtype, types.Float):
        return lambda X, like, unit: number(X, like) * unit
    return lambda X, like, unit: where_equal(X, GONE, like.dtype.type(np.nan), number(X, like) * unit)


# One step of one vector. ``on`` says in which lanes the sequence runs, and ``room`` which lanes there are; both are
# None where that is so in all of them, and of None Numba makes code of its own.


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
def _put_or_zero(on, room, row, at, v):
    if on is None:
        store(row, at, v)
    else:
        store_where(room, row, at, where(on, v, row.dtype.type(0)))


@inline
def _if_on(on, new, old):
    return new if on is None else where(on, new, old)


@inline
def _activated(x, y, P, i):
    """tanh(w y + x + b); no number where the drive is infinite."""
    v = fma(y, load(P, i), x + load(P, _B + i))
    return tanh(v + (v - v))


@inline
def _kick(t, Y, A, i, alpha):
    """a (t + α y) in grid units, rounded."""
    return whole(load(A, B + i) * fma(alpha, number(Y, A), number(t, A)))


@inline
def _drift(Z, A, i):
    """a z in grid units, rounded."""
    return whole(load(A, i) * number(Z, A))


@inline
def _reach(Y, Z, A):
    return size(number(Z, A)) + size(number(Y, A))


@inline
def _activate(x, t, at, y, before, P, i, on, room):
    """t ← tanh(w y + x + b), y being that of the step before; zero where a sequence is over."""
    _put_or_zero(on, room, t, at, _activated(_get(on, x, at), _get(on, y, before), P, i))


@inline
def _forwards(t, y, at, S, A, i, unit, alpha, limit, far, on, room):
    """z ← z - a (t + α y), y ← y + a z, increments rounded to the grid."""
    Y, Z = load(S, i), load(S, B + i)
    kick = _kick(_get(on, t, at), Y, A, i, alpha)
    Z1 = Z - number(kick, S)
    drift = _drift(Z1, A, i)
    Y1 = Y + number(drift, S)
    reach = _reach(Y1, Z1, A)
    Y, Z = _if_on(on, guarded(Y1, kick, drift, reach, limit), Y), _if_on(on, guarded(Z1, kick, drift, reach, limit), Z)
    store(S, i, Y)
    store(S, B + i, Z)
    _put_or_zero(on, room, y, i, real(Y, y, unit))
    return larger(far, _reach(Y, Z, A))


@kernel
def advance(x, t, y, S, A, P, unit, alpha, limit, active, E, stride, k0, k1):
    """Forwards through a chunk, from rows x (E): rows t (E), which may be x, and y (each ``stride`` after the last) are
    written.

    Returns how many vectors were out of range.
    """
    out = 0
    for k in range(k0, k1):
        lo = k * B
        room = min(E - lo, B)
        s, a, p = view(S, k * 2 * B, 2 * B), view(A, k * 2 * B, 2 * B), view(P, k * P_ROWS * B, P_ROWS * B)
        before, far = view(p, _Y, B), spread(0.0)
        for i in range(0, B, W):
            store(before, i, real(load(s, i), x, unit))
        for n in range(len(active)):
            e, o, after = min(room, active[n] - lo), n * E + lo, view(y, n * stride + lo, room)
            for i in range(0, e - W + 1, W):
                soon_written(t, o + AHEAD * E + i)
                _activate(x, t, o + i, before, i, p, i, None, None)
            for i in range(0, e - W + 1, W):
                soon_written(y, (n + AHEAD) * stride + lo + i)
                far = _forwards(t, after, o + i, s, a, i, unit, alpha, limit, far, None, None)
            for i in range(max(e, 0) // W * W, room, W):
                on, there = first(e - i), first(room - i)
                _activate(x, t, o + i, before, i, p, i, on, there)
                far = _forwards(t, after, o + i, s, a, i, unit, alpha, limit, far, on, there)
            before = after
        out += any_not_below(far, limit)
    return out


@inline
def _undrift(Y, Z, A, i, limit, on):
    """y ← y - a z."""
    drift = _drift(Z, A, i)
    Y1 = Y - number(drift, Y)
    return _if_on(on, guarded(Y1, drift, drift, _reach(Y1, Z, A), limit), Y)


@inline
def _unkick(t, Y, Z, A, i, alpha, limit, on):
    """z ← z + a (t + α y)."""
    kick = _kick(t, Y, A, i, alpha)
    return _if_on(on, guarded(Z + number(kick, Z), kick, kick, size(kick), limit), Z)


@inline
def _undrifted(y, at, S, A, i, unit, limit, far, on, shown, room):
    """y ← y - a z, of Eq. (7)."""
    Z = load(S, B + i)
    Y = _undrift(load(S, i), Z, A, i, limit, on)
    store(S, i, Y)
    _put_or_zero(shown, room, y, at, real(Y, y, unit))
    return larger(far, _reach(Y, Z, A))


@inline
def _unkicked(x, at, S, A, i, alpha, limit, on):
    """z ← z + a (t + α y)."""
    store(S, B + i, _unkick(_get(on, x, at), load(S, i), load(S, B + i), A, i, alpha, limit, on))


@inline
def _show(y, lo, S, unit, e, room):
    """The rows' last y: the state after the chunk, zero where a sequence was over."""
    for i in range(0, room, W):
        _put_or_zero(first(e - i), first(room - i), y, lo + i, real(load(S, i), y, unit))


@kernel
def retreat(x, y, S, A, P, unit, alpha, limit, active, E, k0, k1):
    """Backwards through a chunk, Eq. (7): rows x (E) become t; y (one row more) from before the chunk on."""
    K, out = len(active), 0
    for k in range(k0, k1):
        lo = k * B
        room = min(E - lo, B)
        s, a, p = view(S, k * 2 * B, 2 * B), view(A, k * 2 * B, 2 * B), view(P, k * P_ROWS * B, P_ROWS * B)
        far = spread(0.0)
        _show(y, K * E + lo, s, unit, active[K - 1] - lo, room)
        for n in range(K - 1, -1, -1):
            e, o = min(room, active[n] - lo), n * E + lo
            for i in range(0, e - W + 1, W):
                far = _undrifted(y, o + i, s, a, i, unit, limit, far, None, None, None)
            for i in range(0, e - W + 1, W):
                _activate(x, x, o + i, y, o + i, p, i, None, None)
            for i in range(0, e - W + 1, W):
                _unkicked(x, o + i, s, a, i, alpha, limit, None)
            for i in range(max(e, 0) // W * W, room, W):
                on, shown, there = first(e - i), first(active[max(n - 1, 0)] - lo - i), first(room - i)
                far = _undrifted(y, o + i, s, a, i, unit, limit, far, on, shown, there)
                _activate(x, x, o + i, y, o + i, p, i, on, there)
                _unkicked(x, o + i, s, a, i, alpha, limit, on)
        out += any_not_below(far, limit)
    return out


@inline
def _pull_back(t, y, g, at, S, A, D, i, unit, alpha, limit, single, rest, fade, on, shown, room):
    """The state back by one step from a known t, and one step of Suppl. Eq. (3), Suppl. Eq. (5): g ← ∂E/∂x from ∂E/∂y of
    this step's output; the adjoint fades (or None)."""
    Z = load(S, B + i)
    Y = _undrift(load(S, i), Z, A, i, limit, on)
    t_n, before, z = _get(on, t, at), real(Y, t, unit), real(Z, t, unit)
    _put_or_zero(shown, room, y, at, before)
    store(S, i, Y)
    store(S, B + i, _unkick(t_n, Y, Z, A, i, alpha, limit, on))
    a, more, δy, δz = load(D, _DA + i), load(D, _REST + i), load(D, _DY + i), load(D, _DZ + i)
    dy = δy + _get(on, g, at)
    dz = fma(more, dy, fma(a, dy, δz))
    q = fma(more, dz, a * dz)
    gx = q * (t_n * t_n - t.dtype.type(1))
    down = fma(q, -rest, fma(q, -single, fma(gx, load(D, i), dy)))
    old = load(D, _GA + i)
    store(D, _GA + i, _if_on(on, fma(minus(dz), fma(single, before, t_n), fma(dy, z, old)), old))
    old = load(D, _GW + i)
    store(D, _GW + i, _if_on(on, fma(gx, before, old), old))
    old = load(D, _GB + i)
    store(D, _GB + i, _if_on(on, old + gx, old))
    if fade is not None:
        down, dz = fma(down, -fade, down), fma(dz, -fade, dz)
        zero = t.dtype.type(0)
        gone = size(down) + size(dz) < t.dtype.type(1024) * least(t)  # nor is its product subnormal
        down, dz = where(gone, zero, down), where(gone, zero, dz)
    store(D, _DY + i, _if_on(on, down, δy))
    store(D, _DZ + i, _if_on(on, dz, δz))
    _put_or_zero(on, room, g, at, gx)


@kernel
def adjoint(t, y, g, S, A, D, T, unit, alpha, limit, single, rest, fade, active, E, k0, k1):
    """Appendix B through a chunk, the state walking back along stored rows t (E): rows g (E) come as ∂E/∂y and leave as
    ∂E/∂x; y (one row more) as in ``retreat``; T gathers the gradients of w, b, a."""
    K = len(active)
    for k in range(k0, k1):
        lo = k * B
        room = min(E - lo, B)
        s, a = view(S, k * 2 * B, 2 * B), view(A, k * 2 * B, 2 * B)
        d, total = view(D, k * D_ROWS * B, D_ROWS * B), view(T, k * T_ROWS * B, T_ROWS * B)
        _show(y, K * E + lo, s, unit, active[K - 1] - lo, room)
        for n in range(K - 1, -1, -1):
            e, o = min(room, active[n] - lo), n * E + lo
            for i in range(0, e - W + 1, W):
                soon_read(t, o - AHEAD * E + i)
                _pull_back(t, y, g, o + i, s, a, d, i, unit, alpha, limit, single, rest, fade, None, None, None)
            for i in range(max(e, 0) // W * W, room, W):
                on, shown, there = first(e - i), first(active[max(n - 1, 0)] - lo - i), first(room - i)
                _pull_back(t, y, g, o + i, s, a, d, i, unit, alpha, limit, single, rest, fade, on, shown, there)
        for i in range(T_ROWS * B):
            total[i] += np.float64(d[_GW + i])
            d[_GW + i] = 0
