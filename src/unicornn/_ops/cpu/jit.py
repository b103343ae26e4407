"""How Numba kernels are compiled and cached, and the functions that all of them use.

Numba caches compiled kernels on disk and compares the kernel's source file with that of the cached one, but not the
modules it imports. Here the cache also depends on every module of the package that a kernel imports, directly or not.
Imported on first use, because it imports numba.
"""

import ast
import hashlib
import inspect
import logging
import math
import sys
from functools import cache

import numpy as np
from numba import njit, types
from numba.extending import intrinsic, overload

from unicornn._ops.cpu._numba_internals import FunctionCache, IndexDataCacheFile, array_data, array_from, set_cache
from unicornn._ops.cpu.vectors import (
    Lanes,
    absolute,
    copysign,
    each_tanh,
    fma,
    fraction_and_exponent,
    maximum,
    power_of_two,
)


@cache
def _sources(name):
    """Sources of a module and of the modules of this package that it imports, directly or not."""
    found, waiting = {}, [name]
    while waiting:
        name = waiting.pop()
        if name in found or name not in sys.modules or name.split(".")[0] != __name__.split(".")[0]:
            continue
        found[name] = inspect.getsource(sys.modules[name])
        for node in ast.walk(ast.parse(found[name])):
            if isinstance(node, ast.ImportFrom) and node.module:
                waiting += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names]
    return found


@cache
def stamp(name):
    """Digest of all sources of the kernels in a module."""
    return hashlib.sha256(repr(sorted(_sources(name).items())).encode()).hexdigest()


@cache
def _warn_uncached():
    logging.getLogger("unicornn").warning(
        "unicornn: there is no writable folder for compiled CPU kernels, so every process compiles them again; set "
        "NUMBA_CACHE_DIR to a writable folder"
    )


class _Cache(FunctionCache):
    """Numba's cache of one kernel, with our stamp. If the disk fails, kernels are compiled but not cached."""

    def __init__(self, function):
        super().__init__(function)
        self._cache_file = IndexDataCacheFile(
            self._cache_path, self._impl.filename_base, source_stamp=stamp(function.__module__)
        )

    def load_overload(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except OSError:
            _warn_uncached()

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except OSError:
            _warn_uncached()


def kernel(function=None, **options):
    """Decorator of all kernels: compiled on first use, cached on disk, run without the interpreter lock."""
    if function is None:
        return lambda function: kernel(function, **options)
    dispatcher = njit(error_model="numpy", nogil=True, **options)(function)
    try:
        set_cache(dispatcher, _Cache(function))
    except (RuntimeError, OSError):  # no folder, or no source
        _warn_uncached()
    return dispatcher


_INTERNAL = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # a fifth of the time it takes to compile

helper = kernel(**_INTERNAL)
"""Decorator of functions that only kernels call, not Python."""

INLINE = {"error_model": "numpy", "forceinline": True}
"""Options of overloads that kernels call for every element."""

inline = njit(**INLINE, **_INTERNAL)
"""Decorator of functions that kernels call for every element."""


@intrinsic
def view(typingctx, array, start, length):
    """array.flat[start : start + length], without the reference counting of a slice, which threads would contend
    for."""
    result = types.Array(array.dtype, 1, "C")

    def codegen(context, builder, signature, args):
        first = builder.gep(array_data(context, builder, array, args[0]), [args[1]])
        return array_from(context, builder, result, args[2], lambda kind: first)

    return result(array, types.intp, types.intp), codegen


@intrinsic
def view_at(typingctx, address, like, length):
    """The ``length`` numbers at an address, of the type of ``like``."""
    result = types.Array(like.dtype, 1, "C")

    def codegen(context, builder, signature, args):
        return array_from(context, builder, result, args[2], lambda kind: builder.inttoptr(args[0], kind))

    return result(types.intp, like, types.intp), codegen


# In float32, tanh|v| = -m / (2 + m) with m = exp(-2|v|) - 1 = 2ᵏ (eʳ - 1) + 2ᵏ - 1, r = -2|v| - k log 2: accurate to
# two ulps, and exactly ±1 where float32 rounds to it, as the adjoint's 1 - tanh² requires.
_FAR = np.float32(-20.0)
_LOG2E, _LN2_HI, _LN2_LO = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)
_LESS_HI, _LESS_LO = -_LN2_HI, -_LN2_LO
_ROUND = np.float32(1.5 * 2**23)  # adding a number to it rounds the number to an integer
_E2, _E3, _E4, _E5, _E6, _E7 = (np.float32(1 / math.factorial(k)) for k in range(2, 8))
_ONE, _TWO, _LESS_TWO = np.float32(1), np.float32(2), np.float32(-2)


def tanh(v):
    """tanh of a number or of lanes: the C library's in float64, ours in float32."""


@overload(tanh, jit_options=INLINE)
def _tanh(v):
    if v == types.float64:
        return lambda v: math.tanh(v)
    if v == Lanes(types.float64):
        return lambda v: each_tanh(v)

    def single(v):
        q = maximum(_FAR, _LESS_TWO * absolute(v))
        up = fma(q, _LOG2E, _ROUND)
        k = up - _ROUND
        r = fma(k, _LESS_LO, fma(k, _LESS_HI, q))
        rr = r * r
        p = fma(rr, fma(rr, fma(r, _E7, _E6), fma(r, _E5, _E4)), fma(r, _E3, _E2))
        s = power_of_two(up)
        m = fma(s, fma(rr, p, r), s - _ONE)
        return copysign(m / (_TWO + m), v)

    return single


_L = tuple(
    np.float32(c)
    for c in (
        -0.5, 0.333331972, -0.2499962, 0.200120345, -0.166846126, 0.139814854, -0.121483512, 0.140869141, -0.130310059,
    )
)  # fmt: skip
_L0, _L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8 = _L
_LN2 = np.float32(math.log(2))


@inline
def log(v):
    """Logarithm of positive lanes in float32, accurate to one ulp; NaN propagates."""
    f, e = fraction_and_exponent(v)
    f = f - _ONE
    ff = f * f
    even = fma(fma(fma(_L8, ff, _L6), ff, _L4), ff, _L2)
    odd = fma(fma(_L7, ff, _L5), ff, _L3)
    p = fma(fma(fma(odd, f, even), f, _L1), f, _L0)
    return fma(e, _LN2, fma(p, ff, f)) + (v - v)


@kernel
def least(D):
    """Threshold below which adjoints count as zero. Adjoints that fade would become subnormal, and subnormal numbers
    make the recurrence and the matrix products many times slower."""
    return D.dtype.type(2.0**-100 if D.itemsize == 4 else 2.0**-1000)
