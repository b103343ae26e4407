"""coRNN's, expRNN's and LEM's recurrences, fused over time: Numba kernels forwards, and backwards by hand.

On the CPU, in float32 and float64, for small states; anything else goes to the reference: see ``suits``. Shapes: drives
x (N, b, ·), matrices (out, in), states (b, m), lengths (b,) or None. Memory is O(N b m). The gradients are
differentiable no further.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unicornn._ops.cpu import launch
from unicornn._ops.cpu.memory import empty
from unicornn.baselines._ops.dense import reference

LARGEST = 1 << 13  # elements of a state, b·m, beyond which torch's matrix products make up for a loop in Python


def suits(x: Tensor, state: Tensor) -> bool:
    """Whether the kernels can, and should, be used for drives x (N, b, ·) and a state (b, m)."""
    return launch.fits(x) and state.numel() <= LARGEST


def _run(name: str, b: int, dtype: torch.dtype, *args: Any) -> None:
    """Calls the kernel ``name`` for all b sequences, shared out among threads. Numbers get the arrays' dtype."""
    number = np.float32 if dtype == torch.float32 else np.float64
    arrays: list[Any] = [t.detach().numpy() if isinstance(t, Tensor) else number(t) for t in args]
    kernel = launch.kernel("unicornn.baselines._ops.dense.kernels", name)
    launch.share_out(kernel, dtype, b, min(torch.get_num_threads(), b), *arrays)


def _ends(x: Tensor, lengths: Tensor | None) -> Tensor:
    return torch.full((x.shape[1],), len(x)) if lengths is None else lengths


def _states(x: Tensor, start: tuple[Tensor, ...]) -> Tensor:
    """S (N + 1, b, ·), of which the first row is the start."""
    S = empty(x, len(x) + 1, x.shape[1], sum(t.shape[1] for t in start))
    torch.cat(start, 1, out=S[0])
    return S


def _copy(x: Tensor) -> Tensor:
    return empty(x, *x.shape).copy_(x)


def _shown(g: Tensor | None, S: Tensor, m: int) -> Tensor:
    """The gradient of what was shown, (N, b, m), or, where there is none, a row of zeros for all N."""
    return S.new_zeros(1, S.shape[1], m) if g is None else g.contiguous()


def _adjoint(S: Tensor, *final: Tensor | None) -> Tensor:
    """D (b, ·): the gradients of the final states."""
    width = S.shape[2] // len(final)
    return torch.cat([S.new_zeros(S.shape[1], width) if g is None else g for g in final], 1)


def _gradient(to: Tensor, S: Tensor) -> Tensor:
    """∂E/∂W from ∂E/∂(W s) = ``to`` (N, b, out) and s = S (N, b, in)."""
    return to.reshape(-1, to.shape[-1]).t() @ S.reshape(-1, S.shape[-1])


class _CoRNN(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, W: Tensor, y: Tensor, z: Tensor, constants: tuple[float, ...], lengths: Tensor | None
    ) -> tuple[Tensor, ...]:
        m, S, ends, force = x.shape[2], _states(x, (y, z)), _ends(x, lengths), _copy(x)
        _run("cornn", x.shape[1], x.dtype, force, S, W.t().contiguous(), ends, *constants)
        ctx.constants = constants
        ctx.save_for_backward(force, S, W, ends)
        ctx.set_materialize_grads(False)
        return S[1:, :, :m].contiguous(), S[-1, :, :m].clone(), S[-1, :, m:].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, gy: Tensor | None, gz: Tensor | None) -> tuple[Any, ...]:
        force, S, W, ends = ctx.saved_tensors
        m, D, to = force.shape[2], _adjoint(S, gy, gz), empty(force, *force.shape)
        shown = _shown(g, S, m)
        _run("cornn_adjoint", force.shape[1], S.dtype, shown, force, to, D, W.contiguous(), ends, *ctx.constants)
        return to, _gradient(to, S[:-1]), D[:, :m], D[:, m:], None, None


def cornn(
    x: Tensor, W: Tensor, Wz: Tensor, y: Tensor, z: Tensor, dt: float, gamma: float, epsilon: float, *,
    lengths: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """z ← z + Δt [tanh(W y + Wz z + x) - γ y - ε z], y ← y + Δt z: y at every step, and the last y and z.

    Example:
        >>> import torch
        >>> zero, one = torch.zeros(1, 1), torch.ones(1, 1)
        >>> ys, y, z = cornn(torch.zeros(3, 1, 1), zero, zero, one, zero, 0.5, 1.0, 1.0, lengths=None)
        >>> ys.flatten()
        tensor([0.7500, 0.4375, 0.1719])
    """
    if not suits(x, y):
        return reference.cornn(x, W, Wz, y, z, dt, gamma, epsilon, lengths=lengths)
    constants = (dt, -dt * gamma, 1 - dt * epsilon)
    return _CoRNN.apply(x, torch.cat([W, Wz], 1), y, z, constants, lengths)


class _ExpRNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor, b: Tensor, h: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        S, ends = _states(x, (h,)), _ends(x, lengths)
        _run("exprnn", x.shape[1], x.dtype, x.contiguous(), S, W.t().contiguous(), b, ends)
        ctx.save_for_backward(S, W, ends)
        ctx.set_materialize_grads(False)
        return S[1:].clone(), S[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, gh: Tensor | None) -> tuple[Any, ...]:
        S, W, ends = ctx.saved_tensors
        D, to = _adjoint(S, gh), empty(S, len(S) - 1, *S.shape[1:])
        shown = _shown(g, S, S.shape[2])
        _run("exprnn_adjoint", S.shape[1], S.dtype, shown, S, to, D, W.contiguous(), ends)
        return to, _gradient(to, S[:-1]), (to * S[1:].sign()).sum((0, 1)), D, None


def exprnn(x: Tensor, W: Tensor, b: Tensor, h: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """h ← modrelu(W h + x), modrelu(a) = sign(a) relu(|a| + b): h at every step, and the last h.

    Example:
        >>> import torch
        >>> hs, h = exprnn(torch.full((3, 1, 1), -1.0), torch.eye(1), torch.tensor([0.5]), torch.zeros(1, 1), None)
        >>> hs.flatten()
        tensor([-1.5000, -3.0000, -4.5000])
    """
    return _ExpRNN.apply(x, W, b, h, lengths) if suits(x, h) else reference.exprnn(x, W, b, h, lengths)


class _LEM(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, W: Tensor, Wy: Tensor, y: Tensor, z: Tensor, dt: float, lengths: Tensor | None
    ) -> tuple[Tensor, ...]:
        m, S, ends, gates = y.shape[1], _states(x, (y, z)), _ends(x, lengths), _copy(x)
        _run("lem", x.shape[1], x.dtype, gates, S, W.t().contiguous(), Wy.t().contiguous(), ends, dt)
        ctx.dt = dt
        ctx.save_for_backward(gates, S, W, Wy, ends)
        ctx.set_materialize_grads(False)
        return S[1:, :, :m].contiguous(), S[-1, :, :m].clone(), S[-1, :, m:].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor | None, gy: Tensor | None, gz: Tensor | None) -> tuple[Any, ...]:
        gates, S, W, Wy, ends = ctx.saved_tensors
        m, D, to = S.shape[2] // 2, _adjoint(S, gy, gz), empty(gates, *gates.shape)
        matrices = W.contiguous(), Wy.contiguous()
        _run("lem_adjoint", S.shape[1], S.dtype, _shown(g, S, m), gates, S, to, D, *matrices, ends, ctx.dt)
        gW, gWy = _gradient(to[..., : 3 * m], S[:-1, :, :m]), _gradient(to[..., 3 * m :], S[1:, :, m:])
        return to, gW, gWy, D[:, :m], D[:, m:], None, None


def lem(
    x: Tensor, W: Tensor, Wy: Tensor, y: Tensor, z: Tensor, dt: float, lengths: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """LEM's step, with x (N, b, 4m) and W (3m, m) in the order of ``LEMLayer``: y at every step, and the last y and z.

    Example:
        >>> import torch
        >>> zero, one = torch.zeros(1, 1), torch.ones(1, 1)
        >>> ys, y, z = lem(torch.zeros(3, 1, 4), zero.expand(3, 1), zero, one, one, 1.0, None)
        >>> ys.flatten()
        tensor([0.5000, 0.2500, 0.1250])
    """
    return (_LEM.apply if suits(x, y) else reference.lem)(x, W, Wy, y, z, dt, lengths)
