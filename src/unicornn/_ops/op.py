"""The stack as torch.library ops: opaque to torch.compile and torch.export, differentiable once.

    forward   output, final state, final state in grid units, and three tensors saved for backward
    backward  its vector-Jacobian product, from the final state
    inverse   initial state in grid units, from the final state

All take the fields of a ``Problem``; backward takes the incoming gradients and the saved tensors before them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, get_type_hints

import torch
from torch import Tensor

from unicornn._ops.cpu import driver as cpu
from unicornn._ops.cpu.memory import reused
from unicornn._ops.growth import warn_of_growth
from unicornn._ops.problem import Gradients, Problem, check_values
from unicornn._ops.triton.driver import Stack
from unicornn._state import RANGE, value
from unicornn.errors import BadValue, OutOfRange

_SCHEMA_TYPES: dict[Any, str] = {
    Tensor: "Tensor", Tensor | None: "Tensor?", Sequence[Tensor]: "Tensor[]", float: "float",
    Sequence[float] | None: "float[]?", bool: "bool", str: "str",
}  # fmt: skip
_FIELDS = ", ".join(f"{_SCHEMA_TYPES[kind]} {name}" for name, kind in get_type_hints(Problem).items())
_SAVED = "Tensor activations, Tensor checkpoints, Tensor packed"
_library = torch.library.Library("unicornn", "DEF")
_library.define(f"forward({_FIELDS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)")
_library.define(
    f"backward(Tensor? g_output, Tensor g_final, bool need_u, {_SAVED}, {_FIELDS}) "
    "-> (Tensor, Tensor, Tensor, Tensor[], Tensor, Tensor, Tensor[])"
)
_library.define(f"inverse({_FIELDS}) -> Tensor")

forward = torch.ops.unicornn.forward
inverse = torch.ops.unicornn.inverse


def _on_gpu(p: Problem) -> bool:
    """By device, because an exported program may have moved to another one; on the CPU by the name of the back-end."""
    return p.u.is_cuda or p.backend == "triton"


def _stack(p: Problem, saved: Sequence[Tensor] = ()) -> Stack | cpu.Stack:
    return (Stack if _on_gpu(p) else cpu.Stack)(p, saved)


def _saved_shapes(p: Problem) -> list[tuple[tuple[int, ...], torch.dtype]]:
    return (Stack if _on_gpu(p) else cpu.Stack).saved_shapes(p)


def _out_of_range(layers: list[int]) -> str:
    return (
        f"the state of layer {', '.join(map(str, layers))} left the range of ±{RANGE:.0f} in which reversal is exact, "
        "or is not finite. Smaller dt, larger alpha, smaller weights or input keep it inside; backend='reference' and, "
        "for gradients, gradient='stored' do without exact reversal"
    )


def _forward(*args: Any) -> tuple[Tensor, ...]:
    p = Problem(*args)
    check_values(p.u.shape[0], p.lengths, p.steps)
    inside = (p.start.abs() < RANGE).all()  # read after the pass, so that a GPU does not wait for it
    saved = [reused(p.u, *shape, dtype=dtype) for shape, dtype in _saved_shapes(p)]
    stack = _stack(p, saved)
    output = stack.forward()
    if not bool(inside):
        raise BadValue(f"state: expected finite numbers within ±{RANGE:.0f}, got up to {p.start.abs().max()}")
    if layers := stack.out_of_range:
        if p.keep == "reversible":
            raise OutOfRange(_out_of_range(layers))
        warnings.warn(_out_of_range(layers), RuntimeWarning, stacklevel=2)
        output.masked_fill_(output.abs() >= RANGE, math.nan)  # float32 kernels on the CPU compute beyond the range
    final = stack.state
    return output, value(final, p.rest, p.w.dtype).contiguous(), final.long().contiguous(), *saved


def _like(t: Tensor) -> Tensor:
    return torch.empty_like(t, memory_format=torch.contiguous_format)


def _fake_forward(*args: Any) -> tuple[Tensor, ...]:
    p = Problem(*args)
    output = p.u.new_empty(p.output_rows, p.u.shape[1], p.w.shape[1])
    saved = [p.u.new_empty(shape, dtype=dtype) for shape, dtype in _saved_shapes(p)]
    return output, _like(p.start), _like(p.grid), *saved


def _backward(
    g_output: Tensor | None,
    g_final: Tensor,
    need_u: bool,
    activations: Tensor,
    checkpoints: Tensor,
    packed: Tensor,
    *args: Any,
) -> tuple[Tensor | list[Tensor], ...]:
    p = Problem(*args)
    stack = _stack(p, (activations, checkpoints, packed))
    gradients = stack.backward(g_output, g_final, need_u)
    if p.keep != "stored" and (layers := stack.out_of_range):
        raise OutOfRange(_out_of_range(layers))
    _, start, w, V, b, a, Lambda = gradients
    warn_of_growth((start, w, *V, b, a, *Lambda), (g_output, g_final), p.grid, stack.end)
    return tuple(g.contiguous() if isinstance(g, Tensor) else [t.contiguous() for t in g] for g in gradients)


def _fake_backward(
    g_output: Any, g_final: Tensor, need_u: bool, activations: Any, checkpoints: Any, packed: Any, *args: Any
) -> tuple[Any, ...]:
    p = Problem(*args)
    gu = p.u.new_empty(p.u.shape[0] if need_u else 0, *p.u.shape[1:])
    return gu, _like(g_final), _like(p.w), [*map(_like, p.V)], _like(p.b), _like(p.a), [*map(_like, p.Lambda)]


def _inverse(*args: Any) -> Tensor:
    p = Problem(*args)
    check_values(p.u.shape[0], p.lengths, None)
    stack = _stack(p)
    stack.inverse()
    if layers := stack.out_of_range:
        raise OutOfRange(_out_of_range(layers))
    return stack.state.long().contiguous()


_TENSORS = ("u", "grid", "w", "b", "a", "mask", "lengths", "steps")
_OPTIONS = ("alpha", "every", "keep", "horizon", "backend")


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    p = Problem(*inputs)._replace(grid=output[2])
    ctx.save_for_backward(*output[3:], *(getattr(p, name) for name in _TENSORS), *p.V, *p.Lambda)
    ctx.layers, ctx.options = len(p.V), {name: getattr(p, name) for name in _OPTIONS}
    ctx.set_materialize_grads(False)


def _gradient(ctx: Any, g_output: Any, g_final: Any, *_: Any) -> tuple[Any, ...]:
    first = 3 + len(_TENSORS)
    saved, matrices = ctx.saved_tensors[:3], ctx.saved_tensors[first:]
    tensors = dict(zip(_TENSORS, ctx.saved_tensors[3:first], strict=True))
    V, Lambda = matrices[: ctx.layers], matrices[ctx.layers :]
    p = Problem(**tensors, **ctx.options, V=V, Lambda=Lambda, start=tensors["grid"], rest=None)  # start is not read
    if g_final is None:
        g_final = torch.zeros_like(p.grid, dtype=p.w.dtype)
    need_u = ctx.needs_input_grad[0]
    gradients = Gradients(*torch.ops.unicornn.backward(g_output, g_final, need_u, *saved, *p))._asdict()
    if not need_u:
        del gradients["u"]
    return tuple(gradients.get(name) for name in Problem._fields)


def _no_second_derivative(ctx: Any, *_: Any) -> Any:
    raise NotImplementedError("the kernels are differentiable once; for second derivatives use backend='reference'")


for _device in ("CPU", "CUDA"):
    _library.impl("forward", _forward, _device)
    _library.impl("backward", _backward, _device)
    _library.impl("inverse", _inverse, _device)
torch.library.register_fake("unicornn::forward", _fake_forward, lib=_library)
torch.library.register_fake("unicornn::backward", _fake_backward, lib=_library)
torch.library.register_fake("unicornn::inverse", lambda *args: _like(Problem(*args).grid), lib=_library)
torch.library.register_autograd("unicornn::forward", _gradient, setup_context=_setup_context, lib=_library)
torch.library.register_autograd("unicornn::backward", _no_second_derivative, lib=_library)
for _op in ("forward", "inverse"):
    torch.library.register_autocast(f"unicornn::{_op}", "cpu", torch.float32, lib=_library)
