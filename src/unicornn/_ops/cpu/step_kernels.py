"""Numba kernels that carry many live sequences on: one or more steps of all layers, each sequence by itself.

A block of at most ROWS sequences goes through all layers before the next block does, so that what it needs stays in
the cache. Blocks are shared out among threads. Nothing crosses a row, and the products of ``products`` have the same
bits for any number of rows, so a sequence's numbers depend on nothing but its own samples.

Memory, all of it flat; m is cut into blocks of B neurons, as the recurrence of ``cpu_kernels`` wants it:

    M  the matrices V, Λ of each layer, packed one after another
    P  per layer and block of neurons: w, b            (2 rows of B)
    A  per layer and block of neurons: a, a in grid units, in float64
    S  the state of a block of neurons: Y, Z           (2 rows of B)
    K  the bits of the matrices in M, as they were before they were packed

Imported on first use, for it brings numba along.
"""

import numpy as np

from unicornn._ops.cpu.jit import kernel, view, view_at
from unicornn._ops.cpu.products import multiply, pack, padded
from unicornn._ops.cpu.sizes import ROWS, B
from unicornn._ops.cpu.step_rows import carry_rows


@kernel
def _below(l, k, d, m):
    """How many numbers layer l reads from k layers further down; k = 1 for its own input, S + 1 for a residual."""
    return d if l + 1 == k else m


@kernel
def _same(a, b, n):
    """Whether n numbers have the same bits."""
    other = 0
    for i in range(n):
        other |= a[i] ^ b[i]
    return other == 0


@kernel
def _pack_matrices(at, M, K, L, m, d, S):
    """M ← V and, from layer S on, Λ of each layer; ``at`` (L, 6) holds their addresses in columns 3 and 4.

    K holds their bits as they were when M was made: comparing takes less time than packing.
    """
    mo = ko = 0
    for l in range(L):
        for link in range(2 if l >= S else 1):
            n = _below(l, S + 1 if link else 1, d, m)
            size, where = n * padded(M, m), at[l, 3 + link]
            bits, kept = view_at(where, K, m * n), view(K, ko, m * n)
            if not _same(bits, kept, m * n):
                for i in range(m * n):
                    kept[i] = bits[i]
                pack(view_at(where, M, m * n), view(M, mo, size), m, n)
            mo += size
            ko += m * n


@kernel
def pack_all(at, c, a, M, P, A, K, unit, L, m, d, S):
    """M, P, A ← the parameters at addresses ``at`` (L, 6): of w, b, c, V, Λ of each layer; K as ``_pack_matrices`` has
    it. a (L, m) are the time steps that belong to c (L, m). Returns whether that is the c that the layers have."""
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
    _pack_matrices(at, M, K, L, m, d, S)
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


@kernel
def _numbers(at, row, column, o, like, n):
    """n numbers of the type of ``like``, from place o on of those at an address."""
    return view_at(at[row, column] + o * like.itemsize, like, n)


@kernel
def step(at, M, P, A, kind, unit, alpha, limit, batch, L, m, d, skip, k0, k1):
    """One step of a stack for the blocks of sequences k0 to k1.

    The first row of ``at`` ends with the address of u (b, d). The last one holds those of y, z (L, b, m) and the grid
    (2, L, b, m) before and after; ``kind`` is an array of the type of S. Returns 0 unless states left the range, or
    were not what the grid says.
    """
    blocks, ld, size, wrong = -(-m // B), padded(M, m), L * batch * m, 0
    u, y_next, x = view_at(at[0, 5], M, batch * d), view_at(at[L, 3], M, size), np.empty(min(ROWS, batch) * ld, M.dtype)
    for k in range(k0, k1):
        first, mo = k * ROWS, 0
        rows = min(ROWS, batch - first)
        for l in range(L):
            below = view(y_next, first * m, size - first * m)
            mo = drive(l, mo, view(u, first * d, rows * d), d, below, m, batch * m, x, M, rows, m, d, skip)
            o, n, part = (l * batch + first) * m, rows * m, 2 * B * blocks
            wrong += carry_rows(
                x, ld, _numbers(at, L, 0, o, M, n), _numbers(at, L, 1, o, M, n), _numbers(at, L, 2, o, at, n),
                _numbers(at, L, 2, size + o, at, n), _numbers(at, L, 3, o, M, n), _numbers(at, L, 4, o, M, n),
                _numbers(at, L, 5, o, at, n), _numbers(at, L, 5, size + o, at, n), rows, m, kind,
                view(A, l * part, part), view(P, l * part, part), unit, alpha, limit,
            )  # fmt: skip
    return wrong


@kernel
def pack_and_step(at, c, a, K, M, P, A, kind, unit, alpha, limit, batch, L, m, d, skip, k0, k1):
    """``pack_all`` and ``step`` in one call; -1 where c is another one."""
    if not pack_all(at, c, a, M, P, A, K, unit, L, m, d, skip):
        return -1
    return step(at, M, P, A, kind, unit, alpha, limit, batch, L, m, d, skip, k0, k1)


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
