"""The recurrences of ``loops``, fused over time: Numba kernels forwards, and backwards by hand.

On the CPU, in float32 and float64; anything else goes to the loops. Memory is O(N b m): a drive is overwritten by what
the way back needs of it, so what is given to these functions as x or v is theirs, and must not be a leaf of the graph.
The gradients are differentiable no further.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unicornn._ops.memory import empty
from unicornn.baselines import loops
from unicornn.baselines._ops import launch
from unicornn.baselines._ops.launch import Blocks, run


def _rows(t: Tensor) -> Tensor:
    """(…, b, m) as (…, E)."""
    return t.contiguous().view(*t.shape[:-2], -1)


def _shown(g: Tensor | None, like: Tensor) -> Tensor:
    """The gradient of what was shown, (…, N, E), or, where there is none, a row of zeros for all N."""
    return like.new_zeros(*like.shape[:-3], 1, like.shape[-2] * like.shape[-1]) if g is None else _rows(g)


def _or_zero(g: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if g is None else g


class _IndRNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, u: Tensor, b: Tensor, h: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.mark_dirty(x)
        blocks = Blocks(x, lengths, [h, u, b], sums=2)
        run("kernels", "indrnn", blocks, _rows(x), blocks.D)
        ctx.save_for_backward(x, u, h, lengths)
        ctx.set_materialize_grads(False)
        return x, blocks.row(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, g_final: Tensor | None) -> tuple[Any, ...]:
        h, u, start, lengths = ctx.saved_tensors
        blocks = Blocks(h, lengths, [_or_zero(g_final, start), u], sums=2, scratch=1)
        to = empty(h, *h.shape)
        run("kernels", "indrnn_adjoint", blocks, _shown(g, h), _rows(h), _rows(start), _rows(to), blocks.D, blocks.T)
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
    return _IndRNN.apply(x.contiguous(), u, b, h, lengths) if launch.fits(x) else loops.indrnn(x, u, b, h, lengths)


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
        arrays = (_rows(x), _rows(skip), _rows(cs), _rows(h))
        run("kernels", "gated", blocks, *arrays, blocks.D, ctx.alpha, ctx.highway)
        ctx.save_for_backward(x, skip, cs, v, b, c, lengths)
        ctx.set_materialize_grads(False)
        return h, blocks.row(1), x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, g_final: Tensor | None, _: Any) -> tuple[Any, ...]:
        x, skip, cs, v, b, c, lengths = ctx.saved_tensors
        blocks = Blocks(x, lengths, [_or_zero(g_final, c), *v, *b], sums=5, scratch=2)
        to = empty(x, *x.shape)
        to_s = empty(skip, *skip.shape) if ctx.highway else to[0]
        run(
            "kernels", "gated_adjoint", blocks, _shown(g, cs), _rows(x), _rows(skip), _rows(cs), _rows(c), _rows(to),
            _rows(to_s), blocks.D, blocks.T, ctx.alpha, ctx.highway,
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
    if not launch.fits(x):
        return loops.gated(x, s, v, b, c, alpha, lengths)
    h, final, _ = _Gated.apply(x.contiguous(), s, v, b, c, alpha, lengths)
    return h, final


class _Rotation(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, v: Tensor, re: Tensor, im: Tensor, x: Tensor, lengths: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        ctx.mark_dirty(v)
        blocks = Blocks(v, lengths, [*x, re, im], sums=2)
        run("linear_kernels", "rotation", blocks, _rows(v), blocks.D)
        ctx.save_for_backward(v, re, im, x, lengths)
        ctx.set_materialize_grads(False)
        return v, torch.stack([blocks.row(1), blocks.row(2)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, g_final: Tensor | None) -> tuple[Any, ...]:
        x, re, im, start, lengths = ctx.saved_tensors
        blocks = Blocks(x, lengths, [*_or_zero(g_final, start), re, im], sums=2)
        to = empty(x, *x.shape)
        arrays = (_shown(g, x), _rows(x), _rows(start), _rows(to))
        run("linear_kernels", "rotation_adjoint", blocks, *arrays, blocks.D, blocks.T)
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
    if not launch.fits(v):
        return loops.rotation(v, re, im, x, lengths)
    return _Rotation.apply(v.contiguous(), re, im, x, lengths)


class _Oscillation(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, v: Tensor, M: Tensor, z: Tensor, y: Tensor, lengths: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.mark_dirty(v)
        blocks = Blocks(v, lengths, [z, y, *M], sums=4)
        ys = empty(v, *v.shape)
        run("linear_kernels", "oscillation", blocks, _rows(v), _rows(ys), blocks.D)
        ctx.save_for_backward(v, ys, M, y, lengths)
        ctx.set_materialize_grads(False)
        return ys, blocks.row(1), blocks.row(2), v

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, gz: Tensor | None, gy: Tensor | None, _: Any) -> tuple[Any, ...]:
        p, ys, M, start, lengths = ctx.saved_tensors
        blocks = Blocks(p, lengths, [_or_zero(gz, start), _or_zero(gy, start), *M], sums=4)
        to = empty(p, *p.shape)
        arrays = (_shown(g, p), _rows(p), _rows(ys), _rows(start), _rows(to))
        run("linear_kernels", "oscillation_adjoint", blocks, *arrays, blocks.D, blocks.T)
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
    if not launch.fits(v):
        return loops.oscillation(v, M, z, y, lengths)
    ys, z, y, _ = _Oscillation.apply(v.contiguous(), M, z, y, lengths)
    return ys, z, y
