"""Recurrences of independent neurons, fused over time: those of IndRNN, SRU, minGRU, LRU and LinOSS.

On the CPU, in float32 and float64, Numba kernels compute outputs and gradients; all other tensors take a loop over time
in torch. Memory is O(N b m): kernels overwrite a drive with what the backward pass needs of it, so a drive must not be
a leaf of the graph. Gradients cannot be differentiated again.

Shapes: drives (N, b, m), coefficients (m,), states (b, m), lengths (b,) or None. Every function returns the outputs of
all steps, undefined in the padding, and the state at the end of each sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unicornn._ops.cpu import launch
from unicornn._ops.cpu.launch import fits
from unicornn._ops.cpu.memory import blocked, empty, unblocked
from unicornn._ops.cpu.sizes import B
from unicornn.baselines._base import over_time

KERNELS = "unicornn.baselines._ops.row_kernels"

# By model: the planes that contain the last parts of the state, and the number of planes that it writes in addition to
# the drives, of which the last is the output; without any, the drives become the output.
_PLANES = {
    "IndRNN": ((0,), 0),
    "MinGRU": ((2,), 1),
    "SRU": ((4,), 2),
    "Rotation": ((0, 1), 0),
    "Oscillation": ((1,), 1),
}


class _Blocks:
    """The kernels' D and T for planes (N, b, m): the states, or their adjoints, and the coefficients."""

    def __init__(self, like: Tensor, lengths: Tensor | None, states: Tensor, coefficients: Tensor) -> None:
        N, self.batch, self.m = like.shape
        self.dtype, self.E, self.states = like.dtype, self.batch * self.m, slice(1, 1 + len(states))
        ends = torch.full((self.batch,), N) if lengths is None else lengths
        rows = [ends[:, None], *states, *coefficients[:, None], *torch.zeros_like(coefficients)[:, None]]
        D = blocked([t.detach().numpy()[None] for t in rows], states.detach().numpy().dtype)
        self.D = D.reshape(-1, len(rows) * B)
        self.T = np.zeros((len(self.D), len(coefficients) * B))

    def run(self, kernel: str, model: str, alpha: float, *planes: Sequence[Tensor]) -> Tensor:
        """Calls a kernel with planes (·, b, m) for all blocks; returns the new states, (states, b, m)."""
        arrays: list[Any] = [tuple(t.detach().view(-1, self.E).numpy() for t in each) for each in planes]
        arrays += [self.D, *([self.T] if kernel == "backward" else [])]
        what = launch.kernel(KERNELS, model)(self.D.dtype.type(alpha))
        count = len(self.D)
        launch.share_out(launch.kernel(KERNELS, kernel), self.dtype, count, launch.threads(count), what, *arrays)
        return torch.from_numpy(self._rows(self.D)[self.states].copy())

    def sums(self) -> Tensor:
        """Gradients of the coefficients, (·, m). NumPy adds up the batch in a single thread and a fixed order."""
        return torch.from_numpy(self._rows(self.T).sum(1)).to(self.dtype)

    def _rows(self, v: Any) -> Any:
        return unblocked(v.reshape(-1), 1, self.batch, self.m)[:, 0]


def _planes(t: Tensor | None) -> list[Tensor]:
    return [] if t is None else [t] if t.dim() == 3 else [*t]


class _Recurrence(torch.autograd.Function):
    """A kernel on its drives x, one plane (N, b, m) or several, and SRU's input s, which stays as it is."""

    @staticmethod
    def forward(
        ctx: Any,
        name: str,
        alpha: float,
        x: Tensor,
        s: Tensor | None,
        states: Tensor,
        coefficients: Tensor,
        lengths: Tensor | None,
    ) -> tuple[Tensor, ...]:
        ctx.mark_dirty(x)
        ctx.name, ctx.alpha = name, alpha
        planes = [*_planes(x), *_planes(s)]
        new = [empty(x, *planes[0].shape) for _ in range(_PLANES[name][1])]
        final = _Blocks(planes[0], lengths, states, coefficients).run("forward", name, alpha, [*planes, *new])
        ctx.save_for_backward(x, s, new[0] if new else None, states, coefficients, lengths)
        ctx.set_materialize_grads(False)
        return (new[-1], final, x) if new else (x, final)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, g_final: Tensor | None, *_: Any) -> tuple[Any, ...]:
        x, s, new, states, coefficients, lengths = ctx.saved_tensors
        planes = [*_planes(x), *_planes(s), *_planes(new)]
        past = [planes[k] for k in _PLANES[ctx.name][0]]
        if g is None:
            g = x.new_zeros(len(past), 1, *planes[0].shape[1:])  # a single step of zeros for all N
        to, to_s = empty(x, *x.shape), None if s is None else empty(s, *s.shape)
        blocks = _Blocks(planes[0], lengths, torch.zeros_like(states) if g_final is None else g_final, coefficients)
        arrays = planes, _planes(g.contiguous()), past, [*states[-len(past) :]], [*_planes(to), *_planes(to_s)]
        g_states = blocks.run("backward", ctx.name, ctx.alpha, *arrays)
        return None, None, to, to_s, g_states, blocks.sums(), None


def indrnn(x: Tensor, u: Tensor, b: Tensor, h: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """h ← relu(x + b + u h)."""
    if fits(x):
        hs, final = _Recurrence.apply("IndRNN", 1.0, x.contiguous(), None, h[None], torch.stack([u, b]), lengths)
        return hs, final[0]
    hs, (h,) = over_time(lambda x_n, h: (torch.relu(x_n + b + u * h),), x, (h,), lengths)
    return hs, h


def rotation(v: Tensor, re: Tensor, im: Tensor, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """x ← λ x + v, complex, with λ = re + i im; v (2, N, b, m), x (2, b, m) and the outputs are two real planes."""
    if fits(v):
        return _Recurrence.apply("Rotation", 1.0, v.contiguous(), None, x, torch.stack([re, im]), lengths)

    def step(v_n: Tensor, pair: Tensor) -> tuple[Tensor, ...]:
        p, q = pair.chunk(2, -1)
        return (torch.cat([re * p - im * q, re * q + im * p], -1) + v_n,)

    outputs, (final,) = over_time(step, torch.cat([v[0], v[1]], -1), (torch.cat([x[0], x[1]], -1),), lengths)
    return torch.stack(outputs.chunk(2, -1)), torch.stack(final.chunk(2, -1))


def oscillation(v: Tensor, M: Tensor, z: Tensor, y: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """(z, y) ← M (z + v, y), with M (4, m) row by row; the outputs are y, the final states z and y."""
    if fits(v):
        ys, (z, y), _ = _Recurrence.apply("Oscillation", 1.0, v.contiguous(), None, torch.stack([z, y]), M, lengths)
        return ys, z, y

    def step(v_n: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        p = z + v_n
        return M[2] * p + M[3] * y, M[0] * p + M[1] * y

    ys, (y, z) = over_time(step, v, (y, z), lengths)
    return ys, z, y


def gated(
    x: Tensor, s: Tensor | None, v: Tensor, b: Tensor, c: Tensor, alpha: float, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:
    """f, r = σ(x + v c + b), c ← f c + (1 - f) x̃, h = r c + (1 - r) α s; the outputs are h, the final state is c.

    Args:
        x: Drives of x̃, f and r, (3, N, b, m); of x̃ and f, (2, N, b, m), if s is None.
        s: Input of the highway, (N, b, m); None for no highway, then the outputs are c.
        v: Recurrent weights of f and r, (2, m).
        b: Biases of x̃, f and r, (3, m).
    """
    if fits(x):
        name, s = ("MinGRU", None) if s is None else ("SRU", s.contiguous())
        h, final, _ = _Recurrence.apply(name, alpha, x.contiguous(), s, c[None], torch.cat([v, b]), lengths)
        return h, final[0]

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
