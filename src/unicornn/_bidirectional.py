"""Bidirectional layers as in nn.LSTM: the functions of ``functional`` for both directions in time.

Every layer has two sets of neurons, one of which reads its input from the end. Their outputs are concatenated as the
input of the next layer. Weights, states and masks have 2L entries, forward direction first; the layer has checked them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from unicornn import functional
from unicornn._ops.problem import at_steps, check_values, selected_steps
from unicornn._state import State
from unicornn._weights import Weights

DIRECTIONS = 2


def flip(sequence: Tensor, lengths: Tensor | None) -> Tensor:
    """Each sequence of (N, b, ·) reversed; padding stays in place."""
    if lengths is None:
        return sequence.flip(0)
    n = torch.arange(len(sequence), device=sequence.device)[:, None]
    index = torch.where(n < lengths, lengths - 1 - n, n)
    return sequence.gather(0, index[:, :, None].expand_as(sequence))


def layer_by_layer(
    input: Tensor, weights: Weights, lengths: Tensor | None, run: Callable[..., Tensor], directions: int = 1
) -> Tensor:
    """The top output of layers that run one after the other.

    ``run(i, source, one)`` returns the output of layer and direction i from its input and its weights. A residual
    connection is a wider input: V y + Λ y' = [V Λ] (y, y').
    """
    w, V, b, c, Lambda = weights
    S = weights.S // directions
    below = [input]
    for l in range(len(w) // directions):
        outputs: list[Tensor] = []
        for i in range(directions * l, directions * (l + 1)):
            Λ, reverse = None if Lambda is None else Lambda[i], i % directions == 1
            source = below[l] if Λ is None else torch.cat([below[l], below[l - S]], 2)
            matrix = V[i] if Λ is None else torch.cat([V[i], Λ], 1)
            out = run(i, flip(source, lengths) if reverse else source, Weights([w[i]], [matrix], [b[i]], [c[i]]))
            outputs.append(flip(out, lengths) if reverse else out)
        below.append(outputs[0] if directions == 1 else torch.cat(outputs, 2))
    return below[-1]


def _state_of(state: Any, i: int) -> Any:
    """The state of layer and direction i."""
    if isinstance(state, State):
        return state.map(lambda t: t[..., i : i + 1, :, :])
    return tuple(t[i : i + 1] for t in state)


def _join(states: Sequence[State], mask: Tensor | None) -> State:
    def join(tensors: Sequence[Tensor | None]) -> Tensor | None:
        there = [t for t in tensors if t is not None]
        return torch.cat(there, -3) if there else None

    y, z = (torch.cat(t, -3) for t in zip(*states, strict=True))
    return State(y, z, grid=join([s.grid for s in states]), rest=join([s.rest for s in states]), mask=mask)


def unicornn(
    input: Tensor,
    weights: Weights,
    *,
    dt: Sequence[float],
    state: State | tuple[Tensor, Tensor] | None = None,
    lengths: Tensor | None = None,
    output: str | Tensor = "all",
    mask: Tensor | None = None,
    horizon: Sequence[float] | None = None,
    **options: Any,
) -> tuple[Tensor, State]:
    """As ``functional.unicornn``, with 2L of everything and an output of width 2m. Always stores activations.

    options: alpha and backend.
    """
    every, steps = selected_steps(output, input)
    if not (torch.compiler.is_compiling() or input.is_meta):
        check_values(len(input), lengths, steps)
    finals = []

    def run(i: int, source: Tensor, one: Weights) -> Tensor:
        out, final = functional.unicornn(
            source, one, dt=dt[i], lengths=lengths, state=None if state is None else _state_of(state, i),
            mask=None if mask is None else mask[i : i + 1], horizon=None if horizon is None else horizon[i],
            gradient="stored", **options,
        )  # fmt: skip
        finals.append(final)
        return out

    outputs = layer_by_layer(input, weights, lengths, run, DIRECTIONS)
    final = _join(finals, mask)
    if steps is not None:
        return at_steps(outputs, steps), final
    if every:
        return outputs, final
    ends = final.y[-2:] if mask is None else final.y[-2:] * mask[-2:]
    return torch.cat([ends[0], ends[1]], 1).to(outputs.dtype), final


def inverse(
    input: Tensor,
    weights: Weights,
    state: State | tuple[Tensor, Tensor],
    *,
    dt: Sequence[float],
    lengths: Tensor | None = None,
    mask: Tensor | None = None,
    **options: Any,
) -> State:
    """As ``functional.inverse``, with memory O(N b m): each layer is inverted, then run to compute the input of the
    next.

    options: alpha and backend.
    """
    if not torch.compiler.is_compiling():
        check_values(len(input), lengths, None)
    starts = []

    def run(i: int, source: Tensor, one: Weights) -> Tensor:
        own = {"dt": dt[i], "lengths": lengths, "mask": None if mask is None else mask[i : i + 1], **options}
        starts.append(functional.inverse(source, one, _state_of(state, i), **own))
        return functional.unicornn(source, one, state=starts[-1], **own)[0]

    with torch.no_grad():
        layer_by_layer(input, weights, lengths, run, DIRECTIONS)
    return _join(starts, mask)
