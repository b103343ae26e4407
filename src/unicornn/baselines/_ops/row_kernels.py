"""Numba kernels for baselines with independent neurons: IndRNN, minGRU, SRU, LRU and LinOSS.

A model is a step and its adjoint, both for W elements at a time; ``forward`` and ``backward`` run them over time. A row
has E = b·m elements and is cut into blocks of B, which are distributed among threads; blocks are independent. All
numbers of a block but those of the planes (N, E) are rows of an array D: the length of the element's sequence, beyond
which the state is constant and the output zero; the state, or its adjoint; the coefficients. The last rows collect the
gradients of the coefficients over SPAN steps and are then added to T, in float64. A GROUP of blocks runs through time
together: its D stays in the cache, and memory is read in long runs.

Imported on first use, because it imports numba.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from unicornn._ops.cpu.jit import INLINE, fma, helper, inline, kernel, least, tanh, view
from unicornn._ops.cpu.sizes import B
from unicornn._ops.cpu.vectors import (
    W,
    absolute,
    broadcast,
    first,
    load,
    load_where,
    maximum,
    minus,
    store,
    store_where,
    where,
)

SPAN = 256  # steps
GROUP = 16  # blocks


class Model(NamedTuple):
    """Its subclass says which model a kernel runs. alpha: α of SRU."""

    alpha: float


class IndRNN(Model):
    """h ← relu(x + b + u h). Planes: x, which becomes h."""


class MinGRU(Model):
    """f = σ(x_f + b_f), c ← f c + (1 - f) (x + b_x). Planes: x; x_f, which becomes f; c."""


class SRU(Model):
    """As MinGRU, with v_f c in f, and r = σ(x_r + v_r c + b_r), h = r c + (1 - r) α s. Planes: x, x_f, x_r, s, c, h."""


class Rotation(Model):
    """LRU: x ← λ x + v, complex. Planes: the real and imaginary part of v, which become those of x."""


class Oscillation(Model):
    """LinOSS: (z, y) ← M (z + v, y). Planes: v, which becomes z + v; y."""


class _Place(NamedTuple):
    """W elements of a step: where they are in a plane and in the rows of D, and where they were in a plane one step
    before. inside: lanes within the row; runs: those whose sequence has not ended."""

    at: int
    before: int
    D: np.ndarray
    i: int
    inside: Any
    runs: Any


@inline
def _get(p, plane, at):
    return load_where(p.inside, plane, at)


@inline
def _put(p, plane, v):
    """Writes to a plane: zero in the padding."""
    store_where(p.inside, plane, p.at, where(p.runs, v, p.D.dtype.type(0)))


@inline
def _row(p, r):
    return load(p.D, r * B + p.i)


@inline
def _set(p, r, v):
    store(p.D, r * B + p.i, v)


@inline
def _add(p, r, v):
    _set(p, r, _row(p, r) + v)


@inline
def _add_product(p, r, u, v):
    _set(p, r, fma(u, v, _row(p, r)))


@inline
def _carry(p, r, v):
    """The state or adjoint in row r becomes v, unless the sequence has ended."""
    _set(p, r, where(p.runs, v, _row(p, r)))


@inline
def _carry_back(p, r, v):
    """As ``_carry``; adjoints below ``jit.least`` become zero."""
    _carry(p, r, where(absolute(v) < least(p.D), p.D.dtype.type(0), v))


@inline
def _running(p, v):
    return where(p.runs, v, p.D.dtype.type(0))


@inline
def _place(k, n, E, D, i, inside, before):
    at = n * E + k * B + i
    return _Place(at, before + k * B + i, D, i, inside, D.dtype.type(n) < load(D, i))


def step(model, p, x):
    """Advances the state in D by a step and writes the planes."""


@overload(step, jit_options=INLINE)
def _step(model, p, x):
    return _MODELS[model.instance_class][0]


def adjoint(model, p, x, g, g_at, past, to):
    """Takes the adjoint in D back by a step and writes the gradients of the drives."""


@overload(adjoint, jit_options=INLINE)
def _adjoint(model, p, x, g, g_at, past, to):
    return _MODELS[model.instance_class][1]


@kernel
def forward(model, x, D, k0, k1):
    """x: planes of the model."""
    N, E = x[0].shape
    for start in range(k0, k1, GROUP):
        for n in range(N):
            for k in range(start, min(start + GROUP, k1)):
                e, d = min(E - k * B, B), view(D, k * D.shape[1], D.shape[1])
                for i in range(0, e, W):
                    step(model, _place(k, n, E, d, i, first(e - i), 0), x)


@kernel
def backward(model, x, g, past, start, to, D, T, k0, k1):
    """x: planes after the forward pass. g: gradient of the output, or a single row for all steps. past: planes of x
    with the state, and ``start`` the same before the first step. to: receives the gradient of the drives."""
    N, E = x[0].shape
    one = g[0].shape[0] < N
    for group in range(k0, k1, GROUP):
        for n in range(N - 1, -1, -1):
            states, before = (past, (n - 1) * E) if n else (start, 0)
            for k in range(group, min(group + GROUP, k1)):
                e, d = min(E - k * B, B), view(D, k * D.shape[1], D.shape[1])
                g_at = (0 if one else n * E) + k * B
                for i in range(0, e, W):
                    adjoint(model, _place(k, n, E, d, i, first(e - i), before), x, g, g_at + i, states, to)
                if n % SPAN == 0:
                    _flush(d, view(T, k * T.shape[1], T.shape[1]))


@helper
def _flush(D, T):
    """Adds the gradients of the last steps to T."""
    for i in range(len(T)):
        T[i] += D[len(D) - len(T) + i]
        D[len(D) - len(T) + i] = 0


_S = 1  # row of D with the state or its adjoint; the length is row 0
_P, _Q = 1, 2  # rows of a state of two numbers: real and imaginary part, or z and y

_U, _B, _GU, _GB = range(2, 6)


def _indrnn(model, p, x):
    h = maximum(p.D.dtype.type(0), fma(_row(p, _U), _row(p, _S), _get(p, x[0], p.at) + _row(p, _B)))
    _carry(p, _S, h)
    _put(p, x[0], h)


def _indrnn_back(model, p, x, g, g_at, past, to):
    zero = p.D.dtype.type(0)
    gx = where(p.runs & (zero < _get(p, x[0], p.at)), _row(p, _S) + _get(p, g[0], g_at), zero)
    _add_product(p, _GU, gx, _get(p, past[0], p.before))
    _add(p, _GB, gx)
    _carry_back(p, _S, gx * _row(p, _U))
    _put(p, to[0], gx)


_VF, _VR, _BX, _BF, _BR, _GVF, _GVR, _GBX, _GBF, _GBR = range(2, 12)


@inline
def _gate(p, x, v, b):
    """σ(x + v c + b), which is also written to x."""
    half = p.D.dtype.type(0.5)
    s = fma(half, tanh(half * fma(_row(p, v), _row(p, _S), _get(p, x, p.at) + _row(p, b))), half)
    _put(p, x, s)
    return s


@inline
def _gated(p, x, c):
    """Updates and returns the state, which is also written to c."""
    f, new = _gate(p, x[1], _VF, _BF), _get(p, x[0], p.at) + _row(p, _BX)
    new = fma(f, _row(p, _S) - new, new)
    _carry(p, _S, new)
    _put(p, c, new)
    return new


@inline
def _gated_back(p, x, dc, gr, past, to):
    """From the adjoints of c and of the drive of r."""
    f, before = _get(p, x[1], p.at), _get(p, past, p.before)
    gx = dc * (p.D.dtype.type(1) - f)
    gf = gx * f * (before - _get(p, x[0], p.at) - _row(p, _BX))
    _add_product(p, _GVF, gf, before)
    _add_product(p, _GVR, gr, before)
    _add(p, _GBX, gx)
    _add(p, _GBF, gf)
    _add(p, _GBR, gr)
    _carry_back(p, _S, fma(gr, _row(p, _VR), fma(gf, _row(p, _VF), dc * f)))
    _put(p, to[0], gx)
    _put(p, to[1], gf)


def _mingru(model, p, x):
    _gated(p, x, x[2])


def _mingru_back(model, p, x, g, g_at, past, to):
    dc = _running(p, _row(p, _S) + _get(p, g[0], g_at))
    _gated_back(p, x, dc, broadcast(p.D.dtype.type(0)), past[0], to)


def _sru(model, p, x):
    r = _gate(p, x[2], _VR, _BR)
    c, skip = _gated(p, x, x[4]), model.alpha * _get(p, x[3], p.at)
    _put(p, x[5], fma(r, c - skip, skip))


def _sru_back(model, p, x, g, g_at, past, to):
    q, one = _running(p, _get(p, g[0], g_at)), p.D.dtype.type(1)
    r, s, c = _get(p, x[2], p.at), _get(p, x[3], p.at), _get(p, x[4], p.at)
    gr = q * (c - model.alpha * s) * r * (one - r)
    _gated_back(p, x, _running(p, fma(q, r, _row(p, _S))), gr, past[0], to)
    _put(p, to[2], gr)
    _put(p, to[3], q * (one - r) * model.alpha)


_RE, _IM, _GRE, _GIM = range(3, 7)


def _rotation(model, p, x):
    re, im, a, b = _row(p, _RE), _row(p, _IM), _row(p, _P), _row(p, _Q)
    new = fma(re, a, fma(minus(im), b, _get(p, x[0], p.at))), fma(re, b, fma(im, a, _get(p, x[1], p.at)))
    for j in range(2):
        _carry(p, _P + j, new[j])
        _put(p, x[j], new[j])


def _rotation_back(model, p, x, g, g_at, past, to):
    re, im = _get(p, past[0], p.before), _get(p, past[1], p.before)
    for j in range(2):
        _add(p, _P + j, _running(p, _get(p, g[j], g_at)))
        _put(p, to[j], _row(p, _P + j))
    a, b = _running(p, _row(p, _P)), _running(p, _row(p, _Q))
    _add(p, _GRE, fma(a, re, b * im))
    _add(p, _GIM, fma(b, re, minus(a) * im))
    _carry_back(p, _P, fma(_row(p, _RE), a, _row(p, _IM) * b))
    _carry_back(p, _Q, fma(_row(p, _RE), b, minus(_row(p, _IM)) * a))


_M11, _M12, _M21, _M22, _G11, _G12, _G21, _G22 = range(3, 11)


def _oscillation(model, p, x):
    a, b = _row(p, _P) + _get(p, x[0], p.at), _row(p, _Q)
    y = fma(_row(p, _M21), a, _row(p, _M22) * b)
    _carry(p, _P, fma(_row(p, _M11), a, _row(p, _M12) * b))
    _carry(p, _Q, y)
    _put(p, x[0], a)
    _put(p, x[1], y)


def _oscillation_back(model, p, x, g, g_at, past, to):
    a, y = _get(p, x[0], p.at), _get(p, past[0], p.before)
    dz, dy = _running(p, _row(p, _P)), _running(p, _row(p, _Q) + _get(p, g[0], g_at))
    _add_product(p, _G11, dz, a)
    _add_product(p, _G12, dz, y)
    _add_product(p, _G21, dy, a)
    _add_product(p, _G22, dy, y)
    _carry_back(p, _P, fma(_row(p, _M11), dz, _row(p, _M21) * dy))
    _carry_back(p, _Q, fma(_row(p, _M12), dz, _row(p, _M22) * dy))
    _put(p, to[0], _row(p, _P))


_MODELS = {
    IndRNN: (_indrnn, _indrnn_back),
    MinGRU: (_mingru, _mingru_back),
    SRU: (_sru, _sru_back),
    Rotation: (_rotation, _rotation_back),
    Oscillation: (_oscillation, _oscillation_back),
}
