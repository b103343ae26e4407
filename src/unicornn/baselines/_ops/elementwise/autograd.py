"""IndRNN's, SRU's and minGRU's recurrences, fused over time: Numba kernels forwards, and backwards by hand.

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
from unicornn.baselines._ops.elementwise import reference


class _IndRNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, u: Tensor, b: Tensor, h: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.mark_dirty(x)
        blocks = Blocks(x, lengths, [h, u, b], sums=2)
        blocks.run("elementwise", "indrnn", flat(x), blocks.D)
        ctx.save_for_backward(x, u, h, lengths)
        ctx.set_materialize_grads(False)
        return x, blocks.row(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, g_final: Tensor | None) -> tuple[Any, ...]:
        h, u, start, lengths = ctx.saved_tensors
        blocks = Blocks(h, lengths, [or_zero(g_final, start), u], sums=2, scratch=1)
        to = empty(h, *h.shape)
        blocks.run("elementwise", "indrnn_adjoint", shown(g, h), flat(h), flat(start), flat(to), blocks.D, blocks.T)
        gu, gb = blocks.sums()
        return to, gu, gb, blocks.row(1), None


def indrnn(x: Tensor, u: Tensor, b: Tensor, h: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """h ← relu(x + b + u h): h at every step (N, b, m) and at each sequence's own end.

    Example:
        >>> import torch
        >>> outputs, final = indrnn(torch.ones(3, 1, 1), torch.ones(1), torch.zeros(1), torch.zeros(1, 1), None)
        >>> outputs.flatten()
        tensor([1., 2., 3.])
    """
    return _IndRNN.apply(x.contiguous(), u, b, h, lengths) if fits(x) else reference.indrnn(x, u, b, h, lengths)


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, s: Tensor | None, v: Tensor, b: Tensor, c: Tensor, alpha: float, lengths: Tensor | None
    ) -> tuple[Tensor, ...]:
        ctx.mark_dirty(x)
        blocks = Blocks(x, lengths, [c, *v, *b], sums=5, scratch=2)
        cs = empty(x, *x.shape[1:])
        h = cs if s is None else empty(x, *x.shape[1:])
        skip = cs if s is None else s.contiguous()
        ctx.alpha, ctx.highway = cs.numpy().dtype.type(alpha), s is not None
        arrays = (flat(x), flat(skip), flat(cs), flat(h))
        blocks.run("elementwise", "gated", *arrays, blocks.D, ctx.alpha, ctx.highway)
        ctx.save_for_backward(x, skip, cs, v, b, c, lengths)
        ctx.set_materialize_grads(False)
        return h, blocks.row(1), x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, g_final: Tensor | None, _: Any) -> tuple[Any, ...]:
        x, skip, cs, v, b, c, lengths = ctx.saved_tensors
        blocks = Blocks(x, lengths, [or_zero(g_final, c), *v, *b], sums=5, scratch=2)
        to = empty(x, *x.shape)
        to_s = empty(skip, *skip.shape) if ctx.highway else to[0]
        blocks.run("elementwise", "gated_adjoint", shown(g, cs), flat(x), flat(skip), flat(cs), flat(c), flat(to),
            flat(to_s), blocks.D, blocks.T, ctx.alpha, ctx.highway,
        )  # fmt: skip
        sums = blocks.sums()
        return to, to_s if ctx.highway else None, sums[:2], sums[2:], blocks.row(1), None, None


def gated(
    x: Tensor, s: Tensor | None, v: Tensor, b: Tensor, c: Tensor, alpha: float, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:
    """f, r = σ(x + v c + b), c ← f c + (1 - f) x̃, h = r c + (1 - r) α s: h at every step, and c at the end.

    x (3, N, b, m) holds the drives of x̃, f and r, s (N, b, m) the highway, v (2, m) is of f and r, b (3, m) of x̃, f
    and r. With s None, x is (2, N, b, m), there is no r, and c is shown.

    Example:
        >>> import torch
        >>> zeros = torch.zeros(3, 1)
        >>> cs, final = gated(torch.zeros(2, 3, 1, 1), None, zeros[:2], zeros, torch.ones(1, 1), 1.0, None)
        >>> cs.flatten()
        tensor([0.5000, 0.2500, 0.1250])
    """
    if not fits(x):
        return reference.gated(x, s, v, b, c, alpha, lengths)
    h, final, _ = _Gated.apply(x.contiguous(), s, v, b, c, alpha, lengths)
    return h, final
