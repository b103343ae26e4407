"""Numba's undocumented names that the kernels use, tested with the versions in pyproject.toml."""

from typing import Any

from numba import config, types
from numba.core import cgutils
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.np.arrayobj import make_array, populate_array

__all__ = [
    "AbstractTemplate", "FunctionCache", "IndexDataCacheFile", "array_data", "array_from", "cgutils", "config",
    "infer_global", "lower_builtin", "set_cache", "signature",
]  # fmt: skip


def array_data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """LLVM pointer to the first element of an array of a Numba type."""
    return make_array(kind)(context, builder, value).data


def array_from(context: Any, builder: Any, kind: Any, length: Any, pointer: Any) -> Any:
    """LLVM value of a one-dimensional array without an owner: nothing counts references to it.

    pointer: function from the type of a pointer to the elements to the pointer.
    """
    array = make_array(kind)(context, builder)
    size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    populate_array(array, pointer(array.data.type), [length], [size], size, None)
    return array._getvalue()


def set_cache(dispatcher: Any, cache: Any) -> None:
    """Has a compiled function use this cache, as ``njit(cache=True)`` does."""
    dispatcher._cache = cache
