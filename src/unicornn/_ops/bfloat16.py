"""Matrix products in bfloat16 inside Numba kernels, on processors that are faster with them; sums are float32.

Each element is one chain over k = 0, 1, 2, …, as in ``products``, so its bits depend neither on its place in a tile nor
on the number of rows. Two bfloat16 that follow each other over k lie in the room of one float32, and so are they
declared. The operands of a product are, with k in pairs:

    left    (rows, k)                 a row of k after another
    right   (columns / 16, k, 16)     panels of 16 columns

Imported on first use, for it brings numba along.
"""

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numba.np.arrayobj import make_array

from unicornn._ops.bfloat16_blocks import BFLOAT16, BLOCK, COMPILED, SIDE, add_block, available, begin, end
from unicornn._ops.jit import kernel, view
from unicornn._ops.lanes import W, first, load, load_where
from unicornn._ops.products import _transpose, room

__all__ = ["LEAST", "add_outer", "add_outer_low", "available", "multiply", "multiply_low", "packed"]

DEEP = 256
"""Rows of two factors of an outer product that are turned at a time."""

LEAST = 64
"""Rows and columns of a matrix at least: with smaller ones these products are no faster than those in float32."""


def packed(V):
    """V (m, n) as the right operand of a product with inner index n, flat; zero where there is no row or column."""
    m, n = V.shape
    whole = V.new_zeros(-(-m // BLOCK) * BLOCK, -(-n // BLOCK) * BLOCK, dtype=torch.bfloat16)
    whole[:m, :n] = V
    pairs = whole.view(torch.int32)
    return pairs.view(-1, SIDE, pairs.shape[1]).mT.reshape(-1).numpy().view(np.float32)


def _bfloat16(builder, v):
    return builder.fptrunc(v, ir.VectorType(BFLOAT16, W))


def _write(context, builder, array, value, at, v):
    """A vector of bfloat16 into the room of half as many float32."""
    place = builder.gep(make_array(array)(context, builder, value).data, [at])
    builder.store(v, builder.bitcast(place, v.type.as_pointer()), align=4)


@intrinsic
def _store_row(typingctx, to, at, v):
    """W numbers that follow each other over k, as pairs."""

    def codegen(context, builder, sig, args):
        _write(context, builder, to, args[0], args[1], _bfloat16(builder, args[2]))
        return context.get_dummy_value()

    return types.none(to, types.intp, v), codegen


@intrinsic
def _store_pairs(typingctx, to, at, far, v, after):
    """W numbers, each paired with the one after it over k; the second half goes ``far`` from the first."""

    def codegen(context, builder, sig, args):
        a, b = (_bfloat16(builder, x) for x in args[3:])
        for half, at in enumerate((args[1], builder.add(args[1], args[2]))):
            lanes = [half * W // 2 + i // 2 + (W if i % 2 else 0) for i in range(W)]
            order = ir.Constant(ir.VectorType(ir.IntType(32), W), lanes)
            _write(context, builder, to, args[0], at, builder.shuffle_vector(a, b, order))
        return context.get_dummy_value()

    return types.none(to, types.intp, types.intp, v, v), codegen


@kernel
def _product(left, rows, deep, right, columns, x, add):
    """x (rows, columns), contiguous, ← (x or 0) + left right; ``left`` has room for whole blocks of rows."""
    spare = room(x, BLOCK * BLOCK)
    for r in range(0, rows, BLOCK):
        for j in range(0, columns, BLOCK):
            i_end, j_end = min(BLOCK, rows - r), min(BLOCK, columns - j)
            if i_end == BLOCK and j_end == BLOCK:
                add_block(left, r * deep, deep, right, j * deep, x, r * columns + j, columns, add)
                continue
            if add:
                for i in range(i_end):
                    for k in range(j_end):
                        spare[i * BLOCK + k] = x[(r + i) * columns + j + k]
            add_block(left, r * deep, deep, right, j * deep, spare, 0, BLOCK, add)
            for i in range(i_end):
                for k in range(j_end):
                    x[(r + i) * columns + j + k] = spare[i * BLOCK + k]


@kernel
def _some(y, at, left):
    """W numbers, or as many as are left, and zeros."""
    return load(y, at) if left >= W else load_where(first(left), y, at)


@kernel
def multiply(y, n, M, x, m, rows, add):
    """x (rows, m) ← (x or 0) + y (rows, n) Vᵀ, where M is V packed. All flat."""
    deep, old = -(-n // BLOCK) * SIDE, np.empty(16, np.float32)
    left = room(x, BLOCK * deep)
    begin(old)
    for r in range(0, rows, BLOCK):
        count = min(BLOCK, rows - r)
        for i in range(count):
            for k in range(0, n, W):
                _store_row(left, i * deep + k // 2, _some(y, (r + i) * n + k, n - k))
        _product(left, count, deep, M, m, view(x, r * m, count * m), add)
    end(old)


@kernel
def _pairs(a, at, n, count, panel, row, to):
    """to ← a (count, n) from ``at`` on, rows two by two, ``row`` apart, in panels of SIDE columns, ``panel`` apart."""
    for k in range(0, count, 2):
        for j in range(0, n, W):
            v = _some(a, at + k * n + j, n - j)
            after = _some(a, at + (k + 1) * n + j, n - j if k + 1 < count else 0)
            _store_pairs(to, k // 2 * row + j // SIDE * panel, panel, v, after)


@kernel
def add_outer(a, n, b, m, depth, c):
    """c (n, m) ← c + aᵀ b, where a is (depth, n) and b (depth, m)."""
    wide_n, wide_m, half = -(-n // BLOCK) * BLOCK, -(-m // BLOCK) * BLOCK, DEEP // 2
    rows, left, right = room(c, half * wide_n), room(c, half * wide_n), room(c, half * wide_m)
    old = np.empty(16, np.float32)
    begin(old)
    for k in range(0, depth, DEEP):
        count = min(DEEP, depth - k)
        deep = -(-count // BLOCK) * SIDE
        if 2 * deep > count:
            rows[:], right[:] = 0, 0
        _pairs(a, k * n, n, count, SIDE, wide_n, rows)
        for i in range(0, deep, SIDE):
            for j in range(0, wide_n, SIDE):
                _transpose(rows, i * wide_n + j, wide_n, left, j * deep + i, deep)
        _pairs(b, k * m, m, count, deep * SIDE, SIDE, right)
        _product(left, n, deep, right, m, c, True)
    end(old)


# Kernels for float64, and those of other processors, have these calls in them too, and never come to them.


def multiply_low(y, n, M, x, m, rows, add):
    """``multiply`` where there is one."""


def add_outer_low(a, n, b, m, depth, c):
    """``add_outer`` where there is one."""


@overload(multiply_low)
def _multiply_low(y, n, M, x, m, rows, add):
    if COMPILED and y.dtype == types.float32:
        return lambda y, n, M, x, m, rows, add: multiply(y, n, M, x, m, rows, add)
    return lambda y, n, M, x, m, rows, add: None


@overload(add_outer_low)
def _add_outer_low(a, n, b, m, depth, c):
    if COMPILED and a.dtype == types.float32:
        return lambda a, n, b, m, depth, c: add_outer(a, n, b, m, depth, c)
    return lambda a, n, b, m, depth, c: None
