"""Packs tensors for the row kernels (see ``row_kernels``) and calls them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unicornn._ops.cpu import launch
from unicornn._ops.cpu.sizes import B

KERNELS = "unicornn.baselines._ops.row_kernels"


class Blocks:
    """Rows of E = b·m elements, cut into blocks: the kernels' D, and T, in which they sum up gradients.

    Args:
        like: Drive, (..., N, b, m).
        lengths: Lengths of the sequences, (b,), or None.
        rows: First rows after the lengths, each (m,) or (b, m).
        sums: Number of rows for gradients, which come last.
        scratch: Number of rows between the two.
    """

    def __init__(
        self, like: Tensor, lengths: Tensor | None, rows: Sequence[Tensor], sums: int, scratch: int = 0
    ) -> None:
        N, self.batch, self.m = like.shape[-3:]
        self.E, self.dtype = self.batch * self.m, like.dtype
        self.count = -(-self.E // B)
        D = like.new_zeros(1 + len(rows) + scratch + sums, self.count * B)
        unpacked = D[:, : self.E].view(len(D), self.batch, self.m)
        unpacked[0] = N if lengths is None else lengths[:, None].to(like.dtype)
        for place, row in zip(unpacked[1:], rows, strict=False):
            place.copy_(row)
        self.D = D.view(len(D), self.count, B).transpose(0, 1).contiguous().view(self.count, -1)
        self.T = torch.zeros(self.count, sums * B, dtype=torch.float64)

    def run(self, name: str, *arguments: Any) -> None:
        """Calls a kernel for all blocks. Tensors (..., b, m) are passed as (..., E), D and T as they are."""
        arrays = [
            t if not isinstance(t, Tensor) else (t if t is self.D or t is self.T else flat(t)).detach().numpy()
            for t in arguments
        ]
        kernel = launch.kernel(KERNELS, name)
        launch.share_out(kernel, self.dtype, self.count, launch.threads(self.count), *arrays)

    def rows(self, first: int, count: int) -> Tensor:
        """Rows of D, (count, b, m)."""
        return self._unpacked(self.D)[first : first + count].clone()

    def sums(self) -> Tensor:
        """T added up over the sequences, (sums, m)."""
        # NumPy adds up the batch in a single thread and a fixed order.
        return torch.from_numpy(self._unpacked(self.T).numpy().sum(1)).to(self.dtype)

    def _unpacked(self, t: Tensor) -> Tensor:
        padded = t.view(self.count, -1, B).transpose(0, 1).reshape(-1, self.count * B)
        return padded[:, : self.E].view(-1, self.batch, self.m)


def flat(t: Tensor) -> Tensor:
    """(..., b, m) as (..., E)."""
    return t.contiguous().view(*t.shape[:-2], -1)


def output_gradient(g: Tensor | None, like: Tensor) -> Tensor:
    """Gradient of the outputs, (..., N, b, m); a single step of zeros for all N if g is None."""
    return like.new_zeros(*like.shape[:-3], 1, *like.shape[-2:]) if g is None else g


def or_zeros(g: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if g is None else g
