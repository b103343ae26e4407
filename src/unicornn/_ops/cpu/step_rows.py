"""Numba kernels of one step of one row of neurons, for ``step_kernels`` and ``stream_kernels``: the bits of
``cpu_kernels``, vector by vector.

Imported on first use, for it brings numba along.
"""

from unicornn._ops.cpu.jit import inline, kernel
from unicornn._ops.cpu.recurrence import _activated, _drift, _get, _kick, _put, _reach, guarded, real
from unicornn._ops.cpu.sizes import B
from unicornn._ops.cpu.vectors import W, any_not_below, any_true, first, larger, load, number, or_unlike, spread, store


@inline
def _ahead(x, y, Y, Z, A, P, i, alpha, limit, far):
    """z ← z - a (tanh(w y + x + b) + α y), y ← y + a z, increments rounded to the grid: Y, Z, and how far they went."""
    kick = _kick(_activated(x, y, P, i), Y, A, i, alpha)
    Z1 = Z - number(kick, Z)
    drift = _drift(Z1, A, i)
    Y1 = Y + number(drift, Y)
    reach = _reach(Y1, Z1, A)
    Y, Z = guarded(Y1, kick, drift, reach, limit), guarded(Z1, kick, drift, reach, limit)
    return Y, Z, larger(far, _reach(Y, Z, A))


@inline
def _one(x, i, y, z, Y, Z, y1, z1, Y1, Z1, o, kind, A, P, p, unit, alpha, limit, far, odd, on):
    """A vector of a row, driven by x from place i on: from place o on in y, z, Y, Z before and after. A and P are those
    from place p on; what is computed with is of the type of ``kind``."""
    Y_n, Z_n, y_n = number(_get(on, Y, o), kind), number(_get(on, Z, o), kind), _get(on, y, o)
    odd = or_unlike(or_unlike(odd, y_n, real(Y_n, y, unit)), _get(on, z, o), real(Z_n, z, unit))
    Y_n, Z_n, far = _ahead(_get(on, x, i), y_n, Y_n, Z_n, A, P, p, alpha, limit, far)
    _put(on, y1, o, real(Y_n, y, unit))
    _put(on, z1, o, real(Z_n, z, unit))
    _put(on, Y1, o, number(Y_n, Y))
    _put(on, Z1, o, number(Z_n, Y))
    return far, odd


@kernel
def carry_rows(x, ld, y, z, Y, Z, y1, z1, Y1, Z1, rows, m, kind, A, P, unit, alpha, limit):
    """A step of rows of m neurons, driven by rows of x that begin ld apart: y, z, and Y, Z in grid units, before and
    after. Returns 0 if all stayed in range and were what the grid says.
    """
    far, odd = spread(0.0), first(0)
    for r in range(rows):
        for i in range(0, m - W + 1, W):
            p, o = i // B * B + i, r * m + i
            far, odd = _one(
                x, r * ld + i, y, z, Y, Z, y1, z1, Y1, Z1, o, kind, A, P, p, unit, alpha, limit, far, odd, None
            )
        if m % W:
            i = m - m % W
            p, o, on = i // B * B + i, r * m + i, first(m - i)
            far, odd = _one(
                x, r * ld + i, y, z, Y, Z, y1, z1, Y1, Z1, o, kind, A, P, p, unit, alpha, limit, far, odd, on
            )
    return any_not_below(far, limit) + any_true(odd)


@inline
def _kept(x, y, S, i, A, P, unit, alpha, limit, far, on):
    """A vector of a row whose state S (Y, Z: two rows of B) has room for whole vectors."""
    Y, Z, far = _ahead(_get(on, x, i), _get(on, y, i), load(S, i), load(S, B + i), A, P, i, alpha, limit, far)
    store(S, i, Y)
    store(S, B + i, Z)
    _put(on, y, i, real(Y, y, unit))
    return far


@kernel
def carry_kept(x, y, S, A, P, unit, alpha, limit, e):
    """A step of e ≤ B neurons, driven by x, whose state is S. Returns 0 if they stayed in range."""
    far = spread(0.0)
    for i in range(0, e - W + 1, W):
        far = _kept(x, y, S, i, A, P, unit, alpha, limit, far, None)
    if e % W:
        i = e - e % W
        far = _kept(x, y, S, i, A, P, unit, alpha, limit, far, first(e - i))
    return any_not_below(far, limit)


@kernel
def show(y, S, unit, e):
    """y ← S as numbers, e ≤ B of them."""
    for i in range(0, e - W + 1, W):
        store(y, i, real(load(S, i), y, unit))
    if e % W:
        i = e - e % W
        _put(first(e - i), y, i, real(load(S, i), y, unit))
