"""Numba kernels of the linear baselines with a state of two numbers: LRU's rotation and LinOSS's oscillator.

Laid out as ``rows`` says. D holds the length, the two numbers of the state (or their adjoints), the coefficients, and
the gradients of the coefficients. Imported on first use, for it brings numba along.
"""

from unicornn._ops.cpu.jit import fma, kernel, least, view
from unicornn._ops.cpu.sizes import B
from unicornn.baselines._ops.rows import GROUP, SPAN, absorb, flush, give

_P, _Q = B, 2 * B  # the state: real and imaginary part, or z and y

# LRU: the real and imaginary part of λ, their gradients
_RE, _IM, _GRE, _GIM = (k * B for k in range(3, 7))
ROTATION_ROWS, ROTATION_SUMS = 7, 2

# LinOSS: the four elements of M, their gradients
_M11, _M12, _M21, _M22, _G11, _G12, _G21, _G22 = (k * B for k in range(3, 11))
OSCILLATION_ROWS, OSCILLATION_SUMS = 11, 4


# LRU: x ← λ x + v, complex


@kernel
def _rotate(re, im, D, now, e):
    """v, given as ``re`` and ``im``, becomes x."""
    zero = D.dtype.type(0)
    for i in range(e):
        p = fma(D[_RE + i], D[_P + i], fma(-D[_IM + i], D[_Q + i], re[i]))
        q = fma(D[_RE + i], D[_Q + i], fma(D[_IM + i], D[_P + i], im[i]))
        runs = now < D[i]
        D[_P + i] = p if runs else D[_P + i]
        D[_Q + i] = q if runs else D[_Q + i]
        re[i] = p if runs else zero
        im[i] = q if runs else zero


@kernel
def _rotate_back(re, im, D, now, e):
    """The adjoint of the state before this step, which was ``re`` and ``im``."""
    zero, tiny = D.dtype.type(0), least(D)
    for i in range(e):
        runs, p, q = now < D[i], D[_P + i], D[_Q + i]
        dp, dq = p if runs else zero, q if runs else zero
        D[_GRE + i] += fma(dp, re[i], dq * im[i])
        D[_GIM + i] += fma(dq, re[i], -dp * im[i])
        dp, dq = fma(D[_RE + i], dp, D[_IM + i] * dq), fma(D[_RE + i], dq, -D[_IM + i] * dp)
        dp, dq = zero if abs(dp) < tiny else dp, zero if abs(dq) < tiny else dq
        D[_P + i] = dp if runs else p
        D[_Q + i] = dq if runs else q


@kernel
def rotation(x, D, k0, k1):
    """Forwards: x (2, N, E) comes as v and becomes the state."""
    _, N, E = x.shape
    for first in range(k0, k1, GROUP):
        for n in range(N):
            for k in range(first, min(first + GROUP, k1)):
                size, o = min(E - k * B, B), n * E + k * B
                d = view(D, k * ROTATION_ROWS * B, ROTATION_ROWS * B)
                _rotate(view(x, o, size), view(x, N * E + o, size), d, d.dtype.type(n), size)


@kernel
def rotation_adjoint(g, x, start, to, D, T, k0, k1):
    """Backwards: g is ∂E/∂x (2, N, E), or (2, 1, E) for all steps; ``to`` becomes ∂E/∂v."""
    _, N, E = x.shape
    plane, stride, other = N * E, E if g.shape[1] == N else 0, g.shape[1] * E
    for first in range(k0, k1, GROUP):
        for n in range(N - 1, -1, -1):
            for k in range(first, min(first + GROUP, k1)):
                lo = k * B
                size, o = min(E - lo, B), n * E + lo
                d = view(D, k * ROTATION_ROWS * B, ROTATION_ROWS * B)
                now = d.dtype.type(n)
                absorb(view(g, n * stride + lo, size), d, _P, now, size)
                absorb(view(g, other + n * stride + lo, size), d, _Q, now, size)
                give(view(to, o, size), d, _P, now, size)
                give(view(to, plane + o, size), d, _Q, now, size)
                re = view(x, o - E, size) if n else view(start, lo, size)
                im = view(x, plane + o - E, size) if n else view(start, E + lo, size)
                _rotate_back(re, im, d, now, size)
                if n % SPAN == 0:
                    flush(d, view(T, k * ROTATION_SUMS * B, ROTATION_SUMS * B), ROTATION_SUMS)


# LinOSS: (z, y) ← M (z + v, y)


@kernel
def _oscillate(v, y, D, now, e):
    """v becomes p = z + v, and y is written."""
    zero = D.dtype.type(0)
    for i in range(e):
        p, q, runs = D[_P + i] + v[i], D[_Q + i], now < D[i]
        new = fma(D[_M21 + i], p, D[_M22 + i] * q)
        D[_P + i] = fma(D[_M11 + i], p, D[_M12 + i] * q) if runs else D[_P + i]
        D[_Q + i] = new if runs else q
        v[i] = p if runs else zero
        y[i] = new if runs else zero


@kernel
def _oscillate_back(p, y, D, now, e):
    """The adjoint of p and of y before this step."""
    zero, tiny = D.dtype.type(0), least(D)
    for i in range(e):
        runs, z, q = now < D[i], D[_P + i], D[_Q + i]
        dz, dy = z if runs else zero, q if runs else zero
        D[_G11 + i] = fma(dz, p[i], D[_G11 + i])
        D[_G12 + i] = fma(dz, y[i], D[_G12 + i])
        D[_G21 + i] = fma(dy, p[i], D[_G21 + i])
        D[_G22 + i] = fma(dy, y[i], D[_G22 + i])
        dp, dq = fma(D[_M11 + i], dz, D[_M21 + i] * dy), fma(D[_M12 + i], dz, D[_M22 + i] * dy)
        dp, dq = zero if abs(dp) < tiny else dp, zero if abs(dq) < tiny else dq
        D[_P + i] = dp if runs else z
        D[_Q + i] = dq if runs else q


@kernel
def oscillation(v, y, D, k0, k1):
    """Forwards: v (N, E) becomes p, y (N, E) is written."""
    N, E = v.shape
    for first in range(k0, k1, GROUP):
        for n in range(N):
            for k in range(first, min(first + GROUP, k1)):
                size, o = min(E - k * B, B), n * E + k * B
                d = view(D, k * OSCILLATION_ROWS * B, OSCILLATION_ROWS * B)
                _oscillate(view(v, o, size), view(y, o, size), d, d.dtype.type(n), size)


@kernel
def oscillation_adjoint(g, p, y, start, to, D, T, k0, k1):
    """Backwards: g is ∂E/∂y (N, E), or one row for all steps; ``to`` becomes ∂E/∂v."""
    N, E = p.shape
    stride = E if len(g) == N else 0
    for first in range(k0, k1, GROUP):
        for n in range(N - 1, -1, -1):
            for k in range(first, min(first + GROUP, k1)):
                lo = k * B
                size, o = min(E - lo, B), n * E + lo
                d = view(D, k * OSCILLATION_ROWS * B, OSCILLATION_ROWS * B)
                now = d.dtype.type(n)
                absorb(view(g, n * stride + lo, size), d, _Q, now, size)
                before = view(y, o - E, size) if n else view(start, lo, size)
                _oscillate_back(view(p, o, size), before, d, now, size)
                give(view(to, o, size), d, _P, now, size)
                if n % SPAN == 0:
                    flush(d, view(T, k * OSCILLATION_SUMS * B, OSCILLATION_SUMS * B), OSCILLATION_SUMS)
