"""Packs torch tensors for the element-wise and the linear kernels of the baselines, and calls them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unicornn._ops.cpu import launch
from unicornn._ops.cpu.sizes import B


def flat(t: Tensor) -> Tensor:
    """(…, b, m) as (…, E)."""
    return t.contiguous().view(*t.shape[:-2], -1)


def shown(g: Tensor | None, like: Tensor) -> Tensor:
    """The gradient of what was shown, (…, N, E), or, where there is none, a row of zeros for all N."""
    return like.new_zeros(*like.shape[:-3], 1, like.shape[-2] * like.shape[-1]) if g is None else flat(g)


def or_zero(g: Tensor | None, like: Tensor) -> Tensor:
    """A gradient, or zeros where there is none."""
    return torch.zeros_like(like) if g is None else g


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
        self.count = -(-self.E // B)
        D = like.new_zeros(1 + len(rows) + scratch + sums, self.count * B)
        flat = D[:, : self.E].view(len(D), self.batch, self.m)
        flat[0] = N if lengths is None else lengths[:, None].to(like.dtype)
        for place, row in zip(flat[1:], rows, strict=False):
            place.copy_(row)
        self.D = D.view(len(D), self.count, B).transpose(0, 1).contiguous().view(self.count, -1)
        self.T = torch.zeros(self.count, sums * B, dtype=torch.float64)

    def run(self, module: str, name: str, *args: Any) -> None:
        """Calls a kernel of ``baselines._ops`` for all blocks."""
        arrays = [t.detach().numpy() if isinstance(t, Tensor) else t for t in args]
        kernel = launch.kernel(f"unicornn.baselines._ops.{module}.kernels", name)
        launch.share_out(kernel, self.dtype, self.count, launch.threads(self.count), *arrays)

    def row(self, k: int) -> Tensor:
        """(b, m): a row of D."""
        return self._flat(self.D)[k].clone()

    def sums(self) -> Tensor:
        """(sums, m): T, added up over the sequences."""
        # NumPy adds up the batch in one thread, in one order.
        return torch.from_numpy(self._flat(self.T).numpy().sum(1)).to(self.dtype)

    def _flat(self, t: Tensor) -> Tensor:
        whole = t.view(self.count, -1, B).transpose(0, 1).reshape(-1, self.count * B)
        return whole[:, : self.E].view(-1, self.batch, self.m)
