"""The matrix products of a pass inside its Numba kernels, where a thread asks nobody.

A tile of the result stays in registers while the inner index runs. As in ``products``, which packs the matrices of a
single step, each element is one chain of fused multiply-adds in the order of that index: its bits depend neither on the
tile nor on the number of rows nor on the machine, and a step has those of a sequence. Imported on first use, for it
brings numba along.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from unicornn._ops.jit import kernel
from unicornn._ops.lanes import _SUFFIXES, W, _call, _spread

R = 6
"""Rows of a tile: with two vectors each, what fits into sixteen registers."""

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
            index, vector = a_at.type, ir.VectorType(context.get_value_type(a.dtype), W)
            align, suffix = ir.IntType(32)(context.get_abi_sizeof(vector.element)), _SUFFIXES[a.dtype]
            order = ir.Constant(ir.VectorType(ir.IntType(64), W), list(range(W)))
            mask = builder.icmp_signed("<", order, _spread(builder, types.int64, columns)) if masked else None

            def place(data, at, v=0):
                at = builder.add(at, index(v * W))
                return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())

            def read(data, at, v):
                if not masked:
                    return builder.load(place(data, at, v), align=align.constant)
                rest = [place(data, at, v), align, mask, ir.Constant(vector, None)]
                return _call(builder, f"llvm.masked.load.{suffix}.p0", vector, rest)

            def write(data, at, v, value):
                if not masked:
                    return builder.store(value, place(data, at, v), align=align.constant)
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
                            builder.store(ir.Constant(vector, None), each)
            with cgutils.for_range(builder, count) as loop:
                b_k = builder.add(b_at, builder.mul(loop.index, b_row))
                across = [read(arrays[1], b_k, v) for v in range(vectors)]
                a_k = builder.add(a_at, builder.mul(loop.index, a_step))
                for r in range(rows):
                    at = builder.add(a_k, builder.mul(a_row, index(r)))
                    down = _spread(builder, a.dtype, builder.load(builder.gep(arrays[0], [at])))
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


_rows_2, _rows_1, _row_2, _row_1 = _tile(R, 2, False), _tile(R, 1, True), _tile(1, 2, False), _tile(1, 1, True)


@kernel
def multiply(a, a_row, a_step, b, b_row, depth, c, rows, columns, add):
    """c (rows, columns), contiguous, ← Σₖ a[r a_row + k a_step] b[k b_row + j], k < ``depth``; or this added to c."""
    for k in range(0, max(depth, 1), DEEP):
        count, a_k, b_k, more = min(DEEP, depth - k), k * a_step, k * b_row, add or k > 0
        for j in range(0, columns, 2 * W):
            left = columns - j
            full = rows // R * R
            for r in range(0, full, R):
                at = r * columns + j
                if left >= 2 * W:
                    _rows_2(a, a_k + r * a_row, a_row, a_step, b, b_k + j, b_row, count, c, at, columns, left, more)
                else:
                    _rows_1(a, a_k + r * a_row, a_row, a_step, b, b_k + j, b_row, count, c, at, columns, left, more)
                    if left > W:
                        _rows_1(
                            a, a_k + r * a_row, a_row, a_step, b, b_k + j + W, b_row, count, c, at + W, columns,
                            left - W, more,
                        )  # fmt: skip
            for r in range(full, rows):
                at = r * columns + j
                if left >= 2 * W:
                    _row_2(a, a_k + r * a_row, a_row, a_step, b, b_k + j, b_row, count, c, at, columns, left, more)
                else:
                    _row_1(a, a_k + r * a_row, a_row, a_step, b, b_k + j, b_row, count, c, at, columns, left, more)
                    if left > W:
                        _row_1(
                            a, a_k + r * a_row, a_row, a_step, b, b_k + j + W, b_row, count, c, at + W, columns,
                            left - W, more,
                        )  # fmt: skip
