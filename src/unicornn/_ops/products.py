"""A matrix product whose rows do not know each other: each has the bits it would have by itself.

BLAS chooses its order of summation by the number of rows, so that a sequence's numbers would depend on who else is in
the batch. Here every sum runs over k = 0, 1, 2, …, by fused multiply-adds, however many rows there are. Vectors run
over the columns; a tile of rows and columns is kept in registers while k runs. LLVM's vectoriser does not find that,
hence the tile is written in LLVM's own instructions, with vectors of 64 bytes, which it splits where the machine has
shorter ones.

Imported on first use, for it brings numba along.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from unicornn._ops.block import PANEL
from unicornn._ops.jit import kernel

_ROWS, _BYTES = 8, 64  # of a tile, of a vector; 16 sums are enough to keep the multipliers busy
_VECTORS = PANEL // _BYTES


def _tile(rows):
    """The product of so many rows with a panel: x (rows, ·) ← (x or 0) + y (rows, n) M (n, ·)."""

    @intrinsic
    def tile(typingctx, x, xo, ldx, y, yo, ldy, M, mo, n, add):
        signature = types.void(x, *[types.intp] * 2, y, *[types.intp] * 2, M, *[types.intp] * 2, types.boolean)
        size, vectors = 4 if x.dtype == types.float32 else 8, _VECTORS
        lanes = _BYTES // size

        def codegen(context, builder, signature, args):
            xs, ys, Ms = (make_array(t)(context, builder, args[i]).data for t, i in ((x, 0), (y, 3), (M, 6)))
            xo, ldx, yo, ldy, mo, n, add = (args[i] for i in (1, 2, 4, 5, 7, 8, 9))
            scalar = xs.type.pointee
            vector = ir.VectorType(scalar, lanes)
            form = ir.FunctionType(vector, [vector] * 3)
            name = f"llvm.fma.v{lanes}f{8 * size}"
            fma = cgutils.get_or_insert_function(builder.module, form, name)
            same = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            zero = ir.Constant(vector, [0.0] * lanes)

            def at(base, *indices):
                place = indices[0]
                for index in indices[1:]:
                    place = builder.add(place, index)
                return builder.gep(base, [place])

            def constant(k):
                return context.get_constant(types.intp, k)

            def load(base, *indices):
                where = builder.bitcast(at(base, *indices), vector.as_pointer())
                return builder.load(where, align=size)

            def spread(number):
                one = builder.insert_element(ir.Constant(vector, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
                return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), same)

            places = [
                [
                    builder.add(xo, builder.add(builder.mul(constant(r), ldx), constant(c * lanes)))
                    for c in range(vectors)
                ]
                for r in range(rows)
            ]
            sums = [[cgutils.alloca_once(builder, vector) for _ in range(vectors)] for _ in range(rows)]
            with builder.if_else(builder.trunc(add, ir.IntType(1)) if add.type.width > 1 else add) as (yes, no):
                with yes:
                    for r in range(rows):
                        for c in range(vectors):
                            builder.store(load(xs, places[r][c]), sums[r][c])
                with no:
                    for r in range(rows):
                        for c in range(vectors):
                            builder.store(zero, sums[r][c])
            with cgutils.for_range(builder, n) as loop:
                row = builder.add(mo, builder.mul(loop.index, constant(vectors * lanes)))
                columns = [load(Ms, row, constant(c * lanes)) for c in range(vectors)]
                for r in range(rows):
                    start = builder.add(yo, builder.mul(constant(r), ldy))
                    y_k = spread(builder.load(at(ys, start, loop.index)))
                    for c in range(vectors):
                        builder.store(builder.call(fma, [y_k, columns[c], builder.load(sums[r][c])]), sums[r][c])
            for r in range(rows):
                for c in range(vectors):
                    where = builder.bitcast(at(xs, places[r][c]), vector.as_pointer())
                    builder.store(builder.load(sums[r][c]), where, align=size)
            return context.get_dummy_value()

        return signature, codegen

    return tile


_many, _one = _tile(_ROWS), _tile(1)


@intrinsic
def _transpose(typingctx, V, vo, n, M, mo, ld):
    """A square of vectors: M from mo on, rows ld apart ← the transpose of V from vo on, rows n apart."""
    size = 4 if V.dtype == types.float32 else 8
    lanes = _BYTES // size

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
    w, side = wide(V), _BYTES // V.itemsize
    whole_m, whole_n = m - m % side, n - n % side
    for j in range(0, whole_m, side):
        for k in range(0, whole_n, side):
            _transpose(V, j * n + k, n, M, (j // w * n + k) * w + j % w, w)
    _transpose_rest(V, M, n, 0, m, whole_n, n, w)
    _transpose_rest(V, M, n, whole_m, m, 0, whole_n, w)
    for j in range(m, padded(V, m)):
        for k in range(n):
            M[(j // w * n + k) * w + j % w] = 0


@kernel
def multiply(y, ldy, n, M, x, ldx, rows, add):
    """x (rows, ldx) ← (x or 0) + y (rows, n) Vᵀ, where M is V packed. All flat; rows of y begin ldy apart."""
    w = wide(x)
    for j in range(0, ldx, w):
        r = 0
        while r + _ROWS <= rows:
            _many(x, r * ldx + j, ldx, y, r * ldy, ldy, M, j * n, n, add)
            r += _ROWS
        while r < rows:
            _one(x, r * ldx + j, ldx, y, r * ldy, ldy, M, j * n, n, add)
            r += 1
