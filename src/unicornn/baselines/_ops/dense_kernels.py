"""Numba kernels for coRNN, expRNN and LEM, whose steps multiply the state by a matrix.

A kernel runs the sequences s0 to s1, one after another. S (N + 1, b, ·) holds the states; the state after the end of a
sequence stays the same. A product is a weighted sum of matrix rows, so forward kernels take the transposed matrix and
backward kernels the matrix itself. Backwards, D (b, ·) holds the adjoint of the state, and ``to`` receives ∂E/∂(drive);
torch computes the gradients of matrices as products over all steps.

weights: matrices and vectors, constants: numbers of the model. Imported on first use, because it imports numba.
"""

from unicornn._ops.cpu.jit import fma, kernel, least, tanh, view


@kernel
def _add_four(to, W, o, v0, v1, v2, v3, n):
    """to ← to + v0 W[0] + … + v3 W[3], rows of n numbers from the offset o on."""
    w0, w1, w2, w3 = view(W, o, n), view(W, o + n, n), view(W, o + 2 * n, n), view(W, o + 3 * n, n)
    for j in range(n):
        to[j] = fma(v3, w3[j], fma(v2, w2[j], fma(v1, w1[j], fma(v0, w0[j], to[j]))))


@kernel
def _add_product(to, W, v, n):
    """to (n,) ← to + Σ_i v[i] W[i], W (len(v), n)."""
    by_four = len(v) // 4 * 4
    for i in range(0, by_four, 4):
        _add_four(to, W, i * n, v[i], v[i + 1], v[i + 2], v[i + 3], n)
    for i in range(by_four, len(v)):
        w = view(W, i * n, n)
        for j in range(n):
            to[j] = fma(v[i], w[j], to[j])


@kernel
def _tanh(v):
    for i in range(len(v)):
        v[i] = tanh(v[i])


@kernel
def _sigmoid(v):
    half = v.dtype.type(0.5)
    for i in range(len(v)):
        v[i] = fma(half, tanh(half * v[i]), half)


@kernel
def _copy(to, v):
    for i in range(len(v)):
        to[i] = v[i]


@kernel
def _clear(v):
    for i in range(len(v)):
        v[i] = 0


@kernel
def _flush(v):
    """Sets adjoints below ``jit.least`` to zero."""
    zero, tiny = v.dtype.type(0), least(v)
    for i in range(len(v)):
        v[i] = zero if abs(v[i]) < tiny else v[i]


# coRNN: z ← (1 - Δt ε) z + Δt tanh(x + W y + Wz z) - Δt γ y, y ← y + Δt z. The matrix is (W | Wz).


@kernel
def cornn(x, S, weights, ends, constants, s0, s1):
    """Forwards: overwrites x (N, b, m) with the tanh; S (N + 1, b, 2m) holds y and z."""
    (N, b, m), (W,), (dt, spring, damped) = x.shape, weights, constants
    for s in range(s0, s1):
        for n in range(N):
            before, after = view(S, (n * b + s) * 2 * m, 2 * m), view(S, ((n + 1) * b + s) * 2 * m, 2 * m)
            if n >= ends[s]:
                _copy(after, before)
                continue
            force = view(x, (n * b + s) * m, m)
            _add_product(force, W, before, m)
            _tanh(force)
            for i in range(m):
                z = fma(damped, before[m + i], fma(dt, force[i], spring * before[i]))
                after[m + i] = z
                after[i] = fma(dt, z, before[i])


@kernel
def cornn_adjoint(g, force, S, to, D, weights, ends, constants, s0, s1):
    """Backwards: g is ∂E/∂y (N, b, m), or a single step for all N."""
    (N, b, m), (W,), (dt, spring, damped) = force.shape, weights, constants
    stride, one = b * m if len(g) == N else 0, D.dtype.type(1)
    for s in range(s0, s1):
        d = view(D, s * 2 * m, 2 * m)
        for n in range(N - 1, -1, -1):
            o = (n * b + s) * m
            a, f, shown = view(to, o, m), view(force, o, m), view(g, n * stride + s * m, m)
            if n >= ends[s]:
                _clear(a)
                continue
            for i in range(m):
                gy = d[i] + shown[i]
                gz = fma(dt, gy, d[m + i])
                a[i] = dt * gz * (one - f[i] * f[i])
                d[i] = fma(spring, gz, gy)
                d[m + i] = damped * gz
            _add_product(d, W, a, 2 * m)
            _flush(d)


# expRNN: h ← modrelu(x + W h)


@kernel
def exprnn(x, S, weights, ends, constants, s0, s1):
    """Forwards: S (N + 1, b, m) holds h."""
    (N, b, m), (W, b_relu), zero = x.shape, weights, S.dtype.type(0)
    for s in range(s0, s1):
        for n in range(N):
            before, after = view(S, (n * b + s) * m, m), view(S, ((n + 1) * b + s) * m, m)
            if n >= ends[s]:
                _copy(after, before)
                continue
            _copy(after, view(x, (n * b + s) * m, m))
            _add_product(after, W, before, m)
            for i in range(m):
                a = after[i]
                size = abs(a) + b_relu[i]
                size = size if size > zero else zero
                after[i] = size if a > zero else (-size if a < zero else zero)


@kernel
def exprnn_adjoint(g, x, S, to, D, weights, ends, constants, s0, s1):
    """Backwards: g is ∂E/∂h (N, b, m), or a single step for all N."""
    (N, b, m), W = to.shape, weights[0]
    stride, zero = b * m if len(g) == N else 0, D.dtype.type(0)
    for s in range(s0, s1):
        d = view(D, s * m, m)
        for n in range(N - 1, -1, -1):
            o = (n * b + s) * m
            a, h, shown = view(to, o, m), view(S, o + b * m, m), view(g, n * stride + s * m, m)
            if n >= ends[s]:
                _clear(a)
                continue
            for i in range(m):
                a[i] = zero if h[i] == zero else d[i] + shown[i]
                d[i] = zero
            _add_product(d, W, a, m)
            _flush(d)


# LEM: Δt, Δt' and f = tanh from x[:3m] + W y; z ← z + Δt (f - z); y ← y + Δt' (tanh(x[3m:] + Wy z) - y)


@kernel
def lem(x, S, weights, ends, constants, s0, s1):
    """Forwards: overwrites x (N, b, 4m) with the two σ̂ and the two tanh; S (N + 1, b, 2m) holds y and z."""
    N, b, m = x.shape[0], x.shape[1], x.shape[2] // 4
    (W, Wy), (dt,) = weights, constants
    for s in range(s0, s1):
        for n in range(N):
            o, before = 4 * (n * b + s) * m, view(S, (n * b + s) * 2 * m, 2 * m)
            after = view(S, ((n + 1) * b + s) * 2 * m, 2 * m)
            if n >= ends[s]:
                _copy(after, before)
                continue
            _add_product(view(x, o, 3 * m), W, view(S, (n * b + s) * 2 * m, m), 3 * m)
            steps, f, q = view(x, o, 2 * m), view(x, o + 2 * m, m), view(x, o + 3 * m, m)
            _sigmoid(steps)
            _tanh(f)
            for i in range(m):
                z = before[m + i]
                after[m + i] = fma(dt * steps[i], f[i] - z, z)
            _add_product(q, Wy, view(S, ((n + 1) * b + s) * 2 * m + m, m), m)
            _tanh(q)
            for i in range(m):
                y = before[i]
                after[i] = fma(dt * steps[m + i], q[i] - y, y)


@kernel
def lem_adjoint(g, x, S, to, D, weights, ends, constants, s0, s1):
    """Backwards: g is ∂E/∂y (N, b, m), or a single step for all N; ``to`` (N, b, 4m)."""
    N, b, m = x.shape[0], x.shape[1], x.shape[2] // 4
    (W, Wy), (dt,) = weights, constants
    stride, one = b * m if len(g) == N else 0, D.dtype.type(1)
    for s in range(s0, s1):
        gy, gz, d = view(D, s * 2 * m, m), view(D, s * 2 * m + m, m), view(D, s * 2 * m, 2 * m)
        for n in range(N - 1, -1, -1):
            o = 4 * (n * b + s) * m
            a, gates, before = view(to, o, 4 * m), view(x, o, 4 * m), view(S, (n * b + s) * 2 * m, 2 * m)
            shown = view(g, n * stride + s * m, m)
            if n >= ends[s]:
                _clear(a)
                continue
            for i in range(m):
                e, gate, q = gy[i] + shown[i], gates[m + i], gates[3 * m + i]
                a[3 * m + i] = e * dt * gate * (one - q * q)
                a[m + i] = e * dt * (q - before[i]) * gate * (one - gate)
                gy[i] = e * (one - dt * gate)
            _add_product(gz, Wy, view(to, o + 3 * m, m), m)
            for i in range(m):
                e, gate, f = gz[i], gates[i], gates[2 * m + i]
                a[2 * m + i] = e * dt * gate * (one - f * f)
                a[i] = e * dt * (f - before[m + i]) * gate * (one - gate)
                gz[i] = e * (one - dt * gate)
            _add_product(gy, W, view(to, o, 3 * m), m)
            _flush(d)
