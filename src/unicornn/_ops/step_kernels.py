"""Numba kernels that carry many live sequences on: one or more steps of all layers, each sequence by itself.

A block of at most ROWS sequences goes through all layers before the next block does, so that what it needs stays in
the cache. Blocks are shared out among threads. Nothing crosses a row, and the products of ``products`` have the same
bits for any number of rows, so a sequence's numbers depend on nothing but its own samples.

Memory, all of it flat; m is cut into blocks of B neurons, as the recurrence of ``cpu_kernels`` wants it:

    M  the matrices V, Λ of each layer, packed one after another
    P  per layer and block of neurons: w, b            (2 rows of B)
    A  per layer and block of neurons: a, a in grid units, in float64
    S  the state of a block of neurons: Y, Z           (2 rows of B)

Imported on first use, for it brings numba along.
"""

import numpy as np

from unicornn._ops.block import ROWS, B
from unicornn._ops.jit import kernel, view, view_at
from unicornn._ops.products import multiply, pack, padded
from unicornn._ops.step_rows import _activate, _kick_and_drift, real


@kernel
def _below(l, k, d, m):
    """How many numbers layer l reads from k layers further down; k = 1 for its own input, S + 1 for a residual."""
    return d if l + 1 == k else m


@kernel
def _pack_matrices(at, M, L, m, d, S):
    """M ← V and, from layer S on, Λ of each layer; ``at`` (L, 6) holds their addresses in columns 3 and 4."""
    mo = 0
    for l in range(L):
        for link in range(2 if l >= S else 1):
            n = _below(l, S + 1 if link else 1, d, m)
            size = n * padded(M, m)
            pack(view_at(at[l, 3 + link], M, m * n), view(M, mo, size), m, n)
            mo += size


@kernel
def pack_all(at, c, a, M, P, A, unit, L, m, d, S):
    """M, P, A ← the parameters at addresses ``at`` (L, 6): of w, b, c, V, Λ of each layer. a (L, m) are the time steps
    that belong to c (L, m). Returns whether that is the c that the layers have."""
    blocks = -(-m // B)
    for l in range(L):
        w, b, now = view_at(at[l, 0], P, m), view_at(at[l, 1], P, m), view_at(at[l, 2], P, m)
        for i in range(m):
            if now[i] != c[l, i]:
                return False
        for k in range(blocks):
            lo, o = k * B, l * blocks + k
            e = min(B, m - lo)
            p, q = view(P, o * 2 * B, 2 * B), view(A, o * 2 * B, 2 * B)
            for i in range(e):
                p[i], p[B + i] = w[lo + i], b[lo + i]
                q[i], q[B + i] = a[l, lo + i], a[l, lo + i] / np.float64(unit)
    _pack_matrices(at, M, L, m, d, S)
    return True


@kernel
def drive(l, mo, u, ldu, y, ldy, apart, x, M, rows, m, d, S):
    """x ← V yˡ⁻¹ + Λ yˡ⁻ˢ⁻¹ of a block of sequences. Their inputs u begin ldu apart, the outputs of a layer ldy apart
    in y, those of the layers ``apart``. Returns where the next layer's matrices begin in M, layer l's beginning at mo.
    """
    ld = padded(x, m)
    for link in range(2 if l >= S else 1):
        k = S + 1 if link else 1
        n = _below(l, k, d, m)
        matrix = view(M, mo, n * ld)
        if l + 1 == k:
            multiply(u, ldu, n, matrix, x, ld, rows, link == 1)
        else:
            multiply(view(y, (l - k) * apart, rows * ldy), ldy, n, matrix, x, ld, rows, link == 1)
        mo += n * ld
    return mo


# The loops are short and of few arrays, so that LLVM makes vector code of each.


@kernel
def _convert(to, numbers, e):
    for i in range(e):
        to[i] = numbers[i]


@kernel
def _show(row, S, unit, e):
    for i in range(e):
        row[i] = real(row, S[i], unit)


@kernel
def _differ(row, S, unit, e):
    count = 0
    for i in range(e):
        count += 0 if row[i] == real(row, S[i], unit) else 1
    return count


@kernel
def step(u, at, M, P, A, kind, unit, alpha, limit, L, m, skip, k0, k1):
    """One step of a stack, u (b, d), for the blocks of sequences k0 to k1.

    The last row of ``at`` holds the addresses of y, z (L, b, m) and the grid (2, L, b, m) before and after; ``kind``
    is an array of the type of S. Returns how many states left the range, or were not what the grid says.
    """
    batch, d = u.shape
    blocks, ld, size, wrong = -(-m // B), padded(u, m), L * batch * m, 0
    y, z, grid = view_at(at[L, 0], u, size), view_at(at[L, 1], u, size), view_at(at[L, 2], at, 2 * size)
    y_next, z_next, grid_next = view_at(at[L, 3], u, size), view_at(at[L, 4], u, size), view_at(at[L, 5], at, 2 * size)
    rows = min(ROWS, batch)
    S, x = np.empty(2 * B, kind.dtype), np.empty(rows * ld, u.dtype)
    Y, Z = view(S, 0, B), view(S, B, B)
    for k in range(k0, k1):
        first, mo = k * ROWS, 0
        rows = min(ROWS, batch - first)
        for l in range(L):
            below = view(y_next, first * m, size - first * m)
            mo = drive(l, mo, view(u, first * d, rows * d), d, below, m, batch * m, x, M, rows, m, d, skip)
            for j in range(blocks):
                lo, o = j * B, l * blocks + j
                e = min(B, m - lo)
                p, a = view(P, o * 2 * B, 2 * B), view(A, o * 2 * B, 2 * B)
                for r in range(rows):
                    o = (l * batch + first + r) * m + lo
                    t = view(x, r * ld + lo, e)
                    _convert(Y, view(grid, o, e), e)
                    _convert(Z, view(grid, size + o, e), e)
                    wrong += _differ(view(y, o, e), Y, unit, e) + _differ(view(z, o, e), Z, unit, e)
                    _activate(t, view(y, o, e), p, e)
                    wrong += _kick_and_drift(view(y_next, o, e), t, S, a, unit, alpha, limit, e)
                    _show(view(z_next, o, e), Z, unit, e)
                    _convert(view(grid_next, o, e), Y, e)
                    _convert(view(grid_next, size + o, e), Z, e)
    return wrong


@kernel
def product(y, V, x, add):
    """x (rows, m) ← y (rows, n) Vᵀ, or this added to x, as in a step."""
    (m, n), rows = V.shape, len(y)
    ld = padded(y, m)
    M, sums = np.empty(n * ld, y.dtype), np.empty((rows, ld), y.dtype)
    pack(view(V, 0, m * n), M, m, n)
    if add:
        sums[:, :m] = x
    multiply(view(y, 0, rows * n), n, n, M, view(sums, 0, rows * ld), ld, rows, add)
    x[:] = sums[:, :m]
