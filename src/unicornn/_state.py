"""The state of a stack: a pair (y, z) that also carries the low-order bits that a pair of floats cannot hold.

Each half-step of Eq. (6) adds to one variable a function of the other. Increments are rounded to a fixed grid before
they are added. This makes the additions exact, so a step can be undone bit for bit at any length. The grid is finer
than float32 (float64), so a returned state also stores its exact position on the grid.
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
"""States of at least this size are outside the grid."""

UNIT = {torch.float32: 2.0**-36, torch.float64: 2.0**-45}
"""Spacing of the grid for each dtype of the layer."""

GONE = -(2**63)
"""Sentinel for NaN and out-of-range values on the grid."""


class State(tuple[Tensor, ...]):
    """The hidden state of a recurrent layer: a tuple of tensors, for ``UnICORNN`` y and z, each (L, b, m).

    Passing it to the layer, to ``step`` or to ``inverse`` continues exactly from this point, with the dropout mask of
    the sequence. A plain tuple of tensors is also accepted: it is rounded to the grid, and a new mask is drawn. If
    ``y`` or ``z`` are changed in place, the new values are used. The baselines return such states too, without a grid.

    Attributes:
        grid: y and z in grid units, (2, L, b, m) in int64, or None (reference back-end, baselines).
        rest: Remainder of rounding the initial state to the grid, (2, L, b, m) in float64, or None.
        mask: Variational dropout mask of the sequence, (L, b, m), or None.

    Example:
        >>> import torch, unicornn
        >>> layer = unicornn.UnICORNN(3, 8, num_layers=2)
        >>> u = torch.randn(100, 5, 3)
        >>> _, state = layer(u[:60])
        >>> y, z = state
        >>> _, state = layer(u[60:], state)  # continues without losing a bit
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
        """Applies ``f`` to every tensor. Count dimensions from the end: ``grid`` has one more at the front."""
        return State(*map(f, self), **{name: None if t is None else f(t) for name, t in self._others.items()})

    def detach(self) -> State:
        """The same state, detached from the graph: for truncated back-propagation."""
        return self.map(torch.Tensor.detach)

    def to(self, device: torch.device | str) -> State:
        """The same state on another device."""
        target = checks.existing_device("device", device)
        return self.map(lambda t: t.to(target))

    @property
    def _others(self) -> dict[str, Tensor | None]:
        return {"grid": self.grid, "rest": self.rest, "mask": self.mask}

    def __reduce__(self) -> tuple[Any, ...]:
        return State, tuple(self), self._others

    def __repr__(self) -> str:
        return f"State({', '.join(map(repr, self))})"


State.__module__ = "unicornn"  # the import path in saved states
torch.serialization.add_safe_globals([State])  # safe for torch.load: it runs no code and holds only tensors


def _parts(state: State) -> tuple[dict[Any, Tensor], str]:
    """The tensors by pytree key, and the context: the length of the tuple and the names of the other tensors."""
    others = {name: t for name, t in state._others.items() if t is not None}
    keyed: dict[Any, Tensor] = {pytree.SequenceKey(i): t for i, t in enumerate(state)}
    return keyed | {pytree.GetAttrKey(name): t for name, t in others.items()}, " ".join([str(len(state)), *others])


def _from_parts(leaves: Any, context: str) -> State:
    count, *names = context.split()
    leaves = list(leaves)
    return State(*leaves[: int(count)], **dict(zip(names, leaves[int(count) :], strict=True)))


pytree.register_pytree_node(
    State,
    lambda state: (list(_parts(state)[0].values()), _parts(state)[1]),
    _from_parts,
    serialized_type_name="unicornn.State",
    flatten_with_keys_fn=lambda state: (list(_parts(state)[0].items()), _parts(state)[1]),
)


def value(grid: Tensor, rest: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The state in ``dtype``, from integral grid units (of any numeric type) and the rest."""
    exact = grid.double() * UNIT[dtype]
    if grid.dtype == torch.int64:
        exact = exact.masked_fill(grid == GONE, math.nan)
    return (exact if rest is None else exact + rest).to(dtype)


def to_grid(start: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest grid point in units and the rest, from which ``value`` recovers ``start`` bit for bit."""
    exact, unit = start.detach().double(), UNIT[start.dtype]
    units = (exact / unit).round()
    return units.long(), exact - units * unit


def enter(state: Any, start: Tensor) -> tuple[Tensor, Tensor | None]:
    """Grid and rest with which to continue from ``start`` = stack(state)."""
    if not isinstance(state, State) or state.grid is None:
        return to_grid(start)
    checks.tensor("state.grid", state.grid, tuple(start.shape), "(2, L, b, m)")
    if state.grid.dtype != torch.int64:
        raise BadType(f"state.grid: expected int64, got {state.grid.dtype}")
    if state.rest is not None:
        checks.tensor("state.rest", state.rest, tuple(start.shape), "(2, L, b, m)")
    # Values changed by the caller are rounded to the grid; unchanged ones keep their low-order bits.
    same = value(state.grid, state.rest, start.dtype) == start
    units, rest = to_grid(start)
    old_rest = torch.zeros_like(rest) if state.rest is None else state.rest
    return torch.where(same, state.grid, units), torch.where(same, old_rest, rest)
