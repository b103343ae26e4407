"""Numba kernels of ``gradient_growth``: one layer over a piece of the sequence, E = b·m neurons side by side.

All in float64, but for the tanh, which is that of the layer's dtype. Short loops over few rows each, which LLVM turns
into vector code. Imported on first use, for it brings numba along.
"""

from unicornn._ops.cpu.jit import kernel, tanh


@kernel
def _activate(x, y, w):
    """x ← tanh(w y + x)."""
    for i in range(len(x)):
        x[i] = tanh(x.dtype.type(w[i] * y[i] + x[i]))


@kernel
def _kick_and_drift(t, y, z, a, alpha):
    """Eq. (6)."""
    for i in range(len(t)):
        z[i] -= a[i] * (t[i] + alpha * y[i])
        y[i] += a[i] * z[i]


@kernel
def _slope(t):
    """t ← 1 - t²."""
    for i in range(len(t)):
        t[i] = t.dtype.type(1) - t[i] * t[i]


@kernel
def forward(x, out, y, z, w, a, alpha):
    """x (K, E), what drives the layer, becomes σ'; out (K, E) is the layer's output; y, z (E,) are carried along."""
    for n in range(len(x)):
        _activate(x[n], y, w)
        _kick_and_drift(x[n], y, z, a, alpha)
        _slope(x[n])
        out[n] = y


@kernel
def _backward_step(slope, g, δy, δz, w, a, alpha):
    """Suppl. Eq. (3), Suppl. Eq. (5): g comes as ∂E/∂y of this step's output and leaves as ∂E/∂x."""
    for i in range(len(g)):
        dy = δy[i] + g[i]
        dz = δz[i] + a[i] * dy
        gx = -a[i] * dz * slope[i]
        δy[i] = dy + gx * w[i] - alpha * a[i] * dz
        δz[i] = dz
        g[i] = gx


@kernel
def backward(slope, g, δy, δz, w, a, alpha):
    """g (K, E) from ∂E/∂y to ∂E/∂x, and the adjoint δy, δz (E,) from the end of the piece to its beginning."""
    for n in range(len(g) - 1, -1, -1):
        _backward_step(slope[n], g[n], δy, δz, w, a, alpha)
