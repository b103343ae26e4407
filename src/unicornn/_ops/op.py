"""The stack as torch.library ops: opaque to torch.compile and torch.export, differentiable once.

    forward   u, initial state, parameters → output, final state, and what backward needs
    backward  its vector-Jacobian product
    inverse   final state → initial state

start (2, L, b, m) is the initial (y, z) and carries its gradient; grid (2, L, b, m) int64 and rest say where exactly on
the grid it stands. keep: "nothing", "reversible" or "stored". horizon: of every layer, or None. w, b, a and the states have
full precision; u, V, Lambda and mask may have half, with a back-end that takes it.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from unicornn._ops.coefficients import Coefficients
from unicornn._ops.cpu import driver as cpu
from unicornn._ops.cpu.memory import reused
from unicornn._ops.driver import Stack, chunk_length, kept_length
from unicornn._ops.growth import watch
from unicornn._ops.triton import recurrence as gpu
from unicornn._state import RANGE, value
from unicornn.errors import BadValue, OutOfRange

_library = torch.library.Library("unicornn", "DEF")
_library.define(
    "forward(Tensor u, Tensor start, Tensor grid, Tensor? rest, Tensor w, Tensor[] V, Tensor b, Tensor a, "
    "Tensor[] Lambda, float alpha, Tensor? mask, Tensor? lengths, Tensor? steps, bool every, str keep, "
    "float[]? horizon, str backend) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_library.define(
    "backward(Tensor? g_output, Tensor g_final, Tensor u, Tensor grid, Tensor kept, Tensor marks, Tensor w, "
    "Tensor[] V, Tensor b, Tensor a, Tensor[] Lambda, float alpha, Tensor? mask, Tensor? lengths, Tensor? steps, "
    "bool every, bool need_u, float[]? horizon, str backend) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor[], Tensor[])"
)
_library.define(
    "inverse(Tensor u, Tensor grid, Tensor w, Tensor[] V, Tensor b, Tensor a, Tensor[] Lambda, float alpha, "
    "Tensor? mask, Tensor? lengths, str backend) -> Tensor"
)

forward = torch.ops.unicornn.forward
inverse = torch.ops.unicornn.inverse


def _on_gpu(u: Tensor, backend: str) -> bool:
    """By the device, and on the CPU by name. An exported program may have changed devices."""
    return u.is_cuda or backend == "triton"


def _stack(
    backend: str,
    coefficients: Coefficients,
    u: Tensor,
    grid: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    steps: Tensor | None,
) -> Stack | cpu.Stack:
    if _on_gpu(u, backend):
        return Stack(gpu.Recurrence, coefficients, u, grid, mask, lengths, steps)
    return cpu.Stack(coefficients, u, grid, mask, lengths, steps)


def check_values(N: int, lengths: Tensor | None, steps: Tensor | None) -> None:
    """What only the values can tell, checked where they are at hand: inside the op."""
    if lengths is not None and not bool(((lengths >= 1) & (lengths <= N)).all()):
        raise BadValue(f"lengths: expected numbers from 1 to N={N}, got {lengths.tolist()}")
    if steps is not None:
        end = N if lengths is None else lengths
        inside = (steps >= 0) & (steps < end)
        if not bool(inside.all()):
            bad = sorted(set(steps[~inside].tolist()))[:5]
            raise BadValue(
                f"output: expected time steps from 0 to the sequence's length - 1 (N={N}), got {bad} among them"
            )


def _beyond(layers: list[int]) -> str:
    return (
        f"the state of layer {', '.join(map(str, layers))} left the range of ±{RANGE:.0f} in which reversal is exact, "
        "or is not finite. Smaller dt, larger alpha, smaller weights or input keep it inside; backend='reference' and, "
        "for gradients, gradient='stored' do without exact reversal"
    )


def _forward(
    u: Tensor,
    start: Tensor,
    grid: Tensor,
    rest: Tensor | None,
    w: Tensor,
    V: list[Tensor],
    b: Tensor,
    a: Tensor,
    Lambda: list[Tensor],
    alpha: float,
    mask: Tensor | None,
    lengths: Tensor | None,
    steps: Tensor | None,
    every: bool,
    keep: str,
    horizon: list[float] | None,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    check_values(len(u), lengths, steps)
    inside = (start.abs() < RANGE).all()  # looked at when all is done: a GPU should not wait for it
    stack = _stack(backend, Coefficients(w, V, b, a, Lambda, alpha), u, grid, mask, lengths, steps)
    shape, cuts, state = _room(backend, u, w, keep)
    kept, marks = reused(u, *shape), reused(u, *cuts, dtype=state)
    output = stack.forward(every, kept if keep == "stored" else None, marks if keep == "stored" else None)
    if not bool(inside):
        raise BadValue(f"state: expected finite numbers within ±{RANGE:.0f}, got up to {start.abs().max()}")
    if beyond := stack.out_of_range:
        if keep == "reversible":
            raise OutOfRange(_beyond(beyond))
        warnings.warn(_beyond(beyond), RuntimeWarning, stacklevel=2)
    final = stack.state
    return output, value(final, rest, w.dtype), final.long(), kept, marks


def _room(backend: str, u: Tensor, w: Tensor, keep: str) -> tuple[tuple[int, ...], tuple[int, ...], torch.dtype]:
    """Shapes of what is stored (if asked for), t or x of every step and the states at the cuts; their dtype."""
    (N, batch, _), (L, m) = u.shape, w.shape
    state = torch.float64 if w.dtype == torch.float32 else torch.int64
    if keep != "stored":
        return (0,), (0,), state
    if _on_gpu(u, backend):
        chunks = -(-N // chunk_length(gpu.Recurrence, N, batch, m))
        return (L, kept_length(N, batch, m)), (chunks, L, *gpu.Recurrence.mark_shape(batch, m)), state
    kept, marks = cpu.room(N, batch, m, L)
    return (kept,), (marks,), state


def _fake_forward(
    u: Tensor, start: Tensor, grid: Tensor, rest: Any, w: Tensor, *args: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    steps, every, keep, _, backend = args[-5:]
    rows = u.shape[0] if every else (0 if steps is None else steps.shape[0])
    output = u.new_empty(rows, u.shape[1], w.shape[1])
    shape, cuts, state = _room(backend, u, w, keep)
    kept, marks = u.new_empty(shape), u.new_empty(cuts, dtype=state)
    return output, torch.empty_like(start), torch.empty_like(grid), kept, marks


def _backward(
    g_output: Tensor | None,
    g_final: Tensor,
    u: Tensor,
    grid: Tensor,
    kept: Tensor,
    marks: Tensor,
    w: Tensor,
    V: list[Tensor],
    b: Tensor,
    a: Tensor,
    Lambda: list[Tensor],
    alpha: float,
    mask: Tensor | None,
    lengths: Tensor | None,
    steps: Tensor | None,
    every: bool,
    need_u: bool,
    horizon: list[float] | None,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, list[Tensor], list[Tensor]]:
    stack = _stack(backend, Coefficients(w, V, b, a, Lambda, alpha), u, grid, mask, lengths, steps)
    stored = kept.numel() > 0
    keep, cuts = (kept, marks) if stored else (None, None)
    gradients = stack.backward(g_output, g_final, every, keep, cuts, need_u, horizon or ())
    if not stored and (beyond := stack.out_of_range):
        raise OutOfRange(_beyond(beyond))
    _, g_start, gw, gb, ga, gV, gLambda = gradients
    watch((g_start, gw, gb, ga, *gV, *gLambda), (g_output, g_final), grid, stack.end)
    return gradients


def _fake_backward(g_output: Any, g_final: Tensor, u: Tensor, *args: Any) -> Any:
    w, V, b, a, Lambda = args[3:8]
    need_u = args[-3]
    gu = u.new_empty(u.shape[0] if need_u else 0, *u.shape[1:])
    like = torch.empty_like
    return gu, like(g_final), like(w), like(b), like(a), [like(v) for v in V], [like(v) for v in Lambda]


def _inverse(
    u: Tensor,
    grid: Tensor,
    w: Tensor,
    V: list[Tensor],
    b: Tensor,
    a: Tensor,
    Lambda: list[Tensor],
    alpha: float,
    mask: Tensor | None,
    lengths: Tensor | None,
    backend: str,
) -> Tensor:
    check_values(len(u), lengths, None)
    stack = _stack(backend, Coefficients(w, V, b, a, Lambda, alpha), u, grid, mask, lengths, None)
    stack.inverse()
    if beyond := stack.out_of_range:
        raise OutOfRange(_beyond(beyond))
    return stack.state.long()


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    u, _, _, _, w, V, b, a, Lambda, alpha, mask, lengths, steps, every, _, horizon, backend = inputs
    ctx.count = len(V)
    ctx.save_for_backward(u, output[2], output[3], output[4], w, b, a, mask, lengths, steps, *V, *Lambda)
    ctx.alpha, ctx.every, ctx.horizon, ctx.backend = alpha, every, horizon, backend
    ctx.set_materialize_grads(False)


def _gradient(ctx: Any, g_output: Any, g_final: Any, *_: Any) -> tuple[Any, ...]:
    u, grid, kept, marks, w, b, a, mask, lengths, steps, *matrices = ctx.saved_tensors
    V, Lambda = matrices[: ctx.count], matrices[ctx.count :]
    if g_final is None:
        g_final = torch.zeros_like(grid, dtype=w.dtype)
    gu, g_start, gw, gb, ga, gV, gLambda = torch.ops.unicornn.backward(
        g_output, g_final, u, grid, kept, marks, w, V, b, a, Lambda, ctx.alpha, mask, lengths, steps, ctx.every,
        ctx.needs_input_grad[0], ctx.horizon, ctx.backend,
    )  # fmt: skip
    return (
        gu if ctx.needs_input_grad[0] else None, g_start, None, None, gw, gV, gb, ga, gLambda,
        None, None, None, None, None, None, None, None,
    )  # fmt: skip


def _no_second_derivative(ctx: Any, *_: Any) -> Any:
    raise NotImplementedError("the kernels are differentiable once; for second derivatives use backend='reference'")


for _device in ("CPU", "CUDA"):
    _library.impl("forward", _forward, _device)
    _library.impl("backward", _backward, _device)
    _library.impl("inverse", _inverse, _device)
torch.library.register_fake("unicornn::forward", _fake_forward, lib=_library)
torch.library.register_fake("unicornn::backward", _fake_backward, lib=_library)
torch.library.register_fake("unicornn::inverse", lambda u, grid, *_: torch.empty_like(grid), lib=_library)
torch.library.register_autograd("unicornn::forward", _gradient, setup_context=_setup, lib=_library)
torch.library.register_autograd("unicornn::backward", _no_second_derivative, lib=_library)
for _op in ("forward", "inverse"):
    torch.library.register_autocast(f"unicornn::{_op}", "cpu", torch.float32, lib=_library)
