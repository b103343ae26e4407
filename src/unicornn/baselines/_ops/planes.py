"""Matrix products between one tensor and several planes of the same size.

The row kernels need the drives of all gates, or the parts of a complex number, in contiguous planes. One product per
plane writes them there, and the products of the backward pass add up the gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unicornn._ops.cpu.memory import empty


class _ToPlanes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor) -> Tensor:
        ctx.save_for_backward(x, W)
        rows = x.reshape(-1, x.shape[-1])
        planes = empty(x, len(W), *x.shape[:-1], W.shape[1])
        for plane, w in zip(planes, W, strict=True):
            torch.mm(rows, w.t(), out=plane.view(-1, w.shape[0]))
        return planes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        x, W = ctx.saved_tensors
        rows, planes = x.reshape(-1, x.shape[-1]), g.reshape(len(g), -1, g.shape[-1])
        need_x, need_W = ctx.needs_input_grad
        gW = torch.stack([plane.t() @ rows for plane in planes]) if need_W else None
        return _sum(planes, W).view(x.shape) if need_x else None, gW


class _FromPlanes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, planes: Tensor, W: Tensor) -> Tensor:
        ctx.save_for_backward(planes, W)
        rows = planes.reshape(len(planes), -1, planes.shape[-1])
        return _sum(rows, W.transpose(1, 2)).view(*planes.shape[1:-1], W.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        planes, W = ctx.saved_tensors
        rows, g_rows = planes.reshape(len(planes), -1, planes.shape[-1]), g.reshape(-1, g.shape[-1])
        g_planes = gW = None
        if ctx.needs_input_grad[0]:
            g_planes = empty(planes, *planes.shape)
            for plane, w in zip(g_planes, W, strict=True):
                torch.mm(g_rows, w, out=plane.view(-1, w.shape[1]))
        if ctx.needs_input_grad[1]:
            gW = torch.stack([g_rows.t() @ plane for plane in rows])
        return g_planes, gW


def _sum(planes: Tensor, W: Tensor) -> Tensor:
    """Σ_k planes[k] W[k]."""
    total = torch.mm(planes[0], W[0], out=empty(planes, planes.shape[1], W.shape[2]))
    for plane, w in zip(planes[1:], W[1:], strict=True):
        total.addmm_(plane, w)
    return total


def to_planes(x: Tensor, W: Tensor) -> Tensor:
    """W[k] x for all k: from x (N, b, d) and W (K, m, d) to (K, N, b, m)."""
    return _ToPlanes.apply(x, W)


def from_planes(planes: Tensor, W: Tensor) -> Tensor:
    """Σ_k W[k] planes[k]: from (K, N, b, p) and W (K, m, p) to (N, b, m)."""
    return _FromPlanes.apply(planes, W)
