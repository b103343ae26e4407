"""The layer as a pure function of tensors: checks shapes, fills in defaults, chooses the back-end.

Shapes: N length, b batch, d input, m hidden, L layers. Time is the first dimension; ``UnICORNN`` adds ``batch_first``,
packed and unbatched input, and bidirectional layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn._backends import pick_backend
from unicornn._ops import op, reference
from unicornn._ops.cpu.step import step as fast_step
from unicornn._ops.problem import Problem, at_steps, check_values, selected_steps
from unicornn._ops.triton.recurrence import check_steps
from unicornn._state import State, enter, value
from unicornn._torch_internals import transformed
from unicornn._weights import Weights, check_weights, time_steps
from unicornn.errors import BadType, BadValue

GRADIENTS = ("reversible", "stored")
_HALF = (torch.float16, torch.bfloat16)


def _problem(
    input: Tensor,
    weights: Weights,
    state: Any,
    *,
    dt: float | Sequence[float],
    alpha: float,
    lengths: Any,
    mask: Tensor | None,
    backend: str,
    gradient: str = "nothing",
    horizon: float | Sequence[float] | None = None,
) -> Problem:
    """Checks the arguments and converts them to one dtype: float32 or float64 for w, b and the states; also for u, V,
    Lambda and mask, except that these may have half precision on the GPU."""
    checks.array("input", input, (3,), "(N, b, d)")
    check_weights(weights)
    (_, batch, d), L, first = input.shape, weights.L, weights.w[0]
    if d != weights.d:
        raise BadValue(f"input: expected {weights.d} features, as V[0] has it, got shape {tuple(input.shape)}")
    if not (_autocast(input.device) and input.is_floating_point() and input.device == first.device):
        checks.same_kind("input", input, first, "the parameters'")
    if lengths is not None:
        lengths = checks.indices("lengths", lengths, input.device)
        checks.tensor("lengths", lengths, (batch,), "(b,)")
    if mask is not None:
        checks.tensor("mask", mask, (L, batch, weights.m), "(L, b, m)")

    dts, alpha = checks.time_steps(dt, L), checks.not_negative("alpha", alpha)
    backend = pick_backend(backend, input.device)
    if backend != "reference":
        if mask is not None and mask.requires_grad and torch.is_grad_enabled():
            raise BadValue("mask: expected requires_grad=False (only backend='reference' has its gradient), got True")
        if transformed((input, mask, state, *weights)):
            backend = "reference"
    full = low = torch.float32 if first.dtype in _HALF else first.dtype
    if backend == "triton" and full == torch.float32:
        check_steps(dts, alpha)
        low = torch.get_autocast_dtype(input.device.type) if _autocast(input.device) else first.dtype
    w, V, b, Lambda = weights.converted(full, low)
    start, grid, rest = _start(state, (L, batch, weights.m), w, backend)
    u, a = input.to(low), time_steps(weights.c, dts, torch.float64)
    train = torch.is_grad_enabled() and any(t.requires_grad for t in (u, start, w, b, a, *V, *Lambda))
    return Problem(
        u=u, start=start, grid=grid, rest=rest, w=w, V=V, b=b, a=a, Lambda=Lambda, alpha=alpha,
        mask=None if mask is None else mask.to(low), lengths=lengths, steps=None, every=False,
        keep=gradient if train else "nothing", horizon=checks.horizon(horizon, L) or None, backend=backend,
    )  # fmt: skip


def _autocast(device: torch.device) -> bool:
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def _start(state: Any, shape: tuple[int, ...], like: Tensor, backend: str) -> tuple[Tensor, Tensor, Tensor | None]:
    """The initial (y, z), checked, (2, L, b, m); the same in grid units, and the rounding error, unless the reference
    runs, which has no grid."""
    if state is None:
        start = like.new_zeros((2, *shape))
        return start, start if backend == "reference" else start.long(), None
    if not isinstance(state, (tuple, list)) or len(state) != 2:
        raise BadType(f"state: expected a pair (y, z) of tensors of shape {shape}, got {type(state).__name__}")
    pair = [t.to(like.dtype) if isinstance(t, Tensor) and t.dtype in _HALF else t for t in state]
    start = torch.stack([checks.tensor(f"state[{i}]", t, shape, "(L, b, m)", like) for i, t in enumerate(pair)])
    return start, *((start, None) if backend == "reference" else enter(state, start))


def unicornn(
    input: Tensor,
    weights: Weights,
    *,
    dt: float | Sequence[float] = 0.1,
    alpha: float = 1.0,
    state: State | tuple[Tensor, Tensor] | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    output: str | Tensor = "all",
    mask: Tensor | None = None,
    horizon: float | Sequence[float] | None = None,
    gradient: str = "reversible",
    backend: str = "auto",
) -> tuple[Tensor, State]:
    """Runs L layers over a batch of sequences: Eq. (6), with Suppl. Eq. (75) for layers that have a Λ.

    Args:
        input: Sequences, (N, b, d).
        weights: Parameters w, V, b, c and Λ of every layer.
        dt: Time step Δt > 0, a number or one per layer.
        alpha, horizon, gradient, backend: As for ``UnICORNN``.
        state: Initial state (y, z), each (L, b, m); zero if None.
        lengths: Lengths of the sequences, (b,); the rest is padding.
        output: "all", "last", or time steps, int64 (k,) or (k, b).
        mask: Factors (L, b, m) of the output of each layer, for variational dropout.

    Returns:
        The output, (N, b, m), (b, m) or (k, b, m), and the final ``State``, each of y and z (L, b, m).

    The kernels can be differentiated once, in reverse mode. Forward mode (dual numbers, ``torch.func.jvp``, ``jacfwd``)
    and the other transforms of ``torch.func`` always run on the reference.

    Example:
        >>> import torch
        >>> weights = Weights([torch.rand(4)], [torch.randn(4, 2)], [torch.zeros(4)], [torch.zeros(4)])
        >>> out, (y, z) = unicornn(torch.randn(50, 3, 2), weights, dt=0.2, output="last")
        >>> out.shape, y.shape
        (torch.Size([3, 4]), torch.Size([1, 3, 4]))
    """
    checks.choice("gradient", gradient, GRADIENTS)
    p = _problem(
        input, weights, state, dt=dt, alpha=alpha, lengths=lengths, mask=mask, backend=backend, gradient=gradient,
        horizon=horizon,
    )  # fmt: skip
    every, steps = selected_steps(output, input)
    p = p._replace(every=every, steps=steps)
    dtype = input.dtype if input.dtype == weights.w[0].dtype and p.u.dtype not in _HALF else p.u.dtype
    if p.backend == "reference":
        if not torch.compiler.is_compiling():
            check_values(input.shape[0], p.lengths, p.steps)
        outputs, y, z = reference.forward(p)
        final = State(y, z, mask=p.mask)
        if p.steps is not None:
            outputs = at_steps(outputs, p.steps)
    else:
        outputs, pair, grid, *_ = op.forward(*p)
        final = State(pair[0], pair[1], grid=grid.detach(), rest=p.rest, mask=p.mask)
    if isinstance(output, str) and output == "last":
        outputs = final.y[-1] if p.mask is None else final.y[-1] * p.mask[-1]
    return outputs.to(dtype), final


def step(
    input: Tensor,
    weights: Weights,
    *,
    dt: float | Sequence[float] = 0.1,
    alpha: float = 1.0,
    state: State | tuple[Tensor, Tensor] | None = None,
    mask: Tensor | None = None,
    horizon: float | Sequence[float] | None = None,
    gradient: str = "reversible",
    backend: str = "auto",
) -> tuple[Tensor, State]:
    """One time step, for streams: as ``unicornn`` with N = 1, input (b, d) and output (b, m), bit for bit.

    Fast without gradient (``torch.no_grad()``) and if ``state`` is None or the result of the previous step. On the CPU
    the results of a sequence are the same, bit for bit, regardless of what else is in the batch.

    Example:
        >>> import torch
        >>> weights = Weights([torch.rand(4)], [torch.randn(4, 2)], [torch.zeros(4)], [torch.zeros(4)])
        >>> state = None
        >>> for u_n in torch.randn(50, 3, 2):
        ...     out, state = step(u_n, weights, state=state)
        >>> out.shape
        torch.Size([3, 4])
    """
    checks.array("input", input, (2,), "(b, d)")
    check_weights(weights)
    if mask is None:
        steps, alpha = checks.time_steps(dt, weights.L), checks.not_negative("alpha", alpha)
        fast = fast_step(input, weights, steps, alpha, state, backend)
        if fast is not None:
            return fast
    options: dict[str, Any] = {"dt": dt, "alpha": alpha, "state": state, "mask": mask, "horizon": horizon}
    return unicornn(input[None], weights, output="last", gradient=gradient, backend=backend, **options)


def inverse(
    input: Tensor,
    weights: Weights,
    state: State | tuple[Tensor, Tensor],
    *,
    dt: float | Sequence[float] = 0.1,
    alpha: float = 1.0,
    lengths: Tensor | Sequence[int] | None = None,
    mask: Tensor | None = None,
    backend: str = "auto",
) -> State:
    """Eq. (7): recovers the initial state of ``unicornn(input, …)`` from the final one, bit for bit.

    Arguments as for ``unicornn``. The result is exact if ``state`` is the ``State`` that it returned and ``mask`` the
    one it was given. Not differentiable, except with backend="reference", which is exact only up to rounding.

    Example:
        >>> import torch
        >>> weights = Weights([torch.rand(4)], [torch.randn(4, 2)], [torch.zeros(4)], [torch.zeros(4)])
        >>> u, start = torch.randn(1000, 3, 2), (torch.randn(1, 3, 4), torch.randn(1, 3, 4))
        >>> _, final = unicornn(u, weights, state=start)
        >>> y0, z0 = inverse(u, weights, final)
        >>> bool((y0 == start[0]).all() and (z0 == start[1]).all())
        True
    """
    if state is None:
        raise BadType("state: expected a pair (y, z) of tensors, got None")
    p = _problem(input, weights, state, dt=dt, alpha=alpha, lengths=lengths, mask=mask, backend=backend)
    if p.backend == "reference":
        y, z = reference.inverse(p)
        return State(y, z, mask=p.mask)
    with torch.no_grad():
        grid = op.inverse(*p)
        pair = value(grid, p.rest, p.w.dtype)
    return State(pair[0], pair[1], grid=grid, rest=p.rest, mask=p.mask)


__all__ = ["Weights", "inverse", "pick_backend", "step", "time_steps", "unicornn"]
