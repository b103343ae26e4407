"""Numba kernels of one step of one block in plain loops, for ``step_kernels``: the bits of ``cpu_kernels``.

They are short loops over contiguous rows, of few arrays, which LLVM turns into vector code. Imported on first use, for
it brings numba along.
"""

import numpy as np
from numba import types
from numba.extending import overload

from unicornn._ops.block import B
from unicornn._ops.cpu_kernels import GONE
from unicornn._ops.jit import INLINE, fma, kernel, tanh

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


@kernel
def _activate(x, y, P, e):
    """x ← t = tanh(w y + x + b); no number where the drive is infinite."""
    for i in range(e):
        v = fma(y[i], P[i], x[i] + P[B + i])
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
