"""Short vectors as values in Numba kernels: W lanes that are processed at once and stay in registers.

LLVM vectorises a loop only if it understands the loop, and then with half of the processor's width. Here vectors are
explicit: an operation on ``Lanes`` is one machine instruction per register, two in float32 and four in float64. Each
lane is rounded independently, so W changes no bit of any result.

Operators work on lanes of the same type, or on lanes and a number of that type. Imported on first use, because it
imports numba.
"""

import math
import operator

from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic, models, register_model

from unicornn._ops.cpu._numba_internals import (
    AbstractTemplate,
    array_data,
    config,
    infer_global,
    lower_builtin,
    signature,
)

_HOST = binding.get_host_cpu_features().flatten()
_FEATURES = _HOST if config.CPU_FEATURES is None else config.CPU_FEATURES  # those that Numba compiles for
REGISTER = 64 if "+avx512f" in _FEATURES.split(",") else 32
"""Bytes of a register."""

LINE = 64
"""Bytes of a cache line."""

W = 2 * REGISTER // 4
"""Lanes of a vector: the float32 of two registers. A step is one long chain of operations. Two chains side by side in
the code give the processor, which looks ahead by some hundred instructions, more to do, and take a third less time."""

_ELEMENTS = {
    types.float32: ir.FloatType(), types.float64: ir.DoubleType(), types.int64: ir.IntType(64),
    types.boolean: ir.IntType(1),
}  # fmt: skip
_SUFFIXES = {types.float32: "f32", types.float64: "f64", types.int64: "i64"}


class Lanes(types.Type):
    """The type of W numbers of one type."""

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(f"{W} x {dtype}")


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, ir.VectorType(_ELEMENTS[fe_type.dtype], W))


def call_llvm(builder, name, result, args):
    """Calls an LLVM function by its full name."""
    function = builder.module.declare_intrinsic(name, fnty=ir.FunctionType(result, [arg.type for arg in args]))
    return builder.call(function, args)


def _filled(vector, value):
    return ir.Constant(vector, [value] * W)


def in_every_lane(builder, value, lanes=W):
    """A vector of copies of an LLVM value."""
    word = ir.IntType(32)
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    zeros = ir.Constant(ir.VectorType(word, lanes), [0] * lanes)
    return builder.shuffle_vector(builder.insert_element(undefined, value, word(0)), undefined, zeros)


def _broadcast(builder, kind, value):
    """Lanes unchanged; a number in every lane."""
    return value if isinstance(kind, Lanes) else in_every_lane(builder, value)


def _lanes_of(*args):
    """The type of the lanes among the arguments if all others are numbers of their type; else None."""
    found = next((arg for arg in args if isinstance(arg, Lanes)), None)
    return found if found is not None and all(arg in (found, found.dtype) for arg in args) else None


def _on_lanes(result, args, emit):
    """Signature and code of an intrinsic with lanes among its arguments, over which numbers are broadcast."""

    def codegen(context, builder, sig, values):
        if any(isinstance(arg, Lanes) for arg in sig.args):
            values = [_broadcast(builder, *pair) for pair in zip(sig.args, values, strict=True)]
        return emit(builder, *values)

    return result(*args), codegen


def _operator(op, emit, compares=False):
    """Defines an operator for lanes. ``emit`` takes a builder, whether the lanes are floats, and the operands."""

    @infer_global(op)
    class Typing(AbstractTemplate):
        def generic(self, args, kws):
            found = _lanes_of(*args)
            return None if found is None else signature(Lanes(types.boolean) if compares else found, *args)

    def lower(context, builder, sig, args):
        operands = [_broadcast(builder, *pair) for pair in zip(sig.args, args, strict=True)]
        return emit(builder, isinstance(_lanes_of(*sig.args).dtype, types.Float), *operands)

    for pair in ((Lanes, Lanes), (Lanes, types.Number), (types.Number, Lanes)):
        lower_builtin(op, *pair)(lower)


_operator(operator.add, lambda to, is_float, a, b: to.fadd(a, b) if is_float else to.add(a, b))
_operator(operator.sub, lambda to, is_float, a, b: to.fsub(a, b) if is_float else to.sub(a, b))
_operator(operator.mul, lambda to, is_float, a, b: to.fmul(a, b))
_operator(operator.truediv, lambda to, is_float, a, b: to.fdiv(a, b))
_operator(operator.and_, lambda to, is_float, a, b: to.and_(a, b))
_operator(operator.or_, lambda to, is_float, a, b: to.or_(a, b))
_operator(operator.lt, lambda to, is_float, a, b: to.fcmp_ordered("<", a, b), compares=True)
_operator(operator.eq, lambda to, is_float, a, b: to.icmp_signed("==", a, b), compares=True)  # integers
_operator(operator.ne, lambda to, is_float, a, b: to.fcmp_unordered("!=", a, b), compares=True)  # floats; NaN differs


def _llvm_function(name, *args):
    """An LLVM function on floating-point numbers, or on lanes of them."""
    found = _lanes_of(*args) or (args[0] if isinstance(args[0], types.Float) and len(set(args)) == 1 else None)
    if found is None:
        return None
    full = f"llvm.{name}.v{W}{_SUFFIXES[found.dtype]}" if isinstance(found, Lanes) else f"llvm.{name}.f{found.bitwidth}"
    return _on_lanes(found, args, lambda builder, *values: call_llvm(builder, full, values[0].type, values))


fma = intrinsic(lambda typingctx, a, b, c: _llvm_function("fma", a, b, c))  # a·b + c, rounded once
absolute = intrinsic(lambda typingctx, v: _llvm_function("fabs", v))
rounded = intrinsic(lambda typingctx, v: _llvm_function("rint", v))  # to an integer
copysign = intrinsic(lambda typingctx, v, sign: _llvm_function("copysign", v, sign))  # |v| with the other's sign
minus = intrinsic(lambda typingctx, v: _on_lanes(v, (v,), lambda to, v: to.fneg(v)))


@intrinsic
def maximum(typingctx, a, b):
    """The larger of a and b; NaN in ``b`` propagates."""
    emit = lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b)  # noqa: E731
    return _on_lanes(_lanes_of(a, b) or a, (a, b), emit)


@intrinsic
def power_of_two(typingctx, k):
    """2ᵏ for k + 1.5·2²³ in float32 with integer k: its last bits, moved to the exponent."""

    def emit(builder, v):
        word = ir.IntType(32)
        integers = ir.VectorType(word, W) if isinstance(k, Lanes) else word
        shift, bias = (_filled(integers, i) if isinstance(k, Lanes) else word(i) for i in (23, 127 << 23))
        return builder.bitcast(builder.add(builder.shl(builder.bitcast(v, integers), shift), bias), v.type)

    return _on_lanes(k, (k,), emit)


@intrinsic
def fraction_and_exponent(typingctx, v):
    """f and e of positive lanes v = f · 2ᵉ in float32, with f between 2/3 and 4/3."""

    def codegen(context, builder, sig, args):
        integers = ir.VectorType(ir.IntType(32), W)
        bits = builder.bitcast(args[0], integers)
        above = builder.sub(bits, _filled(integers, 0x3F2AAAAB))  # those of 2/3
        fraction = builder.bitcast(builder.sub(bits, builder.and_(above, _filled(integers, -1 << 23))), args[0].type)
        exponent = builder.sitofp(builder.ashr(above, _filled(integers, 23)), args[0].type)
        return context.make_tuple(builder, sig.return_type, (fraction, exponent))

    return types.UniTuple(v, 2)(v), codegen


@intrinsic
def each_tanh(typingctx, v):
    """The C library's tanh, lane by lane."""

    def codegen(context, builder, sig, args):
        function, result = context.get_function(math.tanh, v.dtype(v.dtype)), args[0]
        for i in range(W):
            at = ir.IntType(32)(i)
            result = builder.insert_element(result, function(builder, [builder.extract_element(args[0], at)]), at)
        return result

    return v(v), codegen


@intrinsic
def convert(typingctx, v, like):
    """Lanes with the element type of ``like``, which are lanes or an array."""
    result = Lanes(like.dtype)

    def codegen(context, builder, sig, args):
        target = context.get_value_type(result)
        if v.dtype == result.dtype:
            return args[0]
        if isinstance(v.dtype, types.Integer):
            return builder.sitofp(args[0], target)
        if isinstance(result.dtype, types.Integer):
            return builder.fptosi(args[0], target)
        cast = builder.fpext if result.dtype == types.float64 else builder.fptrunc
        return cast(args[0], target)

    return result(v, like), codegen


@intrinsic
def broadcast(typingctx, x):
    """A number in every lane."""
    return Lanes(x)(x), lambda context, builder, sig, args: _broadcast(builder, x, args[0])


@intrinsic
def first(typingctx, count):
    """True in the first ``count`` lanes."""

    def codegen(context, builder, sig, args):
        order = ir.Constant(ir.VectorType(ir.IntType(64), W), list(range(W)))
        return builder.icmp_signed("<", order, _broadcast(builder, types.int64, args[0]))

    return Lanes(types.boolean)(types.int64), codegen


@intrinsic
def where(typingctx, mask, a, b):
    """a where the mask is true, else b, each lanes or a number."""
    return _on_lanes(_lanes_of(a, b), (mask, a, b), lambda builder, mask, a, b: builder.select(mask, a, b))


@intrinsic
def any_true(typingctx, mask):
    """1 if any lane is true, else 0."""
    return _on_lanes(types.int64, (mask,), _any)


@intrinsic
def any_not_below(typingctx, v, limit):
    """1 if any lane is NaN or not below the limit, else 0."""
    emit = lambda builder, v, limit: _any(builder, builder.fcmp_unordered(">=", v, limit))  # noqa: E731
    return _on_lanes(types.int64, (v, limit), emit)


def _any(builder, mask):
    found = call_llvm(builder, f"llvm.vector.reduce.or.v{W}i1", ir.IntType(1), [mask])
    return builder.zext(found, ir.IntType(64))


# Memory. ``at`` counts elements of an array of any shape.


def _place(context, builder, array, value, at, vector):
    data = builder.gep(array_data(context, builder, array, value), [at])
    return builder.bitcast(data, vector.as_pointer()), context.get_abi_sizeof(vector.element)


@intrinsic
def load(typingctx, array, at):
    """W elements of an array."""
    result = Lanes(array.dtype)

    def codegen(context, builder, sig, args):
        place, align = _place(context, builder, array, *args, context.get_value_type(result))
        return builder.load(place, align=align)

    return result(array, types.intp), codegen


@intrinsic
def store(typingctx, array, at, v):
    """Lanes into an array."""

    def codegen(context, builder, sig, args):
        place, align = _place(context, builder, array, *args[:2], args[2].type)
        builder.store(args[2], place, align=align)
        return context.get_dummy_value()

    return types.none(array, types.intp, Lanes(array.dtype)), codegen


@intrinsic
def load_where(typingctx, mask, array, at):
    """As ``load``, but zero where the mask is false; nothing is read there."""
    result = Lanes(array.dtype)

    def codegen(context, builder, sig, args):
        vector = context.get_value_type(result)
        place, align = _place(context, builder, array, *args[1:], vector)
        rest = [place, ir.IntType(32)(align), args[0], ir.Constant(vector, None)]
        return call_llvm(builder, f"llvm.masked.load.v{W}{_SUFFIXES[array.dtype]}.p0", vector, rest)

    return result(mask, array, types.intp), codegen


@intrinsic
def store_where(typingctx, mask, array, at, v):
    """As ``store``, but only where the mask is true."""

    def codegen(context, builder, sig, args):
        place, align = _place(context, builder, array, *args[1:3], args[3].type)
        rest = [args[3], place, ir.IntType(32)(align), args[0]]
        call_llvm(builder, f"llvm.masked.store.v{W}{_SUFFIXES[array.dtype]}.p0", ir.VoidType(), rest)
        return context.get_dummy_value()

    return types.none(mask, array, types.intp, Lanes(array.dtype)), codegen


def _prefetch(array, write):
    def codegen(context, builder, sig, args):
        data, word = array_data(context, builder, array, args[0]), ir.IntType(32)
        size = context.get_abi_sizeof(context.get_data_type(array.dtype))
        for k in range(0, W, LINE // size):  # one request per cache line
            place = builder.gep(data, [builder.add(args[1], context.get_constant(types.intp, k))])
            byte = builder.bitcast(place, ir.IntType(8).as_pointer())
            call_llvm(builder, "llvm.prefetch.p0", ir.VoidType(), [byte, word(write), word(3), word(1)])
        return context.get_dummy_value()

    return types.none(array, types.intp), codegen


@intrinsic
def prefetch_read(typingctx, array, at):
    """Requests W elements for the cache; the place may not exist."""
    return _prefetch(array, 0)


@intrinsic
def prefetch_write(typingctx, array, at):
    """As ``prefetch_read``, for elements that will be overwritten."""
    return _prefetch(array, 1)
