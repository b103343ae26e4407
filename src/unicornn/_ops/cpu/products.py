"""Matrix products inside Numba kernels, where a thread asks nobody, and whose rows do not know each other.

BLAS chooses its order of summation by the number of rows, so that a sequence's numbers would depend on who else is in
the batch. Here each element is one chain of fused multiply-adds over k = 0, 1, 2, …: its bits depend neither on the
tile nor on the number of rows nor on the machine, and a step has those of a sequence.

A tile of the result stays in registers while k runs. LLVM's vectoriser does not find that, hence the tile is written in
LLVM's own instructions. The matrix on the right lies in panels of ``wide`` columns, one after another: rows of a wide
matrix, a power of two apart, would fall on the same few lines of the L1 cache.

Imported on first use, for it brings numba along.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from unicornn._ops.cpu.jit import inline, kernel, view
from unicornn._ops.cpu.sizes import PANEL
from unicornn._ops.cpu.vectors import REGISTER, W, _call, first, load, load_where, store, store_where

_MANY = 8 if REGISTER == 64 else 6  # rows of a tile: with two vectors each, what fits into 32 registers, or into 16

DEEP = 128
"""Of the inner index, as much as is worked on at a time, so that the operands of a tile stay in the L1 cache."""


def _tile(rows, vectors, masked):
    """c[c_at + r c_row + j] += Σₖ a[a_at + r a_row + k a_step] · b[b_at + k b_row + j], for so many rows and vectors;
    or without what c was. With ``masked``, of the columns j only so many as there are."""

    @intrinsic
    def tile(typingctx, a, a_at, a_row, a_step, b, b_at, b_row, count, c, c_at, c_row, columns, add):
        def codegen(context, builder, sig, args):
            arrays = [make_array(t)(context, builder, v).data for t, v in ((a, args[0]), (b, args[4]), (c, args[8]))]
            _, a_at, a_row, a_step, _, b_at, b_row, count, _, c_at, c_row, columns, add = args
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
                return _call(builder, f"llvm.masked.load.{suffix}.p0", vector, rest)

            def write(data, at, v, value):
                if not masked:
                    return builder.store(value, place(data, at, v), align=size)
                rest = [value, place(data, at, v), align, mask]
                return _call(builder, f"llvm.masked.store.{suffix}.p0", ir.VoidType(), rest)

            sums = [[cgutils.alloca_once(builder, vector) for _ in range(vectors)] for _ in range(rows)]
            starts = [builder.add(c_at, builder.mul(c_row, index(r))) for r in range(rows)]
            with builder.if_else(add) as (then, otherwise):
                with then:
                    for r in range(rows):
                        for v in range(vectors):
                            builder.store(read(arrays[2], starts[r], v), sums[r][v])
                with otherwise:
                    for row in sums:
                        for each in row:
                            builder.store(zero, each)
            with cgutils.for_range(builder, count) as loop:
                b_k = builder.add(b_at, builder.mul(loop.index, b_row))
                across = [read(arrays[1], b_k, v) for v in range(vectors)]
                a_k = builder.add(a_at, builder.mul(loop.index, a_step))
                for r in range(rows):
                    at = builder.add(a_k, builder.mul(a_row, index(r)))
                    down = spread(builder.load(builder.gep(arrays[0], [at])))
                    for v in range(vectors):
                        s = sums[r][v]
                        term = _call(builder, f"llvm.fma.{suffix}", vector, [down, across[v], builder.load(s)])
                        builder.store(term, s)
            for r in range(rows):
                for v in range(vectors):
                    write(arrays[2], starts[r], v, builder.load(sums[r][v]))
            return context.get_dummy_value()

        i = types.intp
        return types.none(a, i, i, i, b, i, i, i, c, i, i, i, types.boolean), codegen

    return tile


def _tiles(rows):
    """The product of so many rows with all columns of a panel, of which the last may have few."""
    full, part = _tile(rows, 2, False), _tile(rows, 1, True)

    @inline
    def across(a, a_at, a_row, a_step, b, b_at, b_row, count, c, c_at, c_row, columns, add):
        lanes = REGISTER // c.itemsize
        for j in range(0, columns, 2 * lanes):
            left = columns - j
            if left >= 2 * lanes:
                full(a, a_at, a_row, a_step, b, b_at + j, b_row, count, c, c_at + j, c_row, left, add)
            else:
                part(a, a_at, a_row, a_step, b, b_at + j, b_row, count, c, c_at + j, c_row, left, add)
                if left > lanes:
                    j, left = j + lanes, left - lanes
                    part(a, a_at, a_row, a_step, b, b_at + j, b_row, count, c, c_at + j, c_row, left, add)

    return across


_many, _four, _two, _one = _tiles(_MANY), _tiles(4), _tiles(2), _tiles(1)


@kernel
def product(a, a_row, a_step, b, b_row, b_panel, depth, c, rows, columns, add):
    """c (rows, columns), contiguous, ← Σₖ a[r a_row + k a_step] b[k b_row + j], k < ``depth``; or this added to c.
    Panels of b begin ``b_panel`` apart."""
    w = wide(c)
    for k in range(0, max(depth, 1), DEEP):
        count, a_k, b_k, more = min(DEEP, depth - k), k * a_step, k * b_row, add or k > 0
        for p in range(-(-columns // w)):
            j = p * w
            left, b_at, r = min(w, columns - j), b_k + p * b_panel, 0
            while r + _MANY <= rows:
                _many(a, a_k + r * a_row, a_row, a_step, b, b_at, b_row, count, c, r * columns + j, columns, left, more)
                r += _MANY
            if r + 4 <= rows:
                _four(a, a_k + r * a_row, a_row, a_step, b, b_at, b_row, count, c, r * columns + j, columns, left, more)
                r += 4
            if r + 2 <= rows:
                _two(a, a_k + r * a_row, a_row, a_step, b, b_at, b_row, count, c, r * columns + j, columns, left, more)
                r += 2
            if r < rows:
                _one(a, a_k + r * a_row, a_row, a_step, b, b_at, b_row, count, c, r * columns + j, columns, left, more)


@kernel
def multiply(y, ldy, n, M, x, m, rows, add):
    """x (rows, m) ← (x or 0) + y (rows, n) Vᵀ, where M is V packed. All flat; rows of y begin ldy apart."""
    product(y, ldy, 1, M, wide(x), n * wide(x), n, x, rows, m, add)


@kernel
def _panels(a, at, n, count, to):
    """to ← the panels of a (·, n), ``count`` rows from ``at`` on."""
    w = wide(a)
    for j0 in range(0, n, w):
        for i in range(count):
            for j in range(0, min(w, n - j0), W):
                source, target, left = at + i * n + j0 + j, j0 * count + i * w + j, n - j0 - j
                if left >= W:
                    store(to, target, load(a, source))
                else:
                    store_where(first(left), to, target, load_where(first(left), a, source))


@kernel
def room(like, size):
    """An array of this type from a cache line on: a vector that lies on two lines takes twice as long to load."""
    line = 64 // like.itemsize
    whole = np.empty(size + line, like.dtype)
    start = (-whole.ctypes.data // like.itemsize) % line
    return whole[start : start + size]


@kernel
def add_outer(a, n, b, m, depth, c):
    """c (n, m) ← c + aᵀ b, where a is (depth, n) and b (depth, m)."""
    w = wide(c)
    if m <= w:
        product(a, 1, n, b, m, w, depth, c, n, m, True)
        return
    right = room(c, DEEP * padded(c, m))
    for k in range(0, depth, DEEP):
        count = min(DEEP, depth - k)
        _panels(b, k * m, m, count, right)
        product(view(a, k * n, count * n), 1, n, right, w, count * w, count, c, n, m, True)


_SQUARE = 64  # bytes of a row of the squares that are turned at once


@intrinsic
def _transpose(typingctx, V, vo, n, M, mo, ld):
    """A square of vectors: M from mo on, rows ld apart ← the transpose of V from vo on, rows n apart."""
    size = 4 if V.dtype == types.float32 else 8
    lanes = _SQUARE // size

    def codegen(context, builder, signature, args):
        source, target = (make_array(t)(context, builder, args[i]).data for t, i in ((V, 0), (M, 3)))
        vector = ir.VectorType(source.type.pointee, lanes)
        index = ir.VectorType(ir.IntType(32), lanes)
        halves = [
            ir.Constant(index, [half + i // 2 + (lanes if i % 2 else 0) for i in range(lanes)])
            for half in (0, lanes // 2)
        ]

        def rows(base, start, step):
            for r in range(lanes):
                place = builder.add(start, builder.mul(context.get_constant(types.intp, r), step))
                yield builder.bitcast(builder.gep(base, [place]), vector.as_pointer())

        square = [builder.load(row, align=size) for row in rows(source, args[1], args[2])]
        for _ in range(lanes.bit_length() - 1):  # each round interleaves row i with row i + lanes / 2
            pairs = zip(square[: lanes // 2], square[lanes // 2 :], strict=True)
            square = [builder.shuffle_vector(a, b, half) for a, b in pairs for half in halves]
        for row, values in zip(rows(target, args[4], args[5]), square, strict=True):
            builder.store(values, row, align=size)
        return context.get_dummy_value()

    return types.void(V, types.intp, types.intp, M, types.intp, types.intp), codegen


@kernel
def _transpose_rest(V, M, n, j0, j1, k0, k1, wide):
    for j in range(j0, j1):
        for k in range(k0, k1):
            M[(j // wide * n + k) * wide + j % wide] = V[j * n + k]


@kernel
def wide(like):
    """The columns of a panel. Rows of a product have room for whole panels."""
    return PANEL // like.itemsize


@kernel
def padded(like, m):
    """m, rounded up to whole panels."""
    return -(-m // wide(like)) * wide(like)


@kernel
def pack(V, M, m, n):
    """M ← V (m, n) for ``multiply``, both flat: panels of Vᵀ, (n, ``wide``) each, zero where there is no column."""
    w, side = wide(V), _SQUARE // V.itemsize
    whole_m, whole_n = m - m % side, n - n % side
    for j in range(0, whole_m, side):
        for k in range(0, whole_n, side):
            _transpose(V, j * n + k, n, M, (j // w * n + k) * w + j % w, w)
    _transpose_rest(V, M, n, 0, m, whole_n, n, w)
    _transpose_rest(V, M, n, whole_m, m, 0, whole_n, w)
    for j in range(m, padded(V, m)):
        for k in range(n):
            M[(j // w * n + k) * w + j % w] = 0
