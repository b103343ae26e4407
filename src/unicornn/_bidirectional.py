"""Both directions in time, as nn.LSTM means ``bidirectional``: functions with the signatures of ``functional``'s.

Every layer has two sets of neurons, one of which reads its input from the end; their outputs, side by side, are the
input of the next layer. Parameters, states and masks come as 2L, forwards first.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn import functional
from unicornn._ops import torch_ops as library
from unicornn._state import State
from unicornn.errors import BadType


def flip(sequence: Tensor, lengths: Tensor | None) -> Tensor:
    """Each sequence of (N, b, ·) from its end; padding stays where it is."""
    if lengths is None:
        return sequence.flip(0)
    n = torch.arange(len(sequence), device=sequence.device)[:, None]
    index = torch.where(n < lengths, lengths - 1 - n, n)
    return sequence.gather(0, index[:, :, None].expand_as(sequence))


def _single(
    u: Tensor, V: Sequence[Tensor], Lambda: Sequence[Tensor | None] | None, lengths: Tensor | None
) -> Generator[Any, Tensor, None]:
    """Yields, per layer and direction, its number, its input and its matrix, and wants its output sent back.

    A residual connection is a wider input: V y + Λ y' is [V Λ] applied to (y, y').
    """
    D, L = 2, len(V) // 2
    Lambda = [None] * len(V) if Lambda is None else Lambda
    S = next((l for l in range(L) if Lambda[D * l] is not None), L)
    below = [u]
    for l in range(L):
        outputs: list[Tensor] = []
        for i in (D * l, D * l + 1):
            Λ = Lambda[i]
            source = below[l] if Λ is None else torch.cat([below[l], below[l - S]], 2)
            matrix = V[i] if Λ is None else torch.cat([V[i], Λ], 1)
            out = yield i, source if i % D == 0 else flip(source, lengths), matrix
            outputs.append(out if i % D == 0 else flip(out, lengths))
        below.append(torch.cat(outputs, 2))
    yield below[-1]


def _part(state: Any, i: int) -> Any:
    """The state of layer and direction i."""
    if isinstance(state, State):
        return state.map(lambda t: t[..., i : i + 1, :, :])
    return tuple(t[i : i + 1] for t in state)


def _join(parts: Sequence[State], mask: Tensor | None) -> State:
    def join(tensors: Sequence[Tensor | None]) -> Tensor | None:
        there = [t for t in tensors if t is not None]
        return torch.cat(there, -3) if there else None

    y, z, grid, rest, _ = (join(t) for t in zip(*(p.__getnewargs__() for p in parts), strict=True))
    assert y is not None
    assert z is not None
    return State(y, z, grid, rest, mask)


def _checked(input: Tensor, state: Any, w: Sequence[Tensor], lengths: Any) -> Tensor | None:
    if state is not None:
        shape = (len(w), input.shape[1], len(w[0]))
        if not isinstance(state, (tuple, list)) or len(state) != 2:
            raise BadType(f"state: expected a pair (y, z) of tensors of shape {shape}, got {type(state).__name__}")
        for k, t in enumerate(state):
            checks.tensor(f"state[{k}]", t, shape, "(2 L, b, m)")
    if lengths is None:
        return None
    lengths = checks.indices("lengths", lengths, input.device)
    checks.tensor("lengths", lengths, (input.shape[1],), "(b,)")
    if not torch.compiler.is_compiling():
        library.check_values(len(input), lengths, None)
    return lengths


def unicornn(
    input: Tensor,
    w: Sequence[Tensor],
    V: Sequence[Tensor],
    b: Sequence[Tensor],
    c: Sequence[Tensor],
    Lambda: Sequence[Tensor | None] | None = None,
    *,
    dt: Sequence[float],
    alpha: float = 1.0,
    state: State | tuple[Tensor, Tensor] | None = None,
    lengths: Any = None,
    output: str | Tensor = "all",
    mask: Tensor | None = None,
    backward: str = "store",
    backend: str = "auto",
) -> tuple[Tensor, State]:
    """As ``functional.unicornn``, with 2L of everything and an output of width 2m. Always stores activations."""
    lengths = _checked(input, state, w, lengths)
    every, steps = functional.wanted(output, input)
    if steps is not None and not torch.compiler.is_compiling():
        library.check_values(len(input), lengths, steps)
    layers, finals = _single(input, V, Lambda, lengths), []
    at: Any = next(layers)
    while isinstance(at, tuple):
        i, source, matrix = at
        out, final = functional.unicornn(
            source, [w[i]], [matrix], [b[i]], [c[i]], dt=dt[i], alpha=alpha, lengths=lengths,
            state=None if state is None else _part(state, i), mask=None if mask is None else mask[i : i + 1],
            backward="store", backend=backend,
        )  # fmt: skip
        finals.append(final)
        at = layers.send(out)
    final = _join(finals, mask)
    if steps is not None:
        return functional.at_steps(at, steps), final
    if every:
        return at, final
    ends = final.y[-2:] if mask is None else final.y[-2:] * mask[-2:]
    return torch.cat([ends[0], ends[1]], 1), final


def inverse(
    input: Tensor,
    state: State | tuple[Tensor, Tensor],
    w: Sequence[Tensor],
    V: Sequence[Tensor],
    b: Sequence[Tensor],
    c: Sequence[Tensor],
    Lambda: Sequence[Tensor | None] | None = None,
    *,
    dt: Sequence[float],
    alpha: float = 1.0,
    lengths: Any = None,
    mask: Tensor | None = None,
    backend: str = "auto",
) -> State:
    """As ``functional.inverse``, with memory O(N b m): each layer is inverted, then run to feed the next."""
    lengths = _checked(input, state, w, lengths)
    layers, starts = _single(input, V, Lambda, lengths), []
    at: Any = next(layers)
    with torch.no_grad():
        while isinstance(at, tuple):
            i, source, matrix = at
            options: dict[str, Any] = {"dt": dt[i], "alpha": alpha, "lengths": lengths, "backend": backend}
            options["mask"] = None if mask is None else mask[i : i + 1]
            weights = [w[i]], [matrix], [b[i]], [c[i]]
            start = functional.inverse(source, _part(state, i), *weights, **options)
            out, _ = functional.unicornn(source, *weights, state=start, **options)
            starts.append(start)
            at = layers.send(out)
    return _join(starts, mask)
