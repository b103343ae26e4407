"""LRU's and LinOSS's recurrences, fused over time: Numba kernels forwards, and backwards by hand.

On the CPU, in float32 and float64; anything else goes to the reference. Memory is O(N b m): a drive is overwritten by
what the way back needs of it, so what is given to these functions as x or v is theirs, and must not be a leaf of the
graph. The gradients are differentiable no further.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unicornn._ops.cpu.launch import fits
from unicornn._ops.cpu.memory import empty
from unicornn.baselines._ops.blocks import Blocks, flat, or_zero, shown
from unicornn.baselines._ops.linear import reference


class _Rotation(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, v: Tensor, re: Tensor, im: Tensor, x: Tensor, lengths: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        ctx.mark_dirty(v)
        blocks = Blocks(v, lengths, [*x, re, im], sums=2)
        blocks.run("linear", "rotation", flat(v), blocks.D)
        ctx.save_for_backward(v, re, im, x, lengths)
        ctx.set_materialize_grads(False)
        return v, torch.stack([blocks.row(1), blocks.row(2)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, g_final: Tensor | None) -> tuple[Any, ...]:
        x, re, im, start, lengths = ctx.saved_tensors
        blocks = Blocks(x, lengths, [*or_zero(g_final, start), re, im], sums=2)
        to = empty(x, *x.shape)
        arrays = (shown(g, x), flat(x), flat(start), flat(to))
        blocks.run("linear", "rotation_adjoint", *arrays, blocks.D, blocks.T)
        gre, gim = blocks.sums()
        return to, gre, gim, torch.stack([blocks.row(1), blocks.row(2)]), None


def rotation(v: Tensor, re: Tensor, im: Tensor, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """x ← λ x + v, complex, λ = re + i im: x at every step, (2, N, b, m) as v, and at the end, (2, b, m) as at first.

    Example:
        >>> import torch
        >>> zero, one = torch.zeros(1), torch.ones(1)
        >>> x, final = rotation(torch.zeros(2, 4, 1, 1), zero, one, torch.tensor([1.0, 0.0]).view(2, 1, 1), None)
        >>> x.view(2, 4)  # a quarter turn per step
        tensor([[ 0., -1.,  0.,  1.],
                [ 1.,  0., -1.,  0.]])
    """
    if not fits(v):
        return reference.rotation(v, re, im, x, lengths)
    return _Rotation.apply(v.contiguous(), re, im, x, lengths)


class _Oscillation(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, v: Tensor, M: Tensor, z: Tensor, y: Tensor, lengths: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.mark_dirty(v)
        blocks = Blocks(v, lengths, [z, y, *M], sums=4)
        ys = empty(v, *v.shape)
        blocks.run("linear", "oscillation", flat(v), flat(ys), blocks.D)
        ctx.save_for_backward(v, ys, M, y, lengths)
        ctx.set_materialize_grads(False)
        return ys, blocks.row(1), blocks.row(2), v

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, gz: Tensor | None, gy: Tensor | None, _: Any) -> tuple[Any, ...]:
        p, ys, M, start, lengths = ctx.saved_tensors
        blocks = Blocks(p, lengths, [or_zero(gz, start), or_zero(gy, start), *M], sums=4)
        to = empty(p, *p.shape)
        arrays = (shown(g, p), flat(p), flat(ys), flat(start), flat(to))
        blocks.run("linear", "oscillation_adjoint", *arrays, blocks.D, blocks.T)
        return to, blocks.sums(), blocks.row(1), blocks.row(2), None


def oscillation(v: Tensor, M: Tensor, z: Tensor, y: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """(z, y) ← M (z + v, y), M (4, m) row by row: y at every step, (N, b, m) as v, and the last z and y.

    Example:
        >>> import torch
        >>> M = torch.tensor([[1.0], [0.0], [1.0], [1.0]])
        >>> ys, z, y = oscillation(torch.ones(3, 1, 1), M, torch.zeros(1, 1), torch.zeros(1, 1), None)
        >>> ys.flatten(), z.item()
        (tensor([1., 3., 6.]), 3.0)
    """
    if not fits(v):
        return reference.oscillation(v, M, z, y, lengths)
    ys, z, y, _ = _Oscillation.apply(v.contiguous(), M, z, y, lengths)
    return ys, z, y
