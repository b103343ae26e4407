"""Recurrences with a matrix product at every step, fused over time: those of coRNN, expRNN and LEM.

On the CPU, in float32 and float64 and for small states, Numba kernels compute outputs and gradients; all other tensors
take a loop over time in torch (see ``suits``). Memory is O(N b m). Gradients cannot be differentiated again.

Shapes: drives x (N, b, ·), matrices (out, in), states (b, m), lengths (b,) or None. Every function returns the outputs
of all steps, undefined in the padding, and the states at the end of each sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unicornn._ops.cpu import launch
from unicornn._ops.cpu.memory import empty
from unicornn.baselines._base import over_time

KERNELS = "unicornn.baselines._ops.dense_kernels"
LARGEST_STATE = 1 << 13  # elements b·m; beyond it, torch's matrix products make up for a loop in Python


def suits(x: Tensor, state: Tensor) -> bool:
    """Whether the kernels support drives x (N, b, ·) and are faster than torch for a state (b, m)."""
    return launch.fits(x) and state.numel() <= LARGEST_STATE


class _Kernel(NamedTuple):
    """Name of a kernel, whether it overwrites the drive, its constants, and the gradients of its weights.

    weight_gradients: from ∂E/∂(drive) (N, b, ·), the states S (N + 1, b, ·) and m.
    """

    name: str
    overwrites: bool
    constants: tuple[float, ...]
    weight_gradients: Callable[[Tensor, Tensor, int], tuple[Tensor, ...]]

    def run(self, suffix: str, arguments: Sequence[Tensor], weights: Sequence[Tensor], ends: Tensor) -> None:
        """Calls the kernel for all sequences, distributed among threads."""
        dtype, b = arguments[0].dtype, len(ends)
        arrays, matrices = ([t.detach().numpy() for t in tensors] for tensors in (arguments, weights))
        constants = np.asarray(self.constants, arrays[0].dtype)
        kernel, threads = launch.kernel(KERNELS, self.name + suffix), min(torch.get_num_threads(), b)
        launch.share_out(kernel, dtype, b, threads, *arrays, tuple(matrices), ends.numpy(), tuple(constants))


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernel: _Kernel, x: Tensor, start: Tensor, m: int, lengths: Tensor | None, *weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        N, b, _ = x.shape
        gates = empty(x, *x.shape).copy_(x) if kernel.overwrites else x.contiguous()
        S = empty(x, N + 1, b, start.shape[1])
        S[0] = start
        ends = torch.full((b,), N) if lengths is None else lengths
        kernel.run("", (gates, S), [W.t().contiguous() for W in weights], ends)
        ctx.kernel, ctx.m = kernel, m
        ctx.save_for_backward(gates, S, ends, *weights)
        ctx.set_materialize_grads(False)
        return S[1:, :, :m].clone(memory_format=torch.contiguous_format), S[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, g_final: Tensor | None) -> tuple[Any, ...]:
        gates, S, ends, *weights = ctx.saved_tensors
        (_, b, width), m = S.shape, ctx.m
        D = S.new_zeros(b, width) if g_final is None else g_final.clone(memory_format=torch.contiguous_format)
        shown = S.new_zeros(1, b, m) if g is None else g.contiguous()
        to = empty(gates, *gates.shape)
        ctx.kernel.run("_adjoint", (shown, gates, S, to, D), [W.contiguous() for W in weights], ends)
        return None, to, D, None, None, *ctx.kernel.weight_gradients(to, S, m)


def _matrix_gradient(to: Tensor, S: Tensor) -> Tensor:
    """∂E/∂W from ∂E/∂(W s) = ``to`` (N, b, out) and s = S (N, b, in)."""
    return to.reshape(-1, to.shape[-1]).t() @ S.reshape(-1, S.shape[-1])


def cornn(
    x: Tensor, W: Tensor, Wz: Tensor, state: tuple[Tensor, ...], constants: tuple[float, ...], lengths: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """z ← z + Δt [tanh(W y + Wz z + x) - γ y - ε z], y ← y + Δt z; state (y, z), constants (Δt, γ, ε), outputs y."""
    dt, gamma, epsilon = constants
    spring, damped = -dt * gamma, 1 - dt * epsilon
    if suits(x, state[0]):
        kernel = _Kernel("cornn", True, (dt, spring, damped), lambda to, S, m: (_matrix_gradient(to, S[:-1]),))
        weights = torch.cat([W, Wz], 1)
        ys, final = _Recurrence.apply(kernel, x, torch.cat(state, 1), len(W), lengths, weights)
        return ys, final.chunk(2, 1)
    W, Wz = W.t(), Wz.t()

    def step(x_n: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        force = torch.addmm(torch.addmm(x_n, y, W), z, Wz).tanh()
        z = (damped * z).add(force, alpha=dt).add(y, alpha=spring)
        return y.add(z, alpha=dt), z

    return over_time(step, x, state, lengths)


def exprnn(x: Tensor, W: Tensor, b: Tensor, h: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """h ← modrelu(W h + x), modrelu(a) = sign(a) relu(|a| + b)."""
    if suits(x, h):

        def gradients(to: Tensor, S: Tensor, m: int) -> tuple[Tensor, ...]:
            return _matrix_gradient(to, S[:-1]), (to * S[1:].sign()).sum((0, 1))

        return _Recurrence.apply(_Kernel("exprnn", False, (), gradients), x, h, len(b), lengths, W, b)
    W = W.t()

    def step(x_n: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        a = torch.addmm(x_n, h, W)
        return (a.sign() * (a.abs() + b).relu(),)

    hs, (h,) = over_time(step, x, (h,), lengths)
    return hs, h


def lem(
    x: Tensor, W: Tensor, Wy: Tensor, state: tuple[Tensor, ...], dt: float, lengths: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """LEM's step, with x (N, b, 4m) and W (3m, m) in the order of ``LEMLayer``; state (y, z), outputs y."""
    m = len(Wy)
    if suits(x, state[0]):

        def gradients(to: Tensor, S: Tensor, m: int) -> tuple[Tensor, ...]:
            first, last = to[..., : 3 * m], to[..., 3 * m :]
            return _matrix_gradient(first, S[:-1, :, :m]), _matrix_gradient(last, S[1:, :, m:])

        kernel = _Kernel("lem", True, (dt,), gradients)
        ys, final = _Recurrence.apply(kernel, x, torch.cat(state, 1), m, lengths, W, Wy)
        return ys, final.chunk(2, 1)
    W, Wy = W.t(), Wy.t()

    def step(x_n: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        first, last = x_n.split((3 * m, m), 1)
        steps, force = torch.addmm(first, y, W).split((2 * m, m), 1)
        dt_z, dt_y = (dt * steps.sigmoid()).chunk(2, 1)
        z = z.lerp(force.tanh(), dt_z)
        return y.lerp(torch.addmm(last, z, Wy).tanh(), dt_y), z

    return over_time(step, x, state, lengths)
