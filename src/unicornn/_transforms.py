"""Derivatives that the kernels do not have, and would leave out without a word: forward mode, and torch.func's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree


def _in_transform() -> bool:
    return torch._C._functorch.peek_interpreter_stack() is not None


# For torch.compile it is what it is while tracing: traced itself, the stack never looks empty, and the layer would be
# the reference loop. This is what torch.compiler.assume_constant_result does, after importing all of torch._dynamo.
_in_transform._dynamo_marked_constant = True  # type: ignore[attr-defined]


def transformed(tensors: Any) -> bool:
    """Whether one of the tensors (in tuples and lists) carries a tangent, or a torch.func transform is at work.

    Example:
        >>> import torch
        >>> x, seen = torch.ones(2), []
        >>> _ = torch.func.vmap(lambda x: (seen.append(transformed([x])), x)[1])(x)
        >>> seen, transformed([x])
        ([True], False)
    """
    if _in_transform():
        return True
    if forward_ad._current_level < 0:
        return False
    leaves = (t for t in pytree.tree_leaves(tensors) if isinstance(t, Tensor))
    return any(forward_ad.unpack_dual(t).tangent is not None for t in leaves)
