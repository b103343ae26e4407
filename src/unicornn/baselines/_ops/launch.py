"""Packs torch tensors for the baselines' Numba kernels and calls them, as ``ops.cpu`` does for the layer's own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from unicornn._ops import cpu

BLOCK = cpu.BLOCK


def fits(x: Tensor) -> bool:
    """Whether there are kernels for this device and dtype."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)


@cache
def _kernels(module: str) -> ModuleType:
    kernels = import_module(f"unicornn.baselines.{module}")
    if kernels.B != BLOCK:
        raise RuntimeError(f"{module}.B = {kernels.B} and cpu.BLOCK = {BLOCK} must be the same")
    return kernels


def run(module: str, name: str, blocks: Blocks, *args: Any) -> None:
    """Calls the kernel ``name`` of the module, or, where threads are not worth it, ``name``_blocks."""
    arrays = [t.detach().numpy() if isinstance(t, Tensor) else t for t in args]
    kernels, dtype, count = _kernels(module), blocks.dtype, blocks.count
    cpu.threaded(
        count,
        lambda: cpu.call(getattr(kernels, f"{name}_blocks"), dtype, *arrays, 0, count),
        lambda threads: cpu.call(getattr(kernels, name), dtype, *arrays, -(-count // threads)),
    )


class Blocks:
    """Rows of b·m elements, cut into blocks: what the kernels call D, and T, where they add up gradients.

    Args:
        rows: the first rows, each (m,), for all sequences, or (b, m); the length comes before them.
        sums: number of rows for gradients, after all others.
        scratch: rows in between.
    """

    def __init__(
        self, like: Tensor, lengths: Tensor | None, rows: Sequence[Tensor], sums: int, scratch: int = 0
    ) -> None:
        N, self.batch, self.m = like.shape[-3:]
        self.E, self.dtype = self.batch * self.m, like.dtype
        self.count = -(-self.E // BLOCK)
        D = like.new_zeros(1 + len(rows) + scratch + sums, self.count * BLOCK)
        flat = D[:, : self.E].view(len(D), self.batch, self.m)
        flat[0] = N if lengths is None else lengths[:, None].to(like.dtype)
        for place, row in zip(flat[1:], rows, strict=False):
            place.copy_(row)
        self.D = D.view(len(D), self.count, BLOCK).transpose(0, 1).contiguous().view(self.count, -1)
        self.T = torch.zeros(self.count, sums * BLOCK, dtype=torch.float64)

    def row(self, k: int) -> Tensor:
        """(b, m): a row of D."""
        return self._flat(self.D)[k].clone()

    def sums(self) -> Tensor:
        """(sums, m): T, added up over the sequences."""
        # NumPy adds up the batch in one thread, in one order.
        return torch.from_numpy(self._flat(self.T).numpy().sum(1)).to(self.dtype)

    def _flat(self, t: Tensor) -> Tensor:
        whole = t.view(self.count, -1, BLOCK).transpose(0, 1).reshape(-1, self.count * BLOCK)
        return whole[:, : self.E].view(-1, self.batch, self.m)
