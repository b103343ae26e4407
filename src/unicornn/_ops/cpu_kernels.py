"""Numba kernels of the recurrence on the CPU: one layer over one chunk of time.

All neurons of all sequences are independent, so a step works on one flat row of E = b·m elements. Rows are cut into
blocks of B elements that stay in the L1 cache over the whole chunk, and blocks are shared out among threads; nothing
crosses a block, so neither the block size nor the number of threads changes a bit of the result.

Memory is laid out for the vectoriser, which gives up when it has to tell too many arrays apart at run time: what
belongs to a block lies in one array, at multiples of the constant B.

    S  the state           Y, Z: whole numbers of grid units (float64 for float32 layers, int64 for float64 ones)
    A  the time steps      a, and a in grid units, in float64
    P  the parameters      w, b, and a scratch row: y before the chunk
    D  the adjoint         w, a (and what its float32 form cuts off), δy, δz, the gradients of w, b, a over one chunk

In float32 layers only tanh and the adjoint are done in float32. Time steps and α are not: rounded ones would detune
every oscillator, by a phase that grows with the length of the sequence.

No fast-math: every fused multiply-add is written as one, hence forward, inverse and replay round alike. Imported on
first use, for it brings numba along.
"""

import numpy as np
from numba import types
from numba.extending import overload

from unicornn._ops.block import B
from unicornn._ops.jit import INLINE, fma, kernel, least, tanh, view

P_ROWS, D_ROWS, T_ROWS = 3, 8, 3
_B, _Y = B, 2 * B  # offsets in P, w being at 0
_DA, _REST, _DY, _DZ, _GW, _GB, _GA = (k * B for k in range(1, 8))  # offsets in D, w being at 0

GONE = np.int64(-(2**63))  # ``_state.GONE``: a number that is none, or is beyond the grid, as an integer


# A float64 state holds NaN, and numbers beyond the grid's range too. An integer one does neither, and wraps around
# where floating-point numbers overflow, so what leaves the range there is lost, and says so from then on.


def sound(S, kick, drift, limit):
    """Whether increments are whole numbers of the state's type."""


@overload(sound, jit_options=INLINE)
def _sound(S, kick, drift, limit):
    if isinstance(S.dtype, types.Float):
        return lambda S, kick, drift, limit: True
    return lambda S, kick, drift, limit: max(abs(kick), abs(drift)) < limit


def lost(X):
    """What is left of a state X out of range."""


@overload(lost, jit_options=INLINE)
def _lost(X):
    return (lambda X: X) if isinstance(X, types.Float) else lambda X: GONE


def real(like, X, unit):
    """X grid units as a number of the type of ``like``."""


@overload(real, jit_options=INLINE)
def _real(like, X, unit):
    if isinstance(X, types.Float):
        return lambda like, X, unit: like.dtype.type(X) * unit
    return lambda like, X, unit: like.dtype.type(X) * unit if X != GONE else like.dtype.type(np.nan)


# One step of one block: short loops over contiguous rows, which LLVM turns into vector code.


@kernel
def _activate(x, y, P, e):
    """x ← t = tanh(w y + x + b); no number where the drive is infinite."""
    for i in range(e):
        v = fma(y[i], P[i], x[i] + P[_B + i])
        x[i] = tanh(v + (v - v))


@kernel
def _kick_and_drift(y, t, S, A, unit, alpha, limit, e):
    """z ← z - a (t + α y), y ← y + a z, increments rounded to the grid. Returns how many states are out of range."""
    out = 0
    for i in range(e):
        force = fma(alpha, np.float64(S[i]), np.float64(t[i]))
        kick = np.rint(A[B + i] * force)
        Z = S[B + i] - S.dtype.type(kick)
        drift = np.rint(A[i] * np.float64(Z))
        Y = S[i] + S.dtype.type(drift)
        inside = abs(np.float64(Z)) + abs(np.float64(Y)) < limit and sound(S, kick, drift, limit)
        S[B + i] = Z if inside else lost(Z)
        S[i] = Y if inside else lost(Y)
        y[i] = real(y, S[i], unit)
        out += 0 if inside else 1
    return out


@kernel
def _undrift(y, S, A, unit, limit, e):
    """y ← y - a z."""
    out = 0
    for i in range(e):
        Z = S[B + i]
        drift = np.rint(A[i] * np.float64(Z))
        Y = S[i] - S.dtype.type(drift)
        inside = abs(np.float64(Z)) + abs(np.float64(Y)) < limit and sound(S, drift, drift, limit)
        S[i] = Y if inside else lost(Y)
        y[i] = real(y, S[i], unit)
        out += 0 if inside else 1
    return out


@kernel
def _unkick(t, S, A, alpha, limit, e):
    """z ← z + a (t + α y)."""
    for i in range(e):
        force = fma(alpha, np.float64(S[i]), np.float64(t[i]))
        kick = np.rint(A[B + i] * force)
        Z = S[B + i] + S.dtype.type(kick)
        S[B + i] = Z if sound(S, kick, kick, limit) else lost(Z)


@kernel
def _pull_back(t, y, z, g, D, alpha, rest, fade, e):
    """One step of eq:td_grad2, eq:td_grad3: g ← ∂E/∂x from ∂E/∂y of this step's output; the adjoint fades (or None)."""
    zero, one = D.dtype.type(0), D.dtype.type(1)
    tiny = D.dtype.type(1024) * least(D)  # so that its product with a small σ' is no subnormal number either
    for i in range(e):
        dy = D[_DY + i] + g[i]
        dz = fma(D[_REST + i], dy, fma(D[_DA + i], dy, D[_DZ + i]))
        q = fma(D[_REST + i], dz, D[_DA + i] * dz)
        gx = -q * (one - t[i] * t[i])
        D[_GA + i] = fma(-dz, fma(alpha, y[i], t[i]), fma(dy, z[i], D[_GA + i]))
        D[_GW + i] = fma(gx, y[i], D[_GW + i])
        D[_GB + i] += gx
        dy = fma(-rest, q, fma(-alpha, q, fma(gx, D[i], dy)))
        if fade is not None:
            dy, dz = fma(-fade, dy, dy), fma(-fade, dz, dz)
            gone = abs(dy) + abs(dz) < tiny
            dy, dz = zero if gone else dy, zero if gone else dz
        D[_DZ + i] = dz
        D[_DY + i] = dy
        g[i] = gx


@kernel
def _show(row, S, unit, i0, i1):
    """The state in real numbers: y from S, z from its second half."""
    for i in range(i0, i1):
        row[i] = real(row, S[i], unit)


@kernel
def _clear(row, e):
    """Zero where a sequence is over."""
    for i in range(e, len(row)):
        row[i] = 0


# A chunk, blocks k0 to k1. `active[n]` elements of row n are within their sequence's length; the rest is padding.


@kernel
def advance(x, y, S, A, P, unit, alpha, limit, active, k0, k1):
    """Forwards through a chunk: x (K, E) becomes t, y (K, E) is written. Returns the number out of range."""
    K, E = x.shape
    out = 0
    for k in range(k0, k1):
        lo = k * B
        size = min(E - lo, B)
        s, a, p = view(S, k * 2 * B, 2 * B), view(A, k * 2 * B, 2 * B), view(P, k * P_ROWS * B, P_ROWS * B)
        before = view(p, _Y, size)
        _show(before, s, unit, 0, size)
        for n in range(K):
            e = max(min(size, active[n] - lo), 0)
            t, after = view(x, n * E + lo, size), view(y, n * E + lo, size)
            _activate(t, before, p, e)
            out += _kick_and_drift(after, t, s, a, unit, alpha, limit, e)
            _clear(after, e)
            before = after
    return out


@kernel
def replay(t, y, z, S, A, unit, alpha, limit, active, k0, k1):
    """Forwards again from stored t (K, E): y (K + 1, E) from the state before the chunk on, z (K, E)."""
    K, E = t.shape
    for k in range(k0, k1):
        lo = k * B
        size = min(E - lo, B)
        s, a = view(S, k * 2 * B, 2 * B), view(A, k * 2 * B, 2 * B)
        _show(view(y, lo, size), s, unit, 0, size)
        for n in range(K):
            e, o = max(min(size, active[n] - lo), 0), n * E + lo
            after = view(y, o + E, size)
            _kick_and_drift(after, view(t, o, size), s, a, unit, alpha, limit, e)
            _show(view(z, o, size), view(s, B, size), unit, 0, e)
            _clear(after, e)


@kernel
def retreat(x, y, z, S, A, P, unit, alpha, limit, active, k0, k1):
    """Backwards through a chunk, eq:inv_ucrn: x (K, E) becomes t; y (K + 1, E), z (K, E) as in the replay."""
    K, E = x.shape
    out = 0
    for k in range(k0, k1):
        lo = k * B
        size = min(E - lo, B)
        s, a, p = view(S, k * 2 * B, 2 * B), view(A, k * 2 * B, 2 * B), view(P, k * P_ROWS * B, P_ROWS * B)
        running = 0
        for n in range(K - 1, -1, -1):
            e, o = max(min(size, active[n] - lo), 0), n * E + lo
            t, before, after = view(x, o, size), view(y, o, size), view(y, o + E, size)
            _show(after, s, unit, running, e)  # sequences that end here
            _clear(after, e)
            running = e
            _show(view(z, o, size), view(s, B, size), unit, 0, e)
            out += _undrift(before, s, a, unit, limit, e)
            _activate(t, before, p, e)
            _unkick(t, s, a, alpha, limit, e)
    return out


@kernel
def adjoint(t, y, z, g, D, T, alpha, rest, fade, active, k0, k1):
    """Appendix B through a chunk: g (K, E) comes as ∂E/∂y and leaves as ∂E/∂x; T gathers the gradients of w, b, a."""
    K, E = t.shape
    for k in range(k0, k1):
        lo = k * B
        size = min(E - lo, B)
        d, total = view(D, k * D_ROWS * B, D_ROWS * B), view(T, k * T_ROWS * B, T_ROWS * B)
        for n in range(K - 1, -1, -1):
            e, o = max(min(size, active[n] - lo), 0), n * E + lo
            g_n = view(g, o, size)
            _pull_back(view(t, o, size), view(y, o, size), view(z, o, size), g_n, d, alpha, rest, fade, e)
            _clear(g_n, e)
        for i in range(T_ROWS * B):
            total[i] += np.float64(d[_GW + i])
            d[_GW + i] = 0


@kernel
def replay_adjoint(t, y, z, g, S, A, D, T, unit, alpha, limit, single, rest, fade, active, k0, k1):
    """The replay and at once, while all is in the cache, the adjoint."""
    for k in range(k0, k1):
        replay(t, y, z, S, A, unit, alpha, limit, active, k, k + 1)
        adjoint(t, y, z, g, D, T, single, rest, fade, active, k, k + 1)
