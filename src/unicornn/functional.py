"""The layer as a pure function of tensors: checks shapes, fills defaults, picks the back-end.

Shapes: N length, b batch, d input, m hidden, L layers. Time comes first; ``layer.UnICORNN`` knows ``batch_first``,
packed and unbatched input, and both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn._backends import pick_backend
from unicornn._ops import cpu, gpu, reference
from unicornn._ops import torch_ops as library
from unicornn._state import UNIT, State, enter, value
from unicornn.errors import BadType, BadValue

BACKWARDS = ("invert", "store")
HALF = (torch.float16, torch.bfloat16)


class _Problem(NamedTuple):
    """Arguments, checked, and made one dtype: w, b and the states float32 or float64; u, V, Lambda and mask too, but on
    the GPU they may be of half precision."""

    u: Tensor
    w: Tensor
    V: list[Tensor]
    b: Tensor
    a: Tensor
    Lambda: list[Tensor | None]
    alpha: float
    mask: Tensor | None
    lengths: Tensor | None
    backend: str

    @property
    def weights(self) -> tuple[Any, ...]:
        """As the ops take them."""
        return self.w, self.V, self.b, self.a, [Λ for Λ in self.Lambda if Λ is not None], self.alpha

    @property
    def state_shape(self) -> tuple[int, int, int]:
        return len(self.V), self.u.shape[1], self.w.shape[1]


def time_steps(c: Sequence[Tensor], dt: float | Sequence[float], dtype: torch.dtype | None = None) -> Tensor:
    """Effective time steps a = Δt·σ̂(c) (L, m), of every neuron of every layer. σ̂ of the paper is the logistic function.

    Example:
        >>> import torch
        >>> time_steps([torch.zeros(2)], dt=0.1)
        tensor([[0.0500, 0.0500]])
    """
    steps = checks.time_steps(dt, len(c))
    share = torch.sigmoid(torch.stack(list(c)).to(dtype or c[0].dtype))
    if len(set(steps)) == 1:
        return share * steps[0]
    return share * torch.tensor(steps, dtype=share.dtype, device=share.device)[:, None]


def _problem(
    input: Tensor,
    w: Sequence[Tensor],
    V: Sequence[Tensor],
    b: Sequence[Tensor],
    c: Sequence[Tensor],
    Lambda: Sequence[Tensor | None] | None,
    dt: float | Sequence[float],
    alpha: float,
    mask: Tensor | None,
    lengths: Any,
    backend: str,
) -> _Problem:
    if not isinstance(input, Tensor):
        raise BadType(f"input: expected a tensor of shape (N, b, d), got {type(input).__name__}")
    if input.dim() != 3 or 0 in input.shape[:2]:
        raise BadValue(f"input: expected shape (N, b, d) with N, b >= 1, got {tuple(input.shape)}")
    if not len(w) == len(V) == len(b) == len(c) >= 1:
        got = f"{len(w)}, {len(V)}, {len(b)}, {len(c)}"
        raise BadValue(f"w, V, b, c: expected one tensor per layer in each, got {got}")
    L, (m,), (_, batch, d) = len(w), w[0].shape, input.shape
    Lambda = list(Lambda) if Lambda is not None else [None] * L
    if len(Lambda) != L:
        raise BadValue(f"Lambda: expected one matrix or None per layer ({L}), got {len(Lambda)}")
    S = next((l for l, matrix in enumerate(Lambda) if matrix is not None), L)
    if (S < 2 and L > S) or any(matrix is None for matrix in Lambda[S:]):
        raise BadValue("Lambda: expected None for the first S >= 2 layers and matrices for all others")
    for l in range(L):
        width = d if l == 0 else m
        checks.tensor(f"V[{l}]", V[l], (m, width), "(m, d)" if l == 0 else "(m, m)", w[0])
        for name, vectors in (("w", w), ("b", b), ("c", c)):
            checks.tensor(f"{name}[{l}]", vectors[l], (m,), "(m,)", w[0])
        if (matrix := Lambda[l]) is not None:
            checks.tensor(f"Lambda[{l}]", matrix, (m, d if l == S else m), "(m, width of the skipped layer)", w[0])
    if not (_autocast(input.device) and input.is_floating_point() and input.device == w[0].device):
        checks.same_kind("input", input, w[0], "the parameters'")
    if lengths is not None:
        lengths = checks.indices("lengths", lengths, input.device)
        checks.tensor("lengths", lengths, (batch,), "(b,)")
    if mask is not None:
        checks.tensor("mask", mask, (L, batch, m), "(L, b, m)")
    if not w[0].is_floating_point():
        raise BadType(f"w: expected floating-point parameters, got {w[0].dtype}")

    alpha, backend = checks.not_negative("alpha", alpha), pick_backend(backend, input.device)
    full = low = torch.float32 if w[0].dtype in HALF else w[0].dtype
    if backend == "triton" and full == torch.float32:
        gpu.check_steps(checks.time_steps(dt, L), alpha)
        low = torch.get_autocast_dtype(input.device.type) if _autocast(input.device) else w[0].dtype
    return _Problem(
        input.to(low),
        torch.stack(list(w)).to(full),
        [matrix.to(low) for matrix in V],
        torch.stack(list(b)).to(full),
        time_steps(c, dt, torch.float64),
        [None if matrix is None else matrix.to(low) for matrix in Lambda],
        alpha,
        None if mask is None else mask.to(low),
        lengths,
        backend,
    )


def _autocast(device: torch.device) -> bool:
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def _start(state: Any, problem: _Problem) -> Tensor:
    """(2, L, b, m): the initial y and z, checked."""
    shape, like = problem.state_shape, problem.w
    if not isinstance(state, (tuple, list)) or len(state) != 2:
        raise BadType(f"state: expected a pair (y, z) of tensors of shape {shape}, got {type(state).__name__}")
    pair = [t.to(like.dtype) if isinstance(t, Tensor) and t.dtype in HALF else t for t in state]
    return torch.stack([checks.tensor(f"state[{i}]", t, shape, "(L, b, m)", like) for i, t in enumerate(pair)])


def unicornn(
    input: Tensor,
    w: Sequence[Tensor],
    V: Sequence[Tensor],
    b: Sequence[Tensor],
    c: Sequence[Tensor],
    Lambda: Sequence[Tensor | None] | None = None,
    *,
    dt: float | Sequence[float] = 0.1,
    alpha: float = 1.0,
    state: State | tuple[Tensor, Tensor] | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    output: str | Tensor = "all",
    mask: Tensor | None = None,
    backward: str = "invert",
    backend: str = "auto",
) -> tuple[Tensor, State]:
    """eq:ucrn, with eq:ucrn_res where there is a Λ: L layers over a batch of sequences.

    Args:
        input: (N, b, d).
        w, b, c: one (m,) per layer.
        V: one matrix per layer, (m, d) for the first and (m, m) for the others.
        Lambda: None, or per layer None for the first S and a matrix for the others, (m, d) for the first of them.
        dt: Δt > 0, a number or one per layer.
        alpha: α >= 0.
        state: initial (y, z), each (L, b, m); zero if None.
        lengths: (b,), the lengths of the sequences; what comes after is padding.
        output: "all", "last", or time steps, int64 (k,) or (k, b).
        mask: (L, b, m), multiplied with the output of each layer: variational dropout.
        backward: "invert" recomputes the states backwards from the last one; "store" keeps activations, which is
            faster and needs memory O(N b m L). The gradients are the same bit for bit.
        backend: "auto", "reference", "cpu" or "triton".

    Returns:
        The output, (N, b, m), (b, m) or (k, b, m), and the final ``State``, each of y and z (L, b, m).

    Example:
        >>> import torch
        >>> w, V, b, c = [torch.rand(4)], [torch.randn(4, 2)], [torch.zeros(4)], [torch.zeros(4)]
        >>> out, (y, z) = unicornn(torch.randn(50, 3, 2), w, V, b, c, dt=0.2, output="last")
        >>> out.shape, y.shape
        (torch.Size([3, 4]), torch.Size([1, 3, 4]))
    """
    p = _problem(input, w, V, b, c, Lambda, dt, alpha, mask, lengths, backend)
    checks.choice("backward", backward, BACKWARDS)
    every, steps = wanted(output, p.u)
    result = input.dtype if input.dtype == w[0].dtype and p.u.dtype not in HALF else p.u.dtype

    if p.backend == "reference":
        start = p.u.new_zeros((2, *p.state_shape)) if state is None else _start(state, p)
        if not torch.compiler.is_compiling():
            library.check_values(len(input), p.lengths, steps)
        outputs, y, z = reference.forward(
            p.u, start[0], start[1], p.w, p.V, p.b, p.a.to(p.w.dtype), p.Lambda, p.alpha, p.mask, p.lengths
        )
        final = State(y, z, mask=p.mask)
        if steps is not None:
            outputs = at_steps(outputs, steps)
    else:
        if state is None:
            start, rest = p.w.new_zeros((2, *p.state_shape)), None
            grid = start.long()
        else:
            start = _start(state, p)
            grid, rest = enter(state, start)
        inputs = (p.u, start, p.w, p.b, p.a, *p.V, *(Λ for Λ in p.Lambda if Λ is not None))
        train = torch.is_grad_enabled() and any(t.requires_grad for t in inputs)
        outputs, pair, grid, _, _ = library.forward(
            p.u, start, grid, rest, *p.weights, p.mask, p.lengths, steps, every, backward if train else "nothing",
            p.backend,
        )  # fmt: skip
        final = State(pair[0], pair[1], grid.detach(), rest, p.mask)
    if isinstance(output, str) and output == "last":
        outputs = final.y[-1] if p.mask is None else final.y[-1] * p.mask[-1]
    return outputs.to(result), final


def step(
    input: Tensor,
    w: Sequence[Tensor],
    V: Sequence[Tensor],
    b: Sequence[Tensor],
    c: Sequence[Tensor],
    Lambda: Sequence[Tensor | None] | None = None,
    *,
    dt: float | Sequence[float] = 0.1,
    alpha: float = 1.0,
    state: State | tuple[Tensor, Tensor] | None = None,
    mask: Tensor | None = None,
    backward: str = "invert",
    backend: str = "auto",
) -> tuple[Tensor, State]:
    """One time step, for streams: as ``unicornn`` with N = 1, input (b, d) and output (b, m), bit for bit.

    Fast where no gradient is wanted (``torch.no_grad()``) and ``state`` is None or what the last step returned.

    Example:
        >>> import torch
        >>> w, V, b, c = [torch.rand(4)], [torch.randn(4, 2)], [torch.zeros(4)], [torch.zeros(4)]
        >>> state = None
        >>> for u_n in torch.randn(50, 3, 2):
        ...     out, state = step(u_n, w, V, b, c, state=state)
        >>> out.shape
        torch.Size([3, 4])
    """
    fast = None if mask is not None else stream(input, w, V, b, c, Lambda, dt, alpha, state, backend)
    if fast is not None:
        return fast
    if not isinstance(input, Tensor) or input.dim() != 2:
        got = tuple(input.shape) if isinstance(input, Tensor) else type(input).__name__
        raise BadValue(f"input: expected a tensor of shape (b, d), got {got}")
    options: dict[str, Any] = {"dt": dt, "alpha": alpha, "state": state, "mask": mask}
    return unicornn(input[None], w, V, b, c, Lambda, output="last", backward=backward, backend=backend, **options)


def stream(
    u: Any, w: Any, V: Any, b: Any, c: Any, Lambda: Any, dt: Any, alpha: Any, state: Any, backend: str
) -> tuple[Tensor, State] | None:
    """A step without gradient on the fast path, or None where it does not apply; what is wrong, ``step`` will say."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return None
    first: Tensor = w[0]
    dtype = first.dtype
    if not isinstance(u, Tensor) or u.dim() != 2 or u.dtype != dtype or dtype not in UNIT:
        return None
    batch, d = u.shape
    if not (u.is_cpu and first.is_cpu and d == V[0].shape[1] and batch <= cpu.FEW and backend in ("auto", "cpu")):
        return None
    if not (isinstance(dt, tuple) and min(dt) > 0 and alpha >= 0):
        return None
    shape, rest = (len(w), batch, len(first)), None
    if state is None:
        y = z = first.new_zeros(shape)
        grid = torch.zeros((2, *shape), dtype=torch.int64)
    elif isinstance(state, State) and state.grid is not None and state[0].shape == shape == state[1].shape:
        (y, z), grid, rest = state, state.grid, state.rest
        if y.dtype != dtype or z.dtype != dtype or grid.shape != (2, *shape):
            return None
        if rest is not None:
            if not torch.equal(torch.stack([y, z]), value(grid, rest, dtype)):
                return None
            y, z = value(grid, None, dtype).unbind(0)
    else:
        return None
    Λ = Lambda if Lambda is not None else [None] * len(w)
    if not _fits(w, V, b, c, Λ, d, dtype) or not all(t.is_contiguous() and t.is_cpu for t in (u, y, z, grid)):
        return None
    after = cpu.step(u, y, z, grid, w, V, b, c, lambda: time_steps(c, dt, torch.float64), Λ, dt, alpha)
    if after is None:
        return None
    y, z, grid = after
    if rest is not None:
        y, z = value(grid, rest, dtype).unbind(0)
    return y[-1], State(y, z, grid, rest)


def _fits(w: Any, V: Any, b: Any, c: Any, Lambda: Any, d: int, dtype: torch.dtype) -> bool:
    """Whether a kernel may read all parameters at their addresses."""
    L, m = len(w), w[0].shape[0]
    if not len(V) == len(b) == len(c) == len(Lambda) == L:
        return False
    S = next((l for l, matrix in enumerate(Lambda) if matrix is not None), L)
    for l in range(L):
        shapes = [(w[l], (m,)), (b[l], (m,)), (c[l], (m,)), (V[l], (m, m if l else d))]
        if l >= S:
            shapes.append((Lambda[l], (m, d if l == S else m)))
        for t, shape in shapes:
            if t is None or t.shape != shape or t.dtype != dtype or not (t.is_cpu and t.is_contiguous()):
                return False
    return S >= 2 or S == L


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
    state: State | tuple[Tensor, Tensor],
    w: Sequence[Tensor],
    V: Sequence[Tensor],
    b: Sequence[Tensor],
    c: Sequence[Tensor],
    Lambda: Sequence[Tensor | None] | None = None,
    *,
    dt: float | Sequence[float] = 0.1,
    alpha: float = 1.0,
    lengths: Tensor | Sequence[int] | None = None,
    mask: Tensor | None = None,
    backend: str = "auto",
) -> State:
    """eq:inv_ucrn: from the final state of ``unicornn(input, …)`` back to the initial one, bit for bit.

    Arguments as for ``unicornn``; ``state`` must be the ``State`` it returned for the result to be exact, and ``mask``
    the one it was given. Not differentiable, except with backend="reference", which is exact up to rounding only.

    Example:
        >>> import torch
        >>> w, V, b, c = [torch.rand(4)], [torch.randn(4, 2)], [torch.zeros(4)], [torch.zeros(4)]
        >>> u, start = torch.randn(1000, 3, 2), (torch.randn(1, 3, 4), torch.randn(1, 3, 4))
        >>> _, final = unicornn(u, w, V, b, c, state=start)
        >>> y0, z0 = inverse(u, final, w, V, b, c)
        >>> bool((y0 == start[0]).all() and (z0 == start[1]).all())
        True
    """
    p = _problem(input, w, V, b, c, Lambda, dt, alpha, mask, lengths, backend)
    last = _start(state, p)
    if p.backend == "reference":
        a = p.a.to(p.w.dtype)
        y, z = reference.inverse(p.u, last[0], last[1], p.w, p.V, p.b, a, p.Lambda, p.alpha, p.mask, p.lengths)
        return State(y, z, mask=p.mask)
    grid, rest = enter(state, last)
    with torch.no_grad():
        grid = library.inverse(p.u, grid, *p.weights, p.mask, p.lengths, p.backend)
        pair = value(grid, rest, p.w.dtype)
    return State(pair[0], pair[1], grid, rest, p.mask)


__all__ = ["inverse", "pick_backend", "step", "time_steps", "unicornn"]
