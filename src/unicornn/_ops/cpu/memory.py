"""Memory for long sequences.

A fresh block of memory costs a page fault every 4 KiB, which takes longer than the arithmetic done on it. Large blocks
therefore ask the system for pages of 2 MiB, and the blocks of one training step are reused by the next.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import weakref
from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn._ops.cpu.sizes import B, blocks

LARGE = 1 << 22  # bytes
_spare: deque[Tensor] = deque(maxlen=3)  # of the output, and with gradient="stored" of the activations and states


@cache
def _madvise() -> Any:
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function


def empty(like: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """An uninitialised tensor on the device of ``like``, of its dtype unless another is given."""
    block = torch.empty(shape, dtype=dtype or like.dtype, device=like.device)
    size = block.numel() * block.element_size()
    if size >= LARGE and block.device.type == "cpu" and (advise := _madvise()):
        start = -(-block.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        advise(start, block.data_ptr() + size - start, mmap.MADV_HUGEPAGE)
    return block


def aligned(t: Tensor) -> Tensor:
    """``t`` or a copy of it, contiguous and aligned to a cache line: the bits of a matrix product depend on it."""
    t = t.contiguous()
    return t if t.data_ptr() % 64 == 0 else t.clone()


def zeros(*shape: int, dtype: Any) -> np.ndarray[Any, Any]:
    """Zeros aligned to a cache line: a vector that spans two lines takes twice as long to load. Not by torch.zeros,
    with which each of our threads would start its own team of torch threads and slow down torch from then on."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    whole = np.zeros(size + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + size].view(dtype).reshape(shape)


def blocked(rows: Sequence[np.ndarray[Any, Any]], dtype: Any) -> np.ndarray[Any, Any]:
    """np.ndarray[Any, Any]s that broadcast to (L, b, m), as (L, blocks, rows, B), zero after the last element, flat."""
    L, b, m = np.broadcast_shapes(*(row.shape for row in rows))
    padded = np.zeros((L, len(rows), blocks(b * m) * B), dtype)
    for r, row in enumerate(rows):
        padded[:, r, : b * m].reshape(L, b, m)[:] = row
    result = zeros(L, blocks(b * m), len(rows), B, dtype=dtype)
    result[:] = padded.reshape(L, len(rows), -1, B).swapaxes(1, 2)
    return result.reshape(-1)


def unblocked(v: np.ndarray[Any, Any], L: int, b: int, m: int) -> np.ndarray[Any, Any]:
    """(L, blocks, rows, B), flat, as (rows, L, b, m)."""
    rows = v.size // (L * blocks(b * m) * B)
    whole = v.reshape(L, -1, rows, B).transpose(2, 0, 1, 3).reshape(rows, L, -1)
    return whole[:, :, : b * m].reshape(rows, L, b, m)


def reused(like: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """As ``empty``, for blocks that each training step needs again: on the CPU, freed blocks are kept for the next
    one."""
    dtype = dtype or like.dtype
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE or like.device.type != "cpu":  # on other devices torch keeps freed blocks
        return empty(like, *shape, dtype=dtype)
    block = _take_spare(size)
    if block is None:
        block = empty(like, size, dtype=torch.uint8)
    lent: np.ndarray[Any, Any] = block.numpy()[:size]
    weakref.finalize(lent, _spare.append, block).atexit = False
    t = torch.from_numpy(lent).view(dtype).view(shape)
    return t.fill_(math.nan) if torch.are_deterministic_algorithms_enabled() and dtype.is_floating_point else t


def _take_spare(size: int) -> Tensor | None:
    """A spare block that is large enough but at most twice as large."""
    for _ in range(len(_spare)):
        try:
            block = _spare.popleft()
        except IndexError:  # another thread was faster
            return None
        if size <= block.numel() <= 2 * size:
            return block
        _spare.append(block)
    return None
