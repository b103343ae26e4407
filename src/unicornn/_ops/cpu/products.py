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
from unicornn._ops.cpu.jit import helper, inline, kernel, view
from unicornn._ops.cpu.sizes import PANEL
from unicornn._ops.cpu.vectors import REGISTER, W, call_llvm, first, in_every_lane, load, load_where, store, store_where

_MANY = 8 if REGISTER == 64 else 6  # rows of a tile: with two vectors each, what fits into 32 or 16 registers

ONE, TRUE = np.int64(1), np.bool_(True)  # Numba compiles a version for each literal, but not for NumPy's constants

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
            order = ir.Constant(ir.VectorType(index, lanes), [*range(lanes)])
            mask = builder.icmp_signed("<", order, in_every_lane(builder, columns, lanes)) if masked else None

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
                    down = in_every_lane(builder, builder.load(builder.gep(a_data, [at])), lanes)
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


def _tiles(height):
    """The product of the rows from r on, ``height`` at a time, with all columns of a panel, the last of which may be
    narrower. Returns the first row that is left."""
    full, part = _tile(height, 2, False), _tile(height, 1, True)

    @inline
    def down(a, a_place, b, b_place, c, c_place, rows, count, columns, add):
        lanes = REGISTER // c.itemsize
        (a_at, a_row, a_step), (b_at, b_row), (c_at, c_row), (r, end) = a_place, b_place, c_place, rows
        whole = columns // (2 * lanes) * (2 * lanes)
        while r + height <= end:
            left, to = (a_at + r * a_row, a_row, a_step), c_at + r * c_row
            for j in range(0, whole, 2 * lanes):
                full(a, left, b, (b_at + j, b_row), c, (to + j, c_row), count, columns, add)
            for j in range(whole, columns, lanes):
                part(a, left, b, (b_at + j, b_row), c, (to + j, c_row), count, columns - j, add)
            r += height
        return r

    return down


_many, _few, _one = _tiles(_MANY), _tiles(3), _tiles(1)


@helper
def product(a, a_strides, b, b_strides, depth, c, rows, columns, add):
    """c (rows, columns), contiguous, ← (c or 0) + Σₖ a[r a_row + k a_step] b[k b_row + j], k < ``depth``.

    a_strides: (a_row, a_step). b_strides: b_row and the distance of b's panels; (w, depth w) if b is packed, where w
    is the width of a panel.
    """
    w = panel_width(c)
    (a_row, a_step), (b_row, b_panel) = a_strides, b_strides
    for k in range(0, max(depth, 1), DEPTH):
        a_place, count, more = (k * a_step, a_row, a_step), min(DEPTH, depth - k), add or k > 0
        for p in range(-(-columns // w)):
            j, b_place = p * w, (k * b_row + p * b_panel, b_row)
            c_place, width = (j, columns), min(w, columns - j)
            r = _many(a, a_place, b, b_place, c, c_place, (0, rows), count, width, more)
            r = _few(a, a_place, b, b_place, c, c_place, (r, rows), count, width, more)
            _one(a, a_place, b, b_place, c, c_place, (r, rows), count, width, more)


@helper
def matrix_of(l, link, sizes):
    """V (link 0) or Λ (1) of layer l: number of the layer its input comes from (0: u), its index among all V, then all
    Λ, and its number of columns. sizes: with the fields d, m, L and skip, S of the residual connections."""
    k = l - sizes.skip if link else l
    return k, sizes.L + k if link else l, sizes.m if k else sizes.d


@helper
def drive(l, sizes, matrices, u, outputs, x, columns, rows):
    """x (rows, columns) ← V yˡ⁻¹ + Λ yˡ⁻ˢ⁻¹, without the bias. matrices: all V and Λ, packed, and where each starts.
    u (rows, d). outputs: of all layers, and the distances of their rows and of the layers."""
    (M, at), (y, ldy, apart), w = matrices, outputs, panel_width(x)
    for link in range(2 if l >= sizes.skip else 1):
        k, i, n = matrix_of(l, link, sizes)
        source, ld = (u, n) if k == 0 else (view(y, (k - 1) * apart, rows * ldy), ldy)
        matrix = view(M, at[i], n * padded(x, sizes.m))
        product(source, (ld, ONE), matrix, (w, n * w), n, x, rows, columns, link == 1)


@helper
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


@helper
def _aligned_empty(like, size):
    """An array of this type that starts on a cache line: a vector that spans two lines takes twice as long to load."""
    line = 64 // like.itemsize
    whole = np.empty(size + line, like.dtype)
    start = (-whole.ctypes.data // like.itemsize) % line
    return whole[start : start + size]


@helper
def add_outer(a, n, b, m, depth, c):
    """c (n, m) ← c + aᵀ b, where a is (depth, n) and b (depth, m)."""
    w = panel_width(c)
    if m <= w:
        product(a, (ONE, n), b, (m, w), depth, c, n, m, TRUE)
        return
    right = _aligned_empty(c, DEPTH * padded(c, m))
    for k in range(0, depth, DEPTH):
        count = min(DEPTH, depth - k)
        _panels(b, k * m, m, count, right)
        product(view(a, k * n, count * n), (ONE, n), right, (w, count * w), count, c, n, m, TRUE)


@helper
def panel_width(like):
    """Number of columns of a panel."""
    return PANEL // like.itemsize


@helper
def padded(like, m):
    """m, rounded up to whole panels."""
    return -(-m // panel_width(like)) * panel_width(like)


@kernel
def pack(V, M, m, n):
    """M ← V (m, n), both flat: panels of Vᵀ, (n, panel_width) each, zero beyond the last column."""
    w = panel_width(V)
    for j0 in range(0, m, w):
        for k in range(n):
            for j in range(w):
                M[j0 * n + k * w + j] = V[(j0 + j) * n + k] if j0 + j < m else 0
