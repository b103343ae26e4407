"""The arguments of the ops by name, and the checks that need their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue


class Problem(NamedTuple):
    """A stack of L layers and the sequences it runs over: the arguments of every op, in the order of the schema.

    ``op`` derives the schema from the annotations. w, b, a and the states have full precision; u, V, Lambda and mask
    may have half precision where the back-end supports it.
    """

    u: Tensor  # input (N, b, d)
    start: Tensor  # state (y, z) at the start of the pass, (2, L, b, m); gradients flow through it
    grid: Tensor  # the same state in grid units, int64
    rest: Tensor | None  # rounding error of the initial state, float64
    w: Tensor  # (L, m)
    V: Sequence[Tensor]  # one matrix per layer, (m, d), then (m, m)
    b: Tensor  # (L, m)
    a: Tensor  # effective time steps (L, m), float64
    Lambda: Sequence[Tensor]  # matrices of the last L - S layers, Suppl. Eq. (75)
    alpha: float
    mask: Tensor | None  # variational dropout (L, b, m)
    lengths: Tensor | None  # (b,)
    steps: Tensor | None  # time steps whose output is selected, (k, b)
    every: bool  # whether the output of every step is wanted
    keep: str  # what the backward pass will need: "nothing", "reversible" or "stored"
    horizon: Sequence[float] | None  # one per layer
    backend: str

    @property
    def S(self) -> int:
        """Number of layers that a residual connection skips; L without residual connections."""
        return len(self.V) - len(self.Lambda)

    @property
    def output_rows(self) -> int:
        """Length of the output's first dimension."""
        return self.u.shape[0] if self.every else (0 if self.steps is None else len(self.steps))


class Gradients(NamedTuple):
    """Gradients of a ``Problem``, as the backward op returns them. u is empty if its gradient is not needed."""

    u: Tensor
    start: Tensor
    w: Tensor
    V: list[Tensor]
    b: Tensor
    a: Tensor
    Lambda: list[Tensor]


def check_values(N: int, lengths: Tensor | None, steps: Tensor | None) -> None:
    """Checks lengths and output steps by value, which is possible only while the op runs, not while it is traced."""
    if lengths is not None and not bool(((lengths >= 1) & (lengths <= N)).all()):
        raise BadValue(f"lengths: expected numbers from 1 to N={N}, got {lengths.tolist()}")
    if steps is not None:
        inside = (steps >= 0) & (steps < (N if lengths is None else lengths))
        if not bool(inside.all()):
            bad = sorted(set(steps[~inside].tolist()))[:5]
            raise BadValue(
                f"output: expected time steps from 0 to the sequence's length - 1 (N={N}), got {bad} among them"
            )


def at_steps(outputs: Tensor, steps: Tensor) -> Tensor:
    """(k, b, ·) of outputs (N, b, ·)."""
    return outputs.gather(0, steps[:, :, None].expand(-1, -1, outputs.shape[2]))


def selected_steps(output: Any, input: Tensor) -> tuple[bool, Tensor | None]:
    """Whether ``output`` asks for every step; if not, the selected steps (k, b), or None for the last one."""
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
