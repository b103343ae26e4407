"""Numba kernels of the baselines with a nonlinearity or gates in the recurrence: IndRNN, and SRU with minGRU.

Laid out as ``rows`` says. Imported on first use, for it brings numba along.
"""

from unicornn._ops.cpu.jit import fma, kernel, least, tanh, view
from unicornn._ops.cpu.sizes import B
from unicornn.baselines._ops.rows import GROUP, SPAN, absorb, flush, give

_S = B  # offset of the state in D, or of its adjoint, the length being at 0

# IndRNN: u, the bias, their gradients
_U, _B, _GU, _GB = (k * B for k in range(2, 6))
INDRNN_ROWS, INDRNN_SUMS = 6, 2

# SRU and minGRU: v_f, v_r, the biases of x̃, f, r, two scratch rows, the gradients of the parameters
_VF, _VR, _BX, _BF, _BR, _TF, _TR, _GVF, _GVR, _GBX, _GBF, _GBR = (k * B for k in range(2, 14))
GATED_ROWS, GATED_SUMS = 14, 5


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
    """∂E/∂x, written to ``to``, from ∂E/∂h of this step's output."""
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
    """Forwards: x (N, E) becomes h."""
    N, E = x.shape
    for first in range(k0, k1, GROUP):
        for n in range(N):
            for k in range(first, min(first + GROUP, k1)):
                size = min(E - k * B, B)
                d = view(D, k * INDRNN_ROWS * B, INDRNN_ROWS * B)
                _relu_step(view(x, n * E + k * B, size), d, d.dtype.type(n), size)


@kernel
def indrnn_adjoint(g, h, start, to, D, T, k0, k1):
    """Backwards: g is ∂E/∂h (N, E), or one row for all steps; ``to`` (N, E) becomes ∂E/∂x."""
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
                    flush(d, view(T, k * INDRNN_SUMS * B, INDRNN_SUMS * B), INDRNN_SUMS)


# SRU: f, r = σ(x + v c + b), c ← f c + (1 - f) x̃, h = r c + (1 - r) α s. minGRU is its c alone, with v = 0, f = 1 - z.


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
    """Adds to the adjoint of c, and leaves that of r's drive in the scratch."""
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
    """∂E/∂x̃, written to ``to``; leaves the adjoint of f's drive in the scratch."""
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
    """Forwards: of the drives x (3 or 2, N, E) those of the gates become f and r; c and, with a highway, h are written.

    Without one, s and h are not looked at.
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
    """Backwards: g is ∂E/∂h, or ∂E/∂c without a highway, (N, E) or one row for all steps.

    ``to``, of x's shape, becomes ∂E/∂x, and ``to_s`` ∂E/∂s.
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
                    give(view(to, 2 * plane + o, size), d, _TR, now, size)
                else:
                    absorb(g_n, d, _S, now, size)
                _carry_back(view(x, o, size), view(x, plane + o, size), before, view(to, o, size), d, now, size)
                give(view(to, plane + o, size), d, _TF, now, size)
                if n % SPAN == 0:
                    flush(d, view(T, k * GATED_SUMS * B, GATED_SUMS * B), GATED_SUMS)
