"""The layer as a pure function of tensors: checks shapes, fills defaults, picks the back-end.

Shapes: N length, b batch, d input, m hidden, L layers. Time comes first; ``UnICORNN`` knows ``batch_first``, packed and
unbatched input, and both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn._backends import pick_backend
from unicornn._ops import op as torch_ops
from unicornn._ops import reference
from unicornn._ops.coefficients import Coefficients
from unicornn._ops.cpu.step import step as fast_step
from unicornn._ops.triton import recurrence as gpu
from unicornn._state import State, enter, value
from unicornn._transforms import transformed
from unicornn._weights import Weights, time_steps
from unicornn.errors import BadType, BadValue

GRADIENTS = ("reversible", "stored")
HALF = (torch.float16, torch.bfloat16)


class _Problem(NamedTuple):
    """Arguments, checked, and made one dtype: w, b and the states float32 or float64; u, V, Lambda and mask too, but on
    the GPU they may be of half precision."""

    u: Tensor
    coefficients: Coefficients
    mask: Tensor | None
    lengths: Tensor | None
    backend: str

    @property
    def full(self) -> torch.dtype:
        """Of the states."""
        return self.coefficients.w.dtype

    @property
    def state_shape(self) -> tuple[int, int, int]:
        L, m = self.coefficients.w.shape
        return L, self.u.shape[1], m


def _checked(weights: Any) -> None:
    if not isinstance(weights, Weights):
        raise BadType(f"weights: expected functional.Weights, got {type(weights).__name__}")
    weights.check()


def _problem(
    input: Tensor,
    weights: Weights,
    dt: float | Sequence[float],
    alpha: float,
    state: Any,
    mask: Tensor | None,
    lengths: Any,
    backend: str,
) -> _Problem:
    if not isinstance(input, Tensor):
        raise BadType(f"input: expected a tensor of shape (N, b, d), got {type(input).__name__}")
    if input.dim() != 3 or 0 in input.shape[:2]:
        raise BadValue(f"input: expected shape (N, b, d) with N, b >= 1, got {tuple(input.shape)}")
    _checked(weights)
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

    steps, alpha = checks.time_steps(dt, L), checks.not_negative("alpha", alpha)
    backend = pick_backend(backend, input.device)
    if backend != "reference":
        if mask is not None and mask.requires_grad and torch.is_grad_enabled():
            raise BadValue("mask: expected no requires_grad, for only backend='reference' has its gradient, got True")
        if transformed((input, mask, state, *weights)):
            backend = "reference"
    full = low = torch.float32 if first.dtype in HALF else first.dtype
    if backend == "triton" and full == torch.float32:
        gpu.check_steps(steps, alpha)
        low = torch.get_autocast_dtype(input.device.type) if _autocast(input.device) else first.dtype
    coefficients = weights.coefficients(steps, alpha, full, low)
    mask = None if mask is None else mask.to(low)
    return _Problem(input.to(low), coefficients, mask, lengths, backend)


def _autocast(device: torch.device) -> bool:
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def _start(state: Any, problem: _Problem) -> Tensor:
    """(2, L, b, m): the initial y and z, checked."""
    shape, like = problem.state_shape, problem.coefficients.w
    if not isinstance(state, (tuple, list)) or len(state) != 2:
        raise BadType(f"state: expected a pair (y, z) of tensors of shape {shape}, got {type(state).__name__}")
    pair = [t.to(like.dtype) if isinstance(t, Tensor) and t.dtype in HALF else t for t in state]
    return torch.stack([checks.tensor(f"state[{i}]", t, shape, "(L, b, m)", like) for i, t in enumerate(pair)])


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
    """Eq. (6), with Suppl. Eq. (75) where there is a Λ: L layers over a batch of sequences.

    Args:
        input: (N, b, d).
        weights: w, V, b, c and Λ of every layer.
        dt: Δt > 0, a number or one per layer.
        alpha: α >= 0.
        state: initial (y, z), each (L, b, m); zero if None.
        lengths: (b,), the lengths of the sequences; what comes after is padding.
        output: "all", "last", or time steps, int64 (k,) or (k, b).
        mask: (L, b, m), multiplied with the output of each layer: variational dropout.
        horizon: H > 0 steps, a number or one per layer: the gradient sees what a step k contributed to the output of a
            step n by e^(-(n-k)/H) only. With None, wholly.
        gradient: "reversible" recomputes the states backwards from the last one; "stored" keeps activations, which is
            faster and needs memory O(N b m L). The gradients are the same bit for bit.
        backend: "auto", "reference", "cpu" or "triton".

    Returns:
        The output, (N, b, m), (b, m) or (k, b, m), and the final ``State``, each of y and z (L, b, m).

    The kernels have one derivative, by reverse mode. Forward mode (dual numbers, ``torch.func.jvp``, ``jacfwd``) and
    the other transforms of ``torch.func`` run on the reference, whatever ``backend`` says.

    Example:
        >>> import torch
        >>> weights = Weights([torch.rand(4)], [torch.randn(4, 2)], [torch.zeros(4)], [torch.zeros(4)])
        >>> out, (y, z) = unicornn(torch.randn(50, 3, 2), weights, dt=0.2, output="last")
        >>> out.shape, y.shape
        (torch.Size([3, 4]), torch.Size([1, 3, 4]))
    """
    p = _problem(input, weights, dt, alpha, state, mask, lengths, backend)
    checks.choice("gradient", gradient, GRADIENTS)
    horizons = checks.horizon(horizon, weights.L)
    every, steps = wanted(output, p.u)
    result = input.dtype if input.dtype == weights.w[0].dtype and p.u.dtype not in HALF else p.u.dtype

    if p.backend == "reference":
        start = p.u.new_zeros((2, *p.state_shape)) if state is None else _start(state, p)
        if not torch.compiler.is_compiling():
            torch_ops.check_values(len(input), p.lengths, steps)
        k = p.coefficients._replace(a=p.coefficients.a.to(p.full))
        outputs, y, z = reference.forward(p.u, start[0], start[1], k, p.mask, p.lengths, horizons)
        final = State(y, z, mask=p.mask)
        if steps is not None:
            outputs = at_steps(outputs, steps)
    else:
        if state is None:
            start, rest = p.coefficients.w.new_zeros((2, *p.state_shape)), None
            grid = start.long()
        else:
            start = _start(state, p)
            grid, rest = enter(state, start)
        w, V, b, a, Lambda, _ = p.coefficients
        train = torch.is_grad_enabled() and any(t.requires_grad for t in (p.u, start, w, b, a, *V, *Lambda))
        outputs, pair, grid, _, _ = torch_ops.forward(
            p.u, start, grid, rest, *p.coefficients, p.mask, p.lengths, steps, every, gradient if train else "nothing",
            horizons or None, p.backend,
        )  # fmt: skip
        final = State(pair[0], pair[1], grid=grid.detach(), rest=rest, mask=p.mask)
    if isinstance(output, str) and output == "last":
        outputs = final.y[-1] if p.mask is None else final.y[-1] * p.mask[-1]
    return outputs.to(result), final


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

    Fast where no gradient is wanted (``torch.no_grad()``) and ``state`` is None or what the last step returned. On the
    CPU a sequence's numbers have the same bits whatever else is in the batch.

    Example:
        >>> import torch
        >>> weights = Weights([torch.rand(4)], [torch.randn(4, 2)], [torch.zeros(4)], [torch.zeros(4)])
        >>> state = None
        >>> for u_n in torch.randn(50, 3, 2):
        ...     out, state = step(u_n, weights, state=state)
        >>> out.shape
        torch.Size([3, 4])
    """
    if not isinstance(input, Tensor) or input.dim() != 2:
        got = tuple(input.shape) if isinstance(input, Tensor) else type(input).__name__
        raise BadValue(f"input: expected a tensor of shape (b, d), got {got}")
    _checked(weights)
    if mask is None:
        steps, alpha = checks.time_steps(dt, weights.L), checks.not_negative("alpha", alpha)
        fast = fast_step(input, weights, steps, alpha, state, backend)
        if fast is not None:
            return fast
    options: dict[str, Any] = {"dt": dt, "alpha": alpha, "state": state, "mask": mask, "horizon": horizon}
    return unicornn(input[None], weights, output="last", gradient=gradient, backend=backend, **options)


def at_steps(outputs: Tensor, steps: Tensor) -> Tensor:
    """(k, b, ·) of outputs (N, b, ·)."""
    return outputs.gather(0, steps[:, :, None].expand(-1, -1, outputs.shape[2]))


def wanted(output: Any, input: Tensor) -> tuple[bool, Tensor | None]:
    """What ``output`` asks for: all steps or not; else the last ones (None) or which, (k, b)."""
    if isinstance(output, str):
        return checks.choice("output", output, ("all", "last")) == "all", None
    if not isinstance(output, Tensor):
        raise BadType(f"output: expected 'all', 'last' or a LongTensor, got {type(output).__name__}")
    steps, batch = checks.indices("output", output, input.device), input.shape[1]
    if steps.dim() == 1:
        steps = steps[:, None].expand(-1, batch)
    if steps.dim() != 2 or steps.shape[1] != batch:
        raise BadValue(f"output: expected time steps of shape (k,) or (k, b={batch}), got {tuple(output.shape)}")
    return False, steps.contiguous()


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
    """Eq. (7): from the final state of ``unicornn(input, …)`` back to the initial one, bit for bit.

    Arguments as for ``unicornn``; ``state`` must be the ``State`` it returned for the result to be exact, and ``mask``
    the one it was given. Not differentiable, except with backend="reference", which is exact up to rounding only.

    Example:
        >>> import torch
        >>> weights = Weights([torch.rand(4)], [torch.randn(4, 2)], [torch.zeros(4)], [torch.zeros(4)])
        >>> u, start = torch.randn(1000, 3, 2), (torch.randn(1, 3, 4), torch.randn(1, 3, 4))
        >>> _, final = unicornn(u, weights, state=start)
        >>> y0, z0 = inverse(u, weights, final)
        >>> bool((y0 == start[0]).all() and (z0 == start[1]).all())
        True
    """
    p = _problem(input, weights, dt, alpha, state, mask, lengths, backend)
    last = _start(state, p)
    if p.backend == "reference":
        k = p.coefficients._replace(a=p.coefficients.a.to(p.full))
        y, z = reference.inverse(p.u, last[0], last[1], k, p.mask, p.lengths)
        return State(y, z, mask=p.mask)
    grid, rest = enter(state, last)
    with torch.no_grad():
        grid = torch_ops.inverse(p.u, grid, *p.coefficients, p.mask, p.lengths, p.backend)
        pair = value(grid, rest, p.full)
    return State(pair[0], pair[1], grid=grid, rest=rest, mask=p.mask)


__all__ = ["Weights", "inverse", "pick_backend", "step", "time_steps", "unicornn"]
