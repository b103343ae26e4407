"""A block of a product in bfloat16, in the processor's own instructions: by tiles (AMX), or by dot products of pairs.

The dot products are those of AVX-512 (``vdpbf16ps``). They pay on AMD's processors, which make twice as many
multiplications with them as in float32; on Intel's, where they could be measured, they were slower than float32.
Imported on first use, for it brings numba along.
"""

import ctypes
import sys
from functools import cache

from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from unicornn._ops.jit import inline
from unicornn._ops.lanes import _FEATURES, _call

SIDE = 16
"""Rows of a tile, which are 64 bytes long: 16 float32, or as many pairs."""

BLOCK = 2 * SIDE
"""Rows and columns of a block of the result."""

_HAVE = set(_FEATURES.split(","))
TILES = {"+amx-tile", "+amx-bf16", "+avx512bf16"} <= _HAVE
DOTS = "+avx512bf16" in _HAVE and (config.CPU_NAME or binding.get_host_cpu_name()).startswith("znver") and not TILES
COMPILED = TILES or DOTS
"""Whether these products are in the kernels."""

_FAR = 4 * SIDE  # bytes from a row of a tile to the next where rows follow each other
_ROWS = 8  # of a block whose sums are in registers at a time, with two dot products' worth of columns


@cache
def available():
    """Whether the processor has them, and the system lets this process use them."""
    if not TILES:
        return DOTS
    if sys.platform != "linux":
        return False
    request, permission, data = 158, 0x1023, 18  # arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return ctypes.CDLL(None).syscall(request, permission, data) == 0


class _BFloat16(ir.types.Type):
    """LLVM's type, which llvmlite does not have."""

    def _to_string(self):
        return "bfloat"


BFLOAT16 = _BFloat16()


def _pointer(context, builder, array, value, at):
    data = builder.gep(make_array(array)(context, builder, value).data, [at])
    return builder.bitcast(data, ir.IntType(8).as_pointer())


def _tiles(builder, name, *args):
    return _call(builder, f"llvm.x86.{name}", ir.VoidType(), list(args))


@intrinsic
def _open_tiles(typingctx, old):
    """Makes all tiles 16 rows of 64 bytes. ``old`` (16 numbers) receives how they were, for torch uses them too."""

    def codegen(context, builder, sig, args):
        shape = [1] + [0] * 15 + [64, 0] * 8 + [0] * 16 + [16] * 8 + [0] * 8
        constant = ir.Constant(ir.ArrayType(ir.IntType(8), 64), bytearray(shape))
        room = cgutils.alloca_once_value(builder, constant)
        _tiles(builder, "sttilecfg", _pointer(context, builder, old, args[0], ir.IntType(64)(0)))
        _tiles(builder, "ldtilecfg", builder.bitcast(room, ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return types.none(old), codegen


@intrinsic
def _close_tiles(typingctx, old):
    """Makes the tiles as they were."""

    def codegen(context, builder, sig, args):
        _tiles(builder, "ldtilecfg", _pointer(context, builder, old, args[0], ir.IntType(64)(0)))
        return context.get_dummy_value()

    return types.none(old), codegen


@intrinsic
def _tile_block(typingctx, left, at, deep, right, right_at, c, c_at, c_row, add):
    """c (BLOCK, BLOCK), rows c_row apart, ← (c or 0) + left right, over ``deep`` pairs; of the right, two panels."""

    def codegen(context, builder, sig, args):
        left_, at, deep, right_, right_at, c_, c_at, c_row, add = args
        byte, index = ir.IntType(8), at.type
        four, side = index(4), index(SIDE)
        far = builder.mul(c_row, four)
        places = [
            builder.add(c_at, builder.add(builder.mul(c_row, index(SIDE * i)), index(SIDE * j)))
            for i in range(2)
            for j in range(2)
        ]
        starts = [_pointer(context, builder, c, c_, place) for place in places]
        with builder.if_else(add) as (then, otherwise):
            with then:
                for tile, start in enumerate(starts):
                    _tiles(builder, "tileloadd64", byte(tile), start, far)
            with otherwise:
                for tile in range(4):
                    _tiles(builder, "tilezero", byte(tile))
        row = builder.mul(deep, four)
        with cgutils.for_range_slice(builder, index(0), deep, side, index) as (k, _):
            for i in range(2):
                place = builder.add(builder.add(at, k), builder.mul(deep, index(SIDE * i)))
                _tiles(builder, "tileloadd64", byte(4 + i), _pointer(context, builder, left, left_, place), row)
                place = builder.add(right_at, builder.mul(side, builder.add(k, builder.mul(deep, index(i)))))
                start = _pointer(context, builder, right, right_, place)
                _tiles(builder, "tileloadd64", byte(6 + i), start, index(_FAR))
            for tile in range(4):
                _tiles(builder, "tdpbf16ps", byte(tile), byte(4 + tile // 2), byte(6 + tile % 2))
        for tile, start in enumerate(starts):
            _tiles(builder, "tilestored64", byte(tile), start, far)
        return context.get_dummy_value()

    i = types.intp
    return types.none(left, i, i, right, i, c, i, i, types.boolean), codegen


@intrinsic
def _dot_block(typingctx, left, at, deep, right, right_at, c, c_at, c_row, add):
    """As ``_tile_block``."""

    def codegen(context, builder, sig, args):
        _, at, deep, _, right_at, _, c_at, c_row, add = args
        lefts, rights, sums = (
            make_array(t)(context, builder, args[i]).data for t, i in ((left, 0), (right, 3), (c, 5))
        )
        index, vector = at.type, ir.VectorType(ir.FloatType(), SIDE)
        pairs, zero = ir.VectorType(BFLOAT16, 2 * SIDE), ir.Constant(vector, [0.0] * SIDE)
        same = ir.Constant(ir.VectorType(ir.IntType(32), SIDE), [0] * SIDE)

        def place(data, start):
            return builder.bitcast(builder.gep(data, [start]), vector.as_pointer())

        def spread(value):
            first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
            return builder.bitcast(builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), same), pairs)

        with cgutils.for_range_slice(builder, index(0), index(BLOCK), index(_ROWS), index) as (r, _):
            own = [[cgutils.alloca_once(builder, vector) for _ in range(2)] for _ in range(_ROWS)]
            starts = [
                [
                    place(
                        sums,
                        builder.add(builder.add(c_at, index(SIDE * j)), builder.mul(c_row, builder.add(r, index(i)))),
                    )
                    for j in range(2)
                ]
                for i in range(_ROWS)
            ]
            for row, row_starts in zip(own, starts, strict=True):
                for each, start in zip(row, row_starts, strict=True):
                    with builder.if_else(add) as (then, otherwise):
                        with then:
                            builder.store(builder.load(start, align=4), each)
                        with otherwise:
                            builder.store(zero, each)
            with cgutils.for_range(builder, deep, intp=index) as loop:
                k = loop.index
                across = [
                    builder.bitcast(
                        builder.load(
                            place(
                                rights,
                                builder.add(
                                    right_at, builder.mul(index(SIDE), builder.add(k, builder.mul(deep, index(j))))
                                ),
                            ),
                            align=4,
                        ),
                        pairs,
                    )
                    for j in range(2)
                ]
                for i in range(_ROWS):
                    at_i = builder.add(builder.add(at, k), builder.mul(deep, builder.add(r, index(i))))
                    down = spread(builder.load(builder.gep(lefts, [at_i])))
                    for j in range(2):
                        terms = [builder.load(own[i][j]), down, across[j]]
                        builder.store(_call(builder, "llvm.x86.avx512bf16.dpbf16ps.512", vector, terms), own[i][j])
            for row, row_starts in zip(own, starts, strict=True):
                for each, start in zip(row, row_starts, strict=True):
                    builder.store(builder.load(each), start, align=4)
        return context.get_dummy_value()

    i = types.intp
    return types.none(left, i, i, right, i, c, i, i, types.boolean), codegen


@inline
def _nothing(old):
    """Dot products need no preparation."""


add_block = _tile_block if TILES else _dot_block
begin, end = (_open_tiles, _close_tiles) if TILES else (_nothing, _nothing)
