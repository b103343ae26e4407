"""Recurrences of independent neurons, fused over time: those of IndRNN, SRU, minGRU, LRU and LinOSS.

On the CPU, in float32 and float64, Numba kernels compute outputs and gradients; all other tensors take a loop over time
in torch. Memory is O(N b m): kernels overwrite a drive with what the backward pass needs of it, so a drive must not be
a leaf of the graph. Gradients cannot be differentiated again.

Shapes: drives (N, b, m), coefficients (m,), states (b, m), lengths (b,) or None. Every function returns the outputs of
all steps, undefined in the padding, and the state at the end of each sequence.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unicornn._ops.cpu.launch import fits
from unicornn._ops.cpu.memory import empty
from unicornn.baselines._base import over_time
from unicornn.baselines._ops.blocks import Blocks, or_zeros, output_gradient


class _Recurrence(torch.autograd.Function):
    """A kernel with one drive. The outputs overwrite the drive (``in_place``) or are written next to it."""

    @staticmethod
    def forward(
        ctx: Any, name: str, in_place: bool, drive: Tensor, states: Tensor, coefficients: Tensor, lengths: Tensor | None
    ) -> tuple[Tensor, ...]:
        ctx.mark_dirty(drive)
        blocks = Blocks(drive, lengths, [*states, *coefficients], sums=len(coefficients))
        arrays = [drive] if in_place else [drive, empty(drive, *drive.shape)]
        blocks.run(name, *arrays, blocks.D)
        ctx.name = name
        ctx.save_for_backward(*arrays, states, coefficients, lengths)
        ctx.set_materialize_grads(False)
        return arrays[-1], blocks.rows(1, len(states)), *arrays[:-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, g_final: Tensor | None, *_: Any) -> tuple[Any, ...]:
        *arrays, states, coefficients, lengths = ctx.saved_tensors
        drive = arrays[0]
        blocks = Blocks(drive, lengths, [*or_zeros(g_final, states), *coefficients], sums=len(coefficients))
        to = empty(drive, *drive.shape)
        blocks.run(ctx.name + "_adjoint", output_gradient(g, drive), *arrays, states, to, blocks.D, blocks.T)
        return None, None, to, blocks.rows(1, len(states)), blocks.sums(), None


def indrnn(x: Tensor, u: Tensor, b: Tensor, h: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """h ← relu(x + b + u h).

    Example:
        >>> outputs, final = indrnn(torch.ones(3, 1, 1), torch.ones(1), torch.zeros(1), torch.zeros(1, 1), None)
        >>> outputs.flatten()
        tensor([1., 2., 3.])
    """
    if fits(x):
        hs, final = _Recurrence.apply("indrnn", True, x.contiguous(), h[None], torch.stack([u, b]), lengths)
        return hs, final[0]
    hs, (h,) = over_time(lambda x_n, h: (torch.relu(x_n + b + u * h),), x, (h,), lengths)
    return hs, h


def rotation(v: Tensor, re: Tensor, im: Tensor, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """x ← λ x + v, complex, with λ = re + i im; v (2, N, b, m), x (2, b, m) and the outputs are two real planes.

    Example:
        >>> zero, one = torch.zeros(1), torch.ones(1)
        >>> x, final = rotation(torch.zeros(2, 4, 1, 1), zero, one, torch.tensor([1.0, 0.0]).view(2, 1, 1), None)
        >>> x.view(2, 4)  # a quarter turn per step
        tensor([[ 0., -1.,  0.,  1.],
                [ 1.,  0., -1.,  0.]])
    """
    if fits(v):
        return _Recurrence.apply("rotation", True, v.contiguous(), x, torch.stack([re, im]), lengths)

    def step(v_n: Tensor, pair: Tensor) -> tuple[Tensor, ...]:
        p, q = pair.chunk(2, -1)
        return (torch.cat([re * p - im * q, re * q + im * p], -1) + v_n,)

    outputs, (final,) = over_time(step, torch.cat([v[0], v[1]], -1), (torch.cat([x[0], x[1]], -1),), lengths)
    return torch.stack(outputs.chunk(2, -1)), torch.stack(final.chunk(2, -1))


def oscillation(v: Tensor, M: Tensor, z: Tensor, y: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """(z, y) ← M (z + v, y), with M (4, m) row by row; the outputs are y, the final states z and y.

    Example:
        >>> M = torch.tensor([[1.0], [0.0], [1.0], [1.0]])
        >>> ys, z, y = oscillation(torch.ones(3, 1, 1), M, torch.zeros(1, 1), torch.zeros(1, 1), None)
        >>> ys.flatten(), z.item()
        (tensor([1., 3., 6.]), 3.0)
    """
    if fits(v):
        ys, final, _ = _Recurrence.apply("oscillation", False, v.contiguous(), torch.stack([z, y]), M, lengths)
        return ys, final[0], final[1]

    def step(v_n: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        p = z + v_n
        return M[2] * p + M[3] * y, M[0] * p + M[1] * y

    ys, (y, z) = over_time(step, v, (y, z), lengths)
    return ys, z, y


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
        blocks.run("gated", x, skip, cs, h, blocks.D, ctx.alpha, ctx.highway)
        ctx.save_for_backward(x, skip, cs, v, b, c, lengths)
        ctx.set_materialize_grads(False)
        return h, blocks.rows(1, 1)[0], x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, g_final: Tensor | None, _: Any) -> tuple[Any, ...]:
        x, skip, cs, v, b, c, lengths = ctx.saved_tensors
        blocks = Blocks(x, lengths, [or_zeros(g_final, c), *v, *b], sums=5, scratch=2)
        to = empty(x, *x.shape)
        to_s = empty(skip, *skip.shape) if ctx.highway else to[0]
        arrays = output_gradient(g, cs), x, skip, cs, c, to, to_s, blocks.D, blocks.T
        blocks.run("gated_adjoint", *arrays, ctx.alpha, ctx.highway)
        sums = blocks.sums()
        return to, to_s if ctx.highway else None, sums[:2], sums[2:], blocks.rows(1, 1)[0], None, None


def gated(
    x: Tensor, s: Tensor | None, v: Tensor, b: Tensor, c: Tensor, alpha: float, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:
    """f, r = σ(x + v c + b), c ← f c + (1 - f) x̃, h = r c + (1 - r) α s; the outputs are h, the final state is c.

    Args:
        x: Drives of x̃, f and r, (3, N, b, m); of x̃ and f, (2, N, b, m), if s is None.
        s: Input of the highway, (N, b, m); None for no highway, then the outputs are c.
        v: Recurrent weights of f and r, (2, m).
        b: Biases of x̃, f and r, (3, m).

    Example:
        >>> zeros = torch.zeros(3, 1)
        >>> cs, final = gated(torch.zeros(2, 3, 1, 1), None, zeros[:2], zeros, torch.ones(1, 1), 1.0, None)
        >>> cs.flatten()
        tensor([0.5000, 0.2500, 0.1250])
    """
    if fits(x):
        h, final, _ = _Gated.apply(x.contiguous(), s, v, b, c, alpha, lengths)
        return h, final

    def step(x_n: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        new, f = x_n[0] + b[0], torch.sigmoid(x_n[1] + v[0] * c + b[1])
        after = f * c + (1 - f) * new
        if s is None:
            return after, after
        r = torch.sigmoid(x_n[2] + v[1] * c + b[2])
        return r * after + (1 - r) * alpha * x_n[3], after

    planes = x if s is None else torch.cat([x, s[None]])
    h, (_, final) = over_time(step, planes.transpose(0, 1), (c, c), lengths)
    return h, final
