"""PyTorch's undocumented names that the package uses, tested with the versions in pyproject.toml."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.modules.module import _has_any_global_hook as has_global_hooks
from torch.utils import _pytree as pytree

__all__ = ["any_mode_active", "driver_version", "has_global_hooks", "pytree", "scan", "transformed"]


def scan(*args: Any, **kwargs: Any) -> Any:
    """``torch``'s higher-order scan, which torch.export traces as one loop."""
    from torch._higher_order_ops.scan import scan

    return scan(*args, **kwargs)


def driver_version() -> str:
    """The version of the GPU's driver; empty if torch doesn't know it."""
    get = getattr(torch._C, "_cuda_getDriverVersion", None)  # only in builds with CUDA
    return "" if get is None else str(get())


def _in_function_transform() -> bool:
    return torch._C._functorch.peek_interpreter_stack() is not None


# torch.compile treats the result as a constant. Traced, the interpreter stack never looks empty, and the layer would be
# compiled as the reference loop. torch.compiler.assume_constant_result does the same but imports all of torch._dynamo.
_in_function_transform._dynamo_marked_constant = True  # type: ignore[attr-defined]


def any_mode_active() -> bool:
    """Whether a torch.func transform, forward-mode differentiation, or a dispatch or function mode is active."""
    if _in_function_transform() or forward_ad._current_level >= 0:
        return True
    return bool(torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack())


def transformed(tensors: Any) -> bool:
    """Whether a torch.func transform is active or one of the tensors (in tuples and lists) carries a tangent.

    The kernels have no such derivatives and would silently ignore them.
    """
    if _in_function_transform():
        return True
    if forward_ad._current_level < 0:
        return False
    leaves = (t for t in pytree.tree_leaves(tensors) if isinstance(t, Tensor))
    return any(forward_ad.unpack_dual(t).tangent is not None for t in leaves)
