"""Matrix products inside Numba kernels: lock-free, and the rows of a result are independent.

BLAS chooses its order of summation by the number of rows, so a sequence's results would depend on the rest of the
batch. Here each element is one chain of fused multiply-adds over k = 0, 1, 2, …: its bits depend neither on the tile
nor on the number of rows nor on the machine, and a single step has the bits of a sequence.

A tile of the result stays in registers while k runs. LLVM's vectoriser does not find that, so the tile is written in
LLVM instructions. The right matrix is packed in panels of ``panel_width`` columns: rows of a wide matrix, a power of
two apart, would map to the same few lines of the L1 cache. Imported on first use, because it imports numba."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from unicornn._ops.cpu._numba_internals import array_data, cgutils
from unicornn._ops.cpu.jit import inline, kernel, view
from unicornn._ops.cpu.sizes import PANEL
from unicornn._ops.cpu.vectors import REGISTER, W, call_llvm, first, load, load_where, store, store_where

_MANY = 8 if REGISTER == 64 else 6  # rows of a tile: with two vectors each, what fits into 32 or 16 registers

DEPTH = 128
"""Steps of the inner index that are worked on at a time, so that the operands of a tile stay in the L1 cache."""


def _tile(rows, vectors, masked):
    """c[c_at + r c_row + j] ← (c or 0) + Σₖ a[a_at + r a_row + k a_step] · b[b_at + k b_row + j], for ``rows`` rows r
    and ``vectors`` vectors of columns j; with ``masked``, for j < ``columns`` only. k < ``count``."""

    @intrinsic
    def tile(typingctx, a, a_place, b, b_place, c, c_place, count, columns, add):
        def codegen(context, builder, sig, args):
            a_data, b_data, c_data = (array_data(context, builder, t, args[i]) for t, i in ((a, 0), (b, 2), (c, 4)))
            a_at, a_row, a_step = cgutils.unpack_tuple(builder, args[1])
            (b_at, b_row), (c_at, c_row) = (cgutils.unpack_tuple(builder, args[i]) for i in (3, 5))
            count, columns, add = args[6:]
            size = context.get_abi_sizeof(context.get_value_type(a.dtype))
            lanes, suffix = REGISTER // size, f"v{REGISTER // size}f{8 * size}"
            index, vector = a_at.type, ir.VectorType(context.get_value_type(a.dtype), lanes)
            align, zero = ir.IntType(32)(size), ir.Constant(vector, [0.0] * lanes)
            same = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)

            def spread(value):
                vector = ir.VectorType(value.type, lanes)
                first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
                return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), same)

            order = ir.Constant(ir.VectorType(index, lanes), [*range(lanes)])
            mask = builder.icmp_signed("<", order, spread(columns)) if masked else None

            def place(data, at, v=0):
                at = builder.add(at, index(v * lanes))
                return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())

            def read(data, at, v):
                if not masked:
                    return builder.load(place(data, at, v), align=size)
                rest = [place(data, at, v), align, mask, zero]
                return call_llvm(builder, f"llvm.masked.load.{suffix}.p0", vector, rest)

            def write(data, at, v, value):
                if not masked:
                    return builder.store(value, place(data, at, v), align=size)
                rest = [value, place(data, at, v), align, mask]
                return call_llvm(builder, f"llvm.masked.store.{suffix}.p0", ir.VoidType(), rest)

            sums = [[cgutils.alloca_once(builder, vector) for _ in range(vectors)] for _ in range(rows)]
            starts = [builder.add(c_at, builder.mul(c_row, index(r))) for r in range(rows)]
            with builder.if_else(add) as (then, otherwise):
                with then:
                    for r in range(rows):
                        for v in range(vectors):
                            builder.store(read(c_data, starts[r], v), sums[r][v])
                with otherwise:
                    for each in (each for row in sums for each in row):
                        builder.store(zero, each)
            with cgutils.for_range(builder, count) as loop:
                b_k = builder.add(b_at, builder.mul(loop.index, b_row))
                across = [read(b_data, b_k, v) for v in range(vectors)]
                a_k = builder.add(a_at, builder.mul(loop.index, a_step))
                for r in range(rows):
                    at = builder.add(a_k, builder.mul(a_row, index(r)))
                    down = spread(builder.load(builder.gep(a_data, [at])))
                    for v in range(vectors):
                        s = sums[r][v]
                        term = call_llvm(builder, f"llvm.fma.{suffix}", vector, [down, across[v], builder.load(s)])
                        builder.store(term, s)
            for r in range(rows):
                for v in range(vectors):
                    write(c_data, starts[r], v, builder.load(sums[r][v]))
            return context.get_dummy_value()

        i = types.intp
        two, three = types.UniTuple(i, 2), types.UniTuple(i, 3)
        return types.none(a, three, b, two, c, two, i, i, types.boolean), codegen

    return tile


def _tiles(rows):
    """The product of ``rows`` rows with all columns of a panel, the last of which may be narrower."""
    full, part = _tile(rows, 2, False), _tile(rows, 1, True)

    @inline
    def across(a, a_place, b, b_place, c, c_place, count, columns, add):
        lanes = REGISTER // c.itemsize
        (b_at, b_row), (c_at, c_row) = b_place, c_place
        for j in range(0, columns, 2 * lanes):
            left = columns - j
            if left >= 2 * lanes:
                full(a, a_place, b, (b_at + j, b_row), c, (c_at + j, c_row), count, left, add)
            else:
                part(a, a_place, b, (b_at + j, b_row), c, (c_at + j, c_row), count, left, add)
                if left > lanes:
                    j, left = j + lanes, left - lanes
                    part(a, a_place, b, (b_at + j, b_row), c, (c_at + j, c_row), count, left, add)

    return across


_many, _four, _two, _one = _tiles(_MANY), _tiles(4), _tiles(2), _tiles(1)


@kernel
def product(a, a_strides, b, b_strides, depth, c, rows, columns, add):
    """c (rows, columns), contiguous, ← (c or 0) + Σₖ a[r a_row + k a_step] b[k b_row + j], k < ``depth``.

    a_strides: (a_row, a_step). b_strides: b_row and the distance of b's panels.
    """
    w = panel_width(c)
    (a_row, a_step), (b_row, b_panel) = a_strides, b_strides
    for k in range(0, max(depth, 1), DEPTH):
        count, a_k, more = min(DEPTH, depth - k), k * a_step, add or k > 0
        for p in range(-(-columns // w)):
            j, r = p * w, 0
            left, b_place = min(w, columns - j), (k * b_row + p * b_panel, b_row)
            while r + _MANY <= rows:
                a_place, c_place = (a_k + r * a_row, a_row, a_step), (r * columns + j, columns)
                _many(a, a_place, b, b_place, c, c_place, count, left, more)
                r += _MANY
            if r + 4 <= rows:
                a_place, c_place = (a_k + r * a_row, a_row, a_step), (r * columns + j, columns)
                _four(a, a_place, b, b_place, c, c_place, count, left, more)
                r += 4
            if r + 2 <= rows:
                a_place, c_place = (a_k + r * a_row, a_row, a_step), (r * columns + j, columns)
                _two(a, a_place, b, b_place, c, c_place, count, left, more)
                r += 2
            if r < rows:
                a_place, c_place = (a_k + r * a_row, a_row, a_step), (r * columns + j, columns)
                _one(a, a_place, b, b_place, c, c_place, count, left, more)


@kernel
def multiply(y, ldy, n, M, x, m, rows, add):
    """x (rows, m) ← (x or 0) + y (rows, n) Vᵀ, where M is V packed. All flat; rows of y start ldy apart."""
    product(y, (ldy, 1), M, (panel_width(x), n * panel_width(x)), n, x, rows, m, add)


@kernel
def _panels(a, at, n, count, to):
    """to ← panels of a (·, n), ``count`` rows from ``at`` on."""
    w = panel_width(a)
    for j0 in range(0, n, w):
        for i in range(count):
            for j in range(0, min(w, n - j0), W):
                source, target, left = at + i * n + j0 + j, j0 * count + i * w + j, n - j0 - j
                if left >= W:
                    store(to, target, load(a, source))
                else:
                    store_where(first(left), to, target, load_where(first(left), a, source))


@kernel
def _aligned_empty(like, size):
    """An array of this type that starts on a cache line: a vector that spans two lines takes twice as long to load."""
    line = 64 // like.itemsize
    whole = np.empty(size + line, like.dtype)
    start = (-whole.ctypes.data // like.itemsize) % line
    return whole[start : start + size]


@kernel
def add_outer(a, n, b, m, depth, c):
    """c (n, m) ← c + aᵀ b, where a is (depth, n) and b (depth, m)."""
    w = panel_width(c)
    if m <= w:
        product(a, (1, n), b, (m, w), depth, c, n, m, True)
        return
    right = _aligned_empty(c, DEPTH * padded(c, m))
    for k in range(0, depth, DEPTH):
        count = min(DEPTH, depth - k)
        _panels(b, k * m, m, count, right)
        product(view(a, k * n, count * n), (1, n), right, (w, count * w), count, c, n, m, True)


@kernel
def panel_width(like):
    """Number of columns of a panel."""
    return PANEL // like.itemsize


@kernel
def padded(like, m):
    """m, rounded up to whole panels."""
    return -(-m // panel_width(like)) * panel_width(like)


@kernel
def pack(V, M, m, n):
    """M ← V (m, n) for ``multiply``, both flat: panels of Vᵀ, (n, panel_width) each, zero beyond the last column."""
    w = panel_width(V)
    for j0 in range(0, m, w):
        for k in range(n):
            for j in range(w):
                M[j0 * n + k * w + j] = V[(j0 + j) * n + k] if j0 + j < m else 0
