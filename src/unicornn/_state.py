"""The state of a stack: a pair (y, z) that also carries the bits a pair of floats cannot hold.

Each half-step of Eq. (6) adds to one variable a function of the other. Increments are rounded to a fixed grid before
they are added, which makes the additions exact and the step undoable bit for bit, at any length. The grid is finer
than float32 (float64), so what the layer hands out remembers where on the grid it stood.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn._torch_internals import pytree
from unicornn.errors import BadType

RANGE = 2.0**17
"""States of this size or more are beyond the grid."""

UNIT = {torch.float32: 2.0**-36, torch.float64: 2.0**-45}
"""Spacing of the grid, by the dtype of the layer."""


GONE = -(2**63)
"""What a number that is none becomes on the grid."""


class State(tuple[Tensor, ...]):
    """The hidden states of recurrent layers, as they return and take them: for ``UnICORNN`` y and z, each (L, b, m).

    It unpacks and indexes as the tuple it is. Handing it back to the layer, to ``step`` or to ``inverse`` goes on
    exactly where it was taken; so does the dropout mask of the sequence. A plain tuple of tensors will do too: it is
    then rounded to the grid, and a new mask is drawn. Changing ``y`` or ``z`` in place is seen, and what they now hold
    is used. The baselines' states are of this kind as well, with tensors of their own and without a grid.

    Attributes:
        grid: (2, L, b, m) int64, y and z in grid units, or None (reference back-end, baselines).
        rest: (2, L, b, m) float64, what rounding the initial state to the grid cut off, or None.
        mask: (L, b, m), the variational dropout mask of the run that led here, or None.

    Example:
        >>> import torch, unicornn
        >>> layer = unicornn.UnICORNN(3, 8, num_layers=2)
        >>> u = torch.randn(100, 5, 3)
        >>> _, state = layer(u[:60])
        >>> y, z = state
        >>> _, state = layer(u[60:], state)  # goes on without losing a bit
        >>> state.y.shape
        torch.Size([2, 5, 8])
    """

    grid: Tensor | None
    rest: Tensor | None
    mask: Tensor | None

    def __new__(
        cls, *tensors: Tensor, grid: Tensor | None = None, rest: Tensor | None = None, mask: Tensor | None = None
    ) -> State:
        self = tuple.__new__(cls, tensors)
        self.grid, self.rest, self.mask = grid, rest, mask
        return self

    @property
    def y(self) -> Tensor:
        return self[0]

    @property
    def z(self) -> Tensor:
        return self[1]

    def map(self, f: Callable[[Tensor], Tensor]) -> State:
        """``f`` applied to every tensor of the state. Count dimensions from the end: ``grid`` has one more in front."""
        return State(*map(f, self), **{name: None if t is None else f(t) for name, t in self._others.items()})

    def detach(self) -> State:
        """The same state, cut off from the graph: for truncated back-propagation."""
        return self.map(torch.Tensor.detach)

    def to(self, device: torch.device | str) -> State:
        """The same state on another device."""
        place = checks.existing_device("device", device)
        return self.map(lambda t: t.to(place))

    @property
    def _others(self) -> dict[str, Tensor | None]:
        return {name: getattr(self, name) for name in _OTHERS}

    def __reduce__(self) -> tuple[Any, ...]:
        return State, tuple(self), self._others

    def __repr__(self) -> str:
        return f"State({', '.join(map(repr, self))})"


_OTHERS = ("grid", "rest", "mask")
State.__module__ = "unicornn"  # saved states say where to find it
torch.serialization.add_safe_globals([State])  # torch.load trusts it: it runs no code and holds tensors only


def _named(state: State) -> list[tuple[Any, Tensor]]:
    there = [(pytree.GetAttrKey(name), t) for name, t in state._others.items() if t is not None]
    return [*((pytree.SequenceKey(i), t) for i, t in enumerate(state)), *there]


def _kind(state: State) -> str:
    """How many tensors there are, and which of the others."""
    return " ".join([str(len(state)), *(name for name, t in state._others.items() if t is not None)])


def _rebuilt(leaves: Any, kind: str) -> State:
    count, *names = kind.split()
    leaves = list(leaves)
    return State(*leaves[: int(count)], **dict(zip(names, leaves[int(count) :], strict=True)))


pytree.register_pytree_node(
    State,
    lambda s: ([t for _, t in _named(s)], _kind(s)),
    _rebuilt,
    serialized_type_name="unicornn.State",
    flatten_with_keys_fn=lambda s: (_named(s), _kind(s)),
)


def value(grid: Tensor, rest: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The state in ``dtype``, from whole grid units (of any numeric type) and the rest."""
    exact = grid.double() * UNIT[dtype]
    if grid.dtype == torch.int64:
        exact = exact.masked_fill(grid == GONE, math.nan)
    return (exact if rest is None else exact + rest).to(dtype)


def to_grid(start: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest point of the grid, in units, and the rest, so that ``value`` gives ``start`` back bit for bit."""
    exact, unit = start.detach().double(), UNIT[start.dtype]
    units = (exact / unit).round()
    return units.long(), exact - units * unit


def enter(state: Any, start: Tensor) -> tuple[Tensor, Tensor | None]:
    """Grid and rest with which to go on from ``start`` = stack(state)."""
    if not isinstance(state, State) or state.grid is None:
        return to_grid(start)
    checks.tensor("state.grid", state.grid, tuple(start.shape), "(2, L, b, m)")
    if state.grid.dtype != torch.int64:
        raise BadType(f"state.grid: expected int64, got {state.grid.dtype}")
    if state.rest is not None:
        checks.tensor("state.rest", state.rest, tuple(start.shape), "(2, L, b, m)")
    # What the caller changed counts as it now is; what was left alone keeps its low-order bits.
    same = value(state.grid, state.rest, start.dtype) == start
    units, rest = to_grid(start)
    kept = torch.zeros_like(rest) if state.rest is None else state.rest
    return torch.where(same, state.grid, units), torch.where(same, kept, rest)
