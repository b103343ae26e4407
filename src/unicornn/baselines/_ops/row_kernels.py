"""Numba kernels for baselines with independent neurons: IndRNN, SRU with minGRU, LRU and LinOSS.

Written like the layer's own CPU kernels. A step works on a flat row of E = b·m elements. Rows are cut into blocks of B
elements, which are distributed among threads; blocks are independent. All rows of a block are in one array D, at
multiples of B, because the vectoriser can distinguish only a few arrays at run time; a step that uses too many of them
is split into several loops. A GROUP of blocks runs through time together: its D stays in the cache, and memory is read
in long runs.

The first row of D holds the length of the element's sequence: beyond it, the state is constant and the output zero. The
next rows hold the state, or its adjoint, and the coefficients. The last rows collect the gradients of the coefficients
over SPAN steps and are then added to T, in float64.

Imported on first use, because it imports numba.
"""

from unicornn._ops.cpu.jit import fma, kernel, least, tanh, view
from unicornn._ops.cpu.sizes import B

SPAN = 256  # steps
GROUP = 16  # blocks

_S = B  # offset of the state in D, or of its adjoint; the length is at 0
_P, _Q = B, 2 * B  # offsets of a state of two numbers: real and imaginary part, or z and y

# IndRNN: u, the bias, their gradients
_U, _B, _GU, _GB = (k * B for k in range(2, 6))
INDRNN_ROWS, INDRNN_SUMS = 6, 2

# SRU and minGRU: v_f, v_r, the biases of x̃, f, r, two scratch rows, the gradients of the parameters
_VF, _VR, _BX, _BF, _BR, _TF, _TR, _GVF, _GVR, _GBX, _GBF, _GBR = (k * B for k in range(2, 14))
GATED_ROWS, GATED_SUMS = 14, 5

# LRU: the real and imaginary part of λ, their gradients
_RE, _IM, _GRE, _GIM = (k * B for k in range(3, 7))
ROTATION_ROWS, ROTATION_SUMS = 7, 2

# LinOSS: the four elements of M, their gradients
_M11, _M12, _M21, _M22, _G11, _G12, _G21, _G22 = (k * B for k in range(3, 11))
OSCILLATION_ROWS, OSCILLATION_SUMS = 11, 4


@kernel
def _flush_sums(D, T, sums):
    """Adds the gradients of the last steps to T."""
    first = len(D) - sums * B
    for i in range(sums * B):
        T[i] += D[first + i]
        D[first + i] = 0


@kernel
def _add_gradient(g, D, row, now, e):
    """Adds ∂E/∂(output of this step) to the adjoint of the state."""
    zero = D.dtype.type(0)
    for i in range(e):
        D[row + i] += g[i] if now < D[i] else zero


@kernel
def _write_row(to, D, row, now, e):
    """Writes a row of D to ``to``, zero in the padding."""
    zero = D.dtype.type(0)
    for i in range(e):
        to[i] = D[row + i] if now < D[i] else zero


# IndRNN: h ← relu(x + b + u h)


@kernel
def _relu_step(x, D, now, e):
    """x ← h."""
    zero = D.dtype.type(0)
    for i in range(e):
        h = fma(D[_U + i], D[_S + i], x[i] + D[_B + i])
        h = zero if h < zero else h
        runs = now < D[i]
        D[_S + i] = h if runs else D[_S + i]
        x[i] = h if runs else zero


@kernel
def _relu_back(g, h, before, to, D, now, e):
    """Writes ∂E/∂x to ``to``, from ∂E/∂h of this step's output."""
    zero, tiny = D.dtype.type(0), least(D)
    for i in range(e):
        runs = now < D[i]
        gx = D[_S + i] + g[i] if h[i] > zero else zero
        gx = gx if runs else zero
        D[_GU + i] = fma(gx, before[i], D[_GU + i])
        D[_GB + i] += gx
        dh = gx * D[_U + i]
        dh = zero if abs(dh) < tiny else dh
        D[_S + i] = dh if runs else D[_S + i]
        to[i] = gx


@kernel
def indrnn(x, D, k0, k1):
    """Forwards: overwrites x (N, E) with h."""
    N, E = x.shape
    for first in range(k0, k1, GROUP):
        for n in range(N):
            for k in range(first, min(first + GROUP, k1)):
                size = min(E - k * B, B)
                d = view(D, k * INDRNN_ROWS * B, INDRNN_ROWS * B)
                _relu_step(view(x, n * E + k * B, size), d, d.dtype.type(n), size)


@kernel
def indrnn_adjoint(g, h, start, to, D, T, k0, k1):
    """Backwards: g is ∂E/∂h (N, E), or a single row for all steps; ``to`` (N, E) receives ∂E/∂x."""
    N, E = h.shape
    stride = E if len(g) == N else 0
    for first in range(k0, k1, GROUP):
        for n in range(N - 1, -1, -1):
            for k in range(first, min(first + GROUP, k1)):
                lo = k * B
                size, o = min(E - lo, B), n * E + lo
                d = view(D, k * INDRNN_ROWS * B, INDRNN_ROWS * B)
                g_n, h_n, to_n = view(g, n * stride + lo, size), view(h, o, size), view(to, o, size)
                before = view(h, o - E, size) if n else view(start, lo, size)
                _relu_back(g_n, h_n, before, to_n, d, d.dtype.type(n), size)
                if n % SPAN == 0:
                    _flush_sums(d, view(T, k * INDRNN_SUMS * B, INDRNN_SUMS * B), INDRNN_SUMS)


# SRU: f, r = σ(x + v c + b), c ← f c + (1 - f) x̃, h = r c + (1 - r) α s. minGRU is c alone, with v = 0, f = 1 - z.


@kernel
def _gate(x, D, v, b, e):
    """x ← σ(x + v c + b)."""
    half = D.dtype.type(0.5)
    for i in range(e):
        x[i] = fma(half, tanh(half * fma(D[v + i], D[_S + i], x[i] + D[b + i])), half)


@kernel
def _carry(x, f, c, D, now, e):
    """c ← f c + (1 - f) (x + b)."""
    zero = D.dtype.type(0)
    for i in range(e):
        new = x[i] + D[_BX + i]
        new = fma(f[i], D[_S + i] - new, new)
        runs = now < D[i]
        D[_S + i] = new if runs else D[_S + i]
        c[i] = new if runs else zero


@kernel
def _highway(r, s, h, D, alpha, now, e):
    zero = D.dtype.type(0)
    for i in range(e):
        skip = alpha * s[i]
        h[i] = fma(r[i], D[_S + i] - skip, skip) if now < D[i] else zero


@kernel
def _highway_back(g, r, c, s, D, alpha, now, e):
    """Adds to the adjoint of c, and writes that of r's drive to the scratch row."""
    zero, one = D.dtype.type(0), D.dtype.type(1)
    for i in range(e):
        q = g[i] if now < D[i] else zero
        D[_S + i] = fma(q, r[i], D[_S + i])
        D[_TR + i] = q * (c[i] - alpha * s[i]) * r[i] * (one - r[i])


@kernel
def _skip_back(g, r, to, D, alpha, now, e):
    zero, one = D.dtype.type(0), D.dtype.type(1)
    for i in range(e):
        to[i] = g[i] * (one - r[i]) * alpha if now < D[i] else zero


@kernel
def _carry_back(x, f, before, to, D, now, e):
    """Writes ∂E/∂x̃ to ``to``, and the adjoint of f's drive to the scratch row."""
    zero, one, tiny = D.dtype.type(0), D.dtype.type(1), least(D)
    for i in range(e):
        runs = now < D[i]
        dc = D[_S + i] if runs else zero
        gx = dc * (one - f[i])
        gf = gx * f[i] * (before[i] - x[i] - D[_BX + i])
        gr = D[_TR + i]
        D[_GVF + i] = fma(gf, before[i], D[_GVF + i])
        D[_GVR + i] = fma(gr, before[i], D[_GVR + i])
        D[_GBX + i] += gx
        D[_GBF + i] += gf
        D[_GBR + i] += gr
        D[_TF + i] = gf
        dc = fma(gr, D[_VR + i], fma(gf, D[_VF + i], dc * f[i]))
        dc = zero if abs(dc) < tiny else dc
        D[_S + i] = dc if runs else D[_S + i]
        to[i] = gx


@kernel
def gated(x, s, c, h, D, alpha, highway, k0, k1):
    """Forwards: overwrites the drives of the gates in x (3 or 2, N, E) with f and r; writes c and, with a highway, h.

    Without a highway, s and h are ignored.
    """
    N, E = c.shape
    plane = N * E
    for first in range(k0, k1, GROUP):
        for n in range(N):
            for k in range(first, min(first + GROUP, k1)):
                size, o = min(E - k * B, B), n * E + k * B
                d = view(D, k * GATED_ROWS * B, GATED_ROWS * B)
                now, f = d.dtype.type(n), view(x, plane + o, size)
                _gate(f, d, _VF, _BF, size)
                if highway:
                    _gate(view(x, 2 * plane + o, size), d, _VR, _BR, size)
                _carry(view(x, o, size), f, view(c, o, size), d, now, size)
                if highway:
                    r = view(x, 2 * plane + o, size)
                    _highway(r, view(s, o, size), view(h, o, size), d, alpha, now, size)


@kernel
def gated_adjoint(g, x, s, c, start, to, to_s, D, T, alpha, highway, k0, k1):
    """Backwards: g is ∂E/∂h, or ∂E/∂c without a highway, (N, E) or a single row for all steps.

    ``to``, of x's shape, receives ∂E/∂x, and ``to_s`` ∂E/∂s.
    """
    N, E = c.shape
    plane, stride = N * E, E if len(g) == N else 0
    for first in range(k0, k1, GROUP):
        for n in range(N - 1, -1, -1):
            for k in range(first, min(first + GROUP, k1)):
                lo = k * B
                size, o = min(E - lo, B), n * E + lo
                d = view(D, k * GATED_ROWS * B, GATED_ROWS * B)
                now, g_n = d.dtype.type(n), view(g, n * stride + lo, size)
                before = view(c, o - E, size) if n else view(start, lo, size)
                if highway:
                    r = view(x, 2 * plane + o, size)
                    _highway_back(g_n, r, view(c, o, size), view(s, o, size), d, alpha, now, size)
                    _skip_back(g_n, r, view(to_s, o, size), d, alpha, now, size)
                    _write_row(view(to, 2 * plane + o, size), d, _TR, now, size)
                else:
                    _add_gradient(g_n, d, _S, now, size)
                _carry_back(view(x, o, size), view(x, plane + o, size), before, view(to, o, size), d, now, size)
                _write_row(view(to, plane + o, size), d, _TF, now, size)
                if n % SPAN == 0:
                    _flush_sums(d, view(T, k * GATED_SUMS * B, GATED_SUMS * B), GATED_SUMS)


# LRU: x ← λ x + v, complex


@kernel
def _rotate(re, im, D, now, e):
    """Overwrites v, given as ``re`` and ``im``, with x."""
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
    """Adjoint of the state before this step, which was ``re`` and ``im``."""
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
    """Forwards: overwrites v in x (2, N, E) with the states."""
    _, N, E = x.shape
    for first in range(k0, k1, GROUP):
        for n in range(N):
            for k in range(first, min(first + GROUP, k1)):
                size, o = min(E - k * B, B), n * E + k * B
                d = view(D, k * ROTATION_ROWS * B, ROTATION_ROWS * B)
                _rotate(view(x, o, size), view(x, N * E + o, size), d, d.dtype.type(n), size)


@kernel
def rotation_adjoint(g, x, start, to, D, T, k0, k1):
    """Backwards: g is ∂E/∂x (2, N, E), or (2, 1, E) for all steps; ``to`` receives ∂E/∂v."""
    _, N, E = x.shape
    plane, stride, other = N * E, E if g.shape[1] == N else 0, g.shape[1] * E
    for first in range(k0, k1, GROUP):
        for n in range(N - 1, -1, -1):
            for k in range(first, min(first + GROUP, k1)):
                lo = k * B
                size, o = min(E - lo, B), n * E + lo
                d = view(D, k * ROTATION_ROWS * B, ROTATION_ROWS * B)
                now = d.dtype.type(n)
                _add_gradient(view(g, n * stride + lo, size), d, _P, now, size)
                _add_gradient(view(g, other + n * stride + lo, size), d, _Q, now, size)
                _write_row(view(to, o, size), d, _P, now, size)
                _write_row(view(to, plane + o, size), d, _Q, now, size)
                re = view(x, o - E, size) if n else view(start, lo, size)
                im = view(x, plane + o - E, size) if n else view(start, E + lo, size)
                _rotate_back(re, im, d, now, size)
                if n % SPAN == 0:
                    _flush_sums(d, view(T, k * ROTATION_SUMS * B, ROTATION_SUMS * B), ROTATION_SUMS)


# LinOSS: (z, y) ← M (z + v, y)


@kernel
def _oscillate(v, y, D, now, e):
    """Overwrites v with p = z + v, and writes y."""
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
    """Adjoints of p and of y before this step."""
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
    """Forwards: overwrites v (N, E) with p, and writes y (N, E)."""
    N, E = v.shape
    for first in range(k0, k1, GROUP):
        for n in range(N):
            for k in range(first, min(first + GROUP, k1)):
                size, o = min(E - k * B, B), n * E + k * B
                d = view(D, k * OSCILLATION_ROWS * B, OSCILLATION_ROWS * B)
                _oscillate(view(v, o, size), view(y, o, size), d, d.dtype.type(n), size)


@kernel
def oscillation_adjoint(g, p, y, start, to, D, T, k0, k1):
    """Backwards: g is ∂E/∂y (N, E), or a single row for all steps; ``to`` receives ∂E/∂v."""
    N, E = p.shape
    stride = E if len(g) == N else 0
    for first in range(k0, k1, GROUP):
        for n in range(N - 1, -1, -1):
            for k in range(first, min(first + GROUP, k1)):
                lo = k * B
                size, o = min(E - lo, B), n * E + lo
                d = view(D, k * OSCILLATION_ROWS * B, OSCILLATION_ROWS * B)
                now = d.dtype.type(n)
                _add_gradient(view(g, n * stride + lo, size), d, _Q, now, size)
                before = view(y, o - E, size) if n else view(start, E + lo, size)
                _oscillate_back(view(p, o, size), before, d, now, size)
                _write_row(view(to, o, size), d, _P, now, size)
                if n % SPAN == 0:
                    _flush_sums(d, view(T, k * OSCILLATION_SUMS * B, OSCILLATION_SUMS * B), OSCILLATION_SUMS)
