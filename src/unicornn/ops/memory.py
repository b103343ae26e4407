"""Memory for long sequences: large blocks ask the system for large pages.

A fresh block costs a page fault every 4 KiB, which takes longer than all the arithmetic done on it; with pages of 2 MiB
the cost all but vanishes. Where the system has no such advice, nothing happens.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any

import torch
from torch import Tensor

LARGE = 1 << 22  # bytes


@cache
def _madvise() -> Any:
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function


def empty(like: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor with ``like``'s device, and its dtype unless another is given, not initialised."""
    block = torch.empty(shape, dtype=dtype or like.dtype, device=like.device)
    size = block.numel() * block.element_size()
    if size >= LARGE and block.device.type == "cpu" and (advise := _madvise()):
        start = -(-block.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        advise(start, block.data_ptr() + size - start, mmap.MADV_HUGEPAGE)
    return block
