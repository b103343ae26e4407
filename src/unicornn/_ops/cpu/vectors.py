"""Short vectors as numbers of Numba kernels: W lanes that are worked on at once and stay in registers.

LLVM makes vector code of a loop only if it understands the loop, and then of half the width that the processor has.
Here the vectors are written: an instruction on ``Lanes`` is the processor's own, two of them in float32 and four in
float64. Each lane is rounded by itself, so W changes no bit of any result.

Operators work on lanes of the same type, or on lanes and one number of that type. Imported on first use, for it brings
numba along.
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
"""Bytes of a line of the cache."""

W = 2 * REGISTER // 4
"""Lanes of a vector: the float32 of two registers. A step is one long chain of operations; with two chains side by side
in the code, a processor that looks ahead by some hundred instructions finds more to do, and needs a third less time."""

_KINDS = {
    types.float32: ir.FloatType(), types.float64: ir.DoubleType(), types.int64: ir.IntType(64),
    types.boolean: ir.IntType(1),
}  # fmt: skip
_SUFFIXES = {types.float32: f"v{W}f32", types.float64: f"v{W}f64", types.int64: f"v{W}i64"}


class Lanes(types.Type):
    """The type of W numbers of one type."""

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(f"{W} x {dtype}")


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, ir.VectorType(_KINDS[fe_type.dtype], W))


def _all(vector, value):
    return ir.Constant(vector, [value] * W)


def _spread(builder, type_, value):
    """Lanes as they are; a number in every lane."""
    if isinstance(type_, Lanes):
        return value
    vector = ir.VectorType(value.type, W)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), _all(ir.VectorType(ir.IntType(32), W), 0))


def call_llvm(builder, name, result, args):
    """A function of LLVM, by its full name."""
    function = builder.module.declare_intrinsic(name, fnty=ir.FunctionType(result, [arg.type for arg in args]))
    return builder.call(function, args)


def _lanes_of(*args):
    """The type of the lanes among the arguments, if all others are numbers of their type; else None."""
    found = next((arg for arg in args if isinstance(arg, Lanes)), None)
    return found if found is not None and all(arg in (found, found.dtype) for arg in args) else None


def _operator(op, of_floats, of_integers=None, compares=False):
    """Defines an operator for lanes. The names are those of llvmlite's builder, or the comparison."""

    @infer_global(op)
    class Typing(AbstractTemplate):
        def generic(self, args, kws):
            found = _lanes_of(*args)
            return None if found is None else signature(Lanes(types.boolean) if compares else found, *args)

    def lower(context, builder, sig, args):
        is_float = isinstance(_lanes_of(*sig.args).dtype, types.Float)
        operands = [_spread(builder, *pair) for pair in zip(sig.args, args, strict=True)]
        if not compares:
            return getattr(builder, of_floats if is_float else of_integers)(*operands)
        if not is_float:
            return builder.icmp_signed(of_floats, *operands)
        compare = builder.fcmp_unordered if of_floats == "!=" else builder.fcmp_ordered
        return compare(of_floats, *operands)

    for pair in ((Lanes, Lanes), (Lanes, types.Number), (types.Number, Lanes)):
        lower_builtin(op, *pair)(lower)


_operator(operator.add, "fadd", "add")
_operator(operator.sub, "fsub", "sub")
_operator(operator.mul, "fmul", "mul")
_operator(operator.truediv, "fdiv")
_operator(operator.lt, "<", compares=True)
_operator(operator.eq, "==", compares=True)
_operator(operator.ne, "!=", compares=True)  # true for NaN
_operator(operator.and_, "and_", "and_")
_operator(operator.or_, "or_", "or_")


def _of_floats(name):
    """A function of LLVM on floating-point numbers, or lanes of them."""

    def codegen(context, builder, sig, args):
        result = context.get_value_type(sig.return_type)
        if isinstance(sig.return_type, Lanes):
            args = [_spread(builder, *pair) for pair in zip(sig.args, args, strict=True)]
            return call_llvm(builder, f"{name}.{_SUFFIXES[sig.return_type.dtype]}", result, args)
        return call_llvm(builder, f"{name}.f{sig.return_type.bitwidth}", result, args)

    def typed(*args):
        found = _lanes_of(*args) or (args[0] if isinstance(args[0], types.Float) and len(set(args)) == 1 else None)
        return None if found is None else (found(*args), codegen)

    return typed


_fma, _abs, _rint, _copysign = (_of_floats(f"llvm.{name}") for name in ("fma", "fabs", "rint", "copysign"))


@intrinsic
def fma(typingctx, a, b, c):
    """a·b + c, rounded once."""
    return _fma(a, b, c)


@intrinsic
def absolute(typingctx, v):
    """|v|."""
    return _abs(v)


@intrinsic
def rounded(typingctx, v):
    """v rounded to an integer."""
    return _rint(v)


@intrinsic
def copysign(typingctx, v, sign):
    """|v| with the sign of another."""
    return _copysign(v, sign)


@intrinsic
def minus(typingctx, v):
    """-v."""
    return v(v), lambda context, builder, sig, args: builder.fneg(args[0])


@intrinsic
def maximum(typingctx, a, b):
    """a if it is larger than b, else b: a ``b`` that is no number stays so."""
    found = _lanes_of(a, b) or a

    def codegen(context, builder, sig, args):
        if isinstance(found, Lanes):
            args = [_spread(builder, *pair) for pair in zip(sig.args, args, strict=True)]
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return found(a, b), codegen


@intrinsic
def power_of_two(typingctx, k):
    """2ᵏ for k + 1.5·2²³ in float32, k being an integer: its last bits, written where the exponent stands."""

    def codegen(context, builder, sig, args):
        if isinstance(k, Lanes):
            integers = ir.VectorType(ir.IntType(32), W)
            shift, bias = _all(integers, 23), _all(integers, 127 << 23)
        else:
            integers = ir.IntType(32)
            shift, bias = integers(23), integers(127 << 23)
        bits = builder.add(builder.shl(builder.bitcast(args[0], integers), shift), bias)
        return builder.bitcast(bits, args[0].type)

    return k(k), codegen


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
    """Lanes as lanes of the type of ``like``, which are lanes or an array: rounded, widened or as they are."""
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
def spread(typingctx, x):
    """A number in every lane."""
    return Lanes(x)(x), lambda context, builder, sig, args: _spread(builder, x, args[0])


@intrinsic
def first(typingctx, count):
    """True in so many lanes, counted from the first."""
    result = Lanes(types.boolean)

    def codegen(context, builder, sig, args):
        order = ir.Constant(ir.VectorType(ir.IntType(64), W), list(range(W)))
        return builder.icmp_signed("<", order, _spread(builder, types.int64, args[0]))

    return result(types.int64), codegen


@intrinsic
def where(typingctx, mask, a, b):
    """a where the mask is true, else b, each lanes or a number."""
    found = _lanes_of(a, b)

    def codegen(context, builder, sig, args):
        a_, b_ = (_spread(builder, *pair) for pair in zip(sig.args[1:], args[1:], strict=True))
        return builder.select(args[0], a_, b_)

    return found(mask, a, b), codegen


@intrinsic
def any_not_below(typingctx, v, limit):
    """1 if any lane is not below the limit, or is no number, else 0."""

    def codegen(context, builder, sig, args):
        return _one_true(builder, builder.fcmp_unordered(">=", args[0], _spread(builder, limit, args[1])))

    return types.int64(v, limit), codegen


@intrinsic
def any_true(typingctx, mask):
    """1 if any lane is true, else 0."""

    def codegen(context, builder, sig, args):
        return _one_true(builder, args[0])

    return types.int64(mask), codegen


def _one_true(builder, mask):
    found = call_llvm(builder, f"llvm.vector.reduce.or.v{W}i1", ir.IntType(1), [mask])
    return builder.zext(found, ir.IntType(64))


def _place(context, builder, array, value, at, vector):
    data = builder.gep(array_data(context, builder, array, value), [at])
    return builder.bitcast(data, vector.as_pointer()), context.get_abi_sizeof(vector.element)


@intrinsic
def load(typingctx, array, at):
    """W numbers of an array, from a place on, whatever its shape."""
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
    """As ``load``, but zero where the mask is false, where nothing is read."""
    result = Lanes(array.dtype)

    def codegen(context, builder, sig, args):
        vector = context.get_value_type(result)
        place, align = _place(context, builder, array, *args[1:], vector)
        rest = [place, ir.IntType(32)(align), args[0], ir.Constant(vector, None)]
        return call_llvm(builder, f"llvm.masked.load.{_SUFFIXES[array.dtype]}.p0", vector, rest)

    return result(mask, array, types.intp), codegen


@intrinsic
def store_where(typingctx, mask, array, at, v):
    """As ``store``, but only where the mask is true."""

    def codegen(context, builder, sig, args):
        place, align = _place(context, builder, array, *args[1:3], args[3].type)
        rest = [args[3], place, ir.IntType(32)(align), args[0]]
        call_llvm(builder, f"llvm.masked.store.{_SUFFIXES[array.dtype]}.p0", ir.VoidType(), rest)
        return context.get_dummy_value()

    return types.none(mask, array, types.intp, Lanes(array.dtype)), codegen


def _prefetch(write):
    def typed(typingctx, array, at):
        def codegen(context, builder, sig, args):
            """One request for each cache line."""
            data, word = array_data(context, builder, array, args[0]), ir.IntType(32)
            size = context.get_abi_sizeof(context.get_data_type(array.dtype))
            for k in range(0, W, LINE // size):
                place = builder.gep(data, [builder.add(args[1], context.get_constant(types.intp, k))])
                byte = builder.bitcast(place, ir.IntType(8).as_pointer())
                call_llvm(builder, "llvm.prefetch.p0", ir.VoidType(), [byte, word(write), word(3), word(1)])
            return context.get_dummy_value()

        return types.none(array, types.intp), codegen

    return typed


_to_read, _to_write = _prefetch(0), _prefetch(1)


@intrinsic
def prefetch_read(typingctx, array, at):
    """Has W numbers, from a place on, brought to the cache, while other things are done; the place may not exist."""
    return _to_read(typingctx, array, at)


@intrinsic
def prefetch_write(typingctx, array, at):
    """As ``prefetch_read``, for what will be written over."""
    return _to_write(typingctx, array, at)
