"""Numba kernels of single steps: the layers packed in one bundle, and one step of all layers for a batch.

A block of at most ROWS sequences runs through all layers before the next block, so that its data stay in the cache.
Blocks are distributed over threads. Rows do not interact, and ``products`` have the same bits for any number of rows,
so a sequence's results depend only on its own samples. Imported on first use, because it imports numba."""

from typing import NamedTuple

import numpy as np

from unicornn._ops.cpu.jit import helper, inline, kernel, view, view_at
from unicornn._ops.cpu.products import ONE, drive, matrix_of, pack, padded, panel_width
from unicornn._ops.cpu.products import product as multiply
from unicornn._ops.cpu.recurrence import Constants, Layer, advance_row, real
from unicornn._ops.cpu.sizes import ROWS, B
from unicornn._ops.cpu.vectors import W, any_true, convert, first, load, load_where, store, store_where


class Packed(NamedTuple):
    """All layers. Arrays are flat, and the m neurons of a layer are cut into blocks of B, as in ``recurrence``.

    M: all V, then all Λ, packed. at: where each starts in M. bits: of these before packing. P, per layer and block: w,
    b. A: a, and a in grid units, in float64. skip: S of the residual connections.
    """

    M: np.ndarray
    at: np.ndarray
    bits: np.ndarray
    P: np.ndarray
    A: np.ndarray
    constants: Constants
    L: int
    m: int
    d: int
    skip: int


@inline
def block_of(net, S, l, j):
    """Neuron block j of layer l, with its state S (2 rows of B)."""
    at = (l * -(-net.m // B) + j) * 2 * B
    return Layer(S, view(net.A, at, 2 * B), view(net.P, at, 2 * B))


@helper
def _same_bits(a, b):
    other = 0
    for i in range(len(a)):
        other |= a[i] ^ b[i]
    return other == 0


@kernel
def pack_layers(at, c, a, net):
    """Packs the parameters at the addresses ``at`` (L, 6): w, b, c, V, Λ of each layer. Matrices whose bits have not
    changed are not packed again. Returns whether the layers have the c (L, m) from which a (L, m) was computed."""
    m, blocks, ld = net.m, -(-net.m // B), padded(net.M, net.m)
    for l in range(net.L):
        w, b, now = view_at(at[l, 0], net.P, m), view_at(at[l, 1], net.P, m), view_at(at[l, 2], net.P, m)
        for i in range(m):
            if now[i] != c[l, i]:
                return False
        for i in range(m):
            o = (l * blocks + i // B) * 2 * B + i % B
            net.P[o], net.P[B + o] = w[i], b[i]
            net.A[o], net.A[B + o] = a[l, i], a[l, i] / np.float64(net.constants.unit)
        for link in range(2 if l >= net.skip else 1):
            _, i, n = matrix_of(l, link, net)
            start, address = net.at[i], at[l, 3 + link]
            bits, before = view_at(address, net.bits, m * n), view(net.bits, start // ld * m, m * n)
            if not _same_bits(bits, before):
                for i in range(m * n):
                    before[i] = bits[i]
                pack(view_at(address, net.M, m * n), view(net.M, start, n * ld), m, n)
    return True


@inline
def _load_row(S, at, X, x, unit, unlike, on):
    """S from ``at`` on ← grid units X; marks lanes where x is not X as a number."""
    units, number = (load(X, at), load(x, at)) if on is None else (load_where(on, X, at), load_where(on, x, at))
    units = convert(units, S)
    store(S, at, units)
    return unlike | (number != real(units, x, unit))


@helper
def _load_state(S, X, x, e, unit):
    """S ← e ≤ B grid units X. Returns 0 if x are the same as numbers."""
    unlike = first(0)
    for i in range(0, e - W + 1, W):
        unlike = _load_row(S, i, X, x, unit, unlike, None)
    if e % W:
        unlike = _load_row(S, e - e % W, X, x, unit, unlike, first(e % W))
    return any_true(unlike)


@helper
def _store_state(S, X, x, e, unit):
    """X ← e ≤ B grid units of S, and x the same as numbers."""
    for i in range(0, e - W + 1, W):
        store(X, i, convert(load(S, i), X))
        store(x, i, real(load(S, i), x, unit))
    if e % W:
        i = e - e % W
        store_where(first(e - i), X, i, convert(load(S, i), X))
        store_where(first(e - i), x, i, real(load(S, i), x, unit))


@helper
def _numbers(at, row, column, o, like, n):
    """n numbers of the type of ``like``, o numbers after an address."""
    return view_at(at[row, column] + o * like.itemsize, like, n)


@kernel
def step(at, c, a, net, S, batch, k0, k1):
    """``pack_layers``, and one step of all layers for the blocks k0 to k1 of sequences. Returns -1 if c has changed;
    otherwise 0, unless a state left the range or did not match the grid.

    The first row of ``at`` ends with the address of u (b, d). The last one has those of y, z (L, b, m) and the grid
    (2, L, b, m), before and after the step. S has the type of the kernels' states.
    """
    if not pack_layers(at, c, a, net):
        return -1
    L, m, ld, size, wrong = net.L, net.m, padded(net.M, net.m), net.L * batch * net.m, 0
    u, y_next = view_at(at[0, 5], net.M, batch * net.d), view_at(at[L, 3], net.M, size)
    x, own, unit = np.empty(min(ROWS, batch) * ld, net.M.dtype), np.empty(2 * B, S.dtype), net.constants.unit
    Y, Z = view(own, 0, B), view(own, B, B)
    for k in range(k0, k1):
        start = k * ROWS
        rows = min(ROWS, batch - start)
        for l in range(L):
            outputs = view(y_next, start * m, size - start * m), m, batch * m
            drive(l, net, (net.M, net.at), view(u, start * net.d, rows * net.d), outputs, x, ld, rows)
            for r in range(rows):
                for j in range(-(-m // B)):
                    e, o = min(B, m - j * B), (l * batch + start + r) * m + j * B
                    wrong += _load_state(Y, _numbers(at, L, 2, o, at, e), _numbers(at, L, 0, o, net.M, e), e, unit)
                    wrong += _load_state(
                        Z, _numbers(at, L, 2, size + o, at, e), _numbers(at, L, 1, o, net.M, e), e, unit
                    )
                    y = view(y_next, o, e)
                    wrong += advance_row(view(x, r * ld + j * B, e), y, block_of(net, own, l, j), net.constants, e)
                    _store_state(Y, _numbers(at, L, 5, o, at, e), y, e, unit)
                    _store_state(Z, _numbers(at, L, 5, size + o, at, e), _numbers(at, L, 4, o, net.M, e), e, unit)
    return wrong


@kernel
def product(y, V, x, add):
    """x (rows, m) ← (x or 0) + y (rows, n) Vᵀ, with the bits of a step."""
    (m, n), rows = V.shape, len(y)
    M = np.empty(n * padded(y, m), y.dtype)
    pack(view(V, 0, m * n), M, m, n)
    w = panel_width(y)
    multiply(view(y, 0, rows * n), (n, ONE), M, (w, n * w), n, view(x, 0, rows * m), rows, m, add)
