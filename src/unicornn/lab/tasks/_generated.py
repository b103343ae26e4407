"""Sequences that are made when they are asked for, of any length: nothing to download, nothing to keep.

In training they are new in every epoch, so that no sequence is seen twice; those of validation and test are always the
same, whatever the seed. ``stages`` lengthens them: what is learned on short sequences first is a start for long ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn.errors import BadType
from unicornn.lab.tasks._base import Batch, Splits

Make = Callable[[np.random.Generator, np.ndarray], float]

OPTIONS: dict[str, Sequence[Any]] = {
    "N": (1000,), "sequences": (1000,), "held_out": (200,), "stages": ((),), "stage_epochs": (1,),
}  # fmt: skip
ABOUT = (
    "Generated: in training `sequences` new ones in every epoch; in validation and test `held_out` each, the same for "
    "all seeds and always of the whole length N. With stages=1000,10000 the sequences of the first stage_epochs epochs "
    "have 1,000 steps, those of as many more 10,000, and then N."
)


@dataclass(frozen=True)
class Generated:
    """A Split whose sequences are made by a function from a generator of random numbers.

    Args:
        make: called with the generator and zeros (N, d), which it fills; returns the target, which must depend on its
            first random numbers only, not on N.
        n: how many.
        d: their features.
        least: the smallest N that ``make`` can fill.
        lengths: of every epoch of training; the last one is N, also that of later epochs, of validation and of test.
        seed: of these sequences; two splits with different seeds have nothing in common.
        dtype: of the target.

    Example:
        >>> import torch
        >>> from unicornn.lab.tasks._generated import Generated
        >>> def ramp(random, u):
        ...     slope = random.random()
        ...     u[:, 0] = slope * np.arange(len(u))
        ...     return slope
        >>> split = Generated(ramp, n=10, d=1, least=1, lengths=(50, 200), seed=(0,), dtype=torch.float32)
        >>> split.batch(torch.tensor([3, 4]), draw=0).u.shape, split.batch(torch.tensor([3, 4]), draw=1).u.shape
        (torch.Size([50, 2, 1]), torch.Size([200, 2, 1]))
    """

    make: Make
    n: int
    d: int
    least: int
    lengths: tuple[int, ...]
    seed: tuple[int, ...]
    dtype: torch.dtype

    def __len__(self) -> int:
        return self.n

    @property
    def target(self) -> Tensor:
        """(n,), of all sequences with draw -1, which are not made for it."""
        u = np.zeros((self.least, self.d), np.float32)
        targets = [self.make(self._random(index, -1), u) for index in range(self.n)]
        return torch.tensor(targets, dtype=self.dtype)

    def batch(self, indices: Tensor, draw: int) -> Batch:
        N = self.lengths[-1] if draw < 0 else self.lengths[min(draw, len(self.lengths) - 1)]
        u = np.zeros((N, len(indices), self.d), np.float32)  # time first, as the layer has it: no copy
        targets = [self.make(self._random(index, draw), u[:, i]) for i, index in enumerate(indices.tolist())]
        return Batch(torch.from_numpy(u), torch.tensor(targets, dtype=self.dtype))

    def _random(self, index: int, draw: int) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64((*self.seed, draw + 1, index)))


def generated(make: Make, options: Mapping[str, Any], seed: int, *, d: int, least: int, dtype: torch.dtype) -> Splits:
    """Training, validation and test of a task with these ``OPTIONS``; ``least`` is the shortest length possible."""
    N, n, held_out = (
        checks.integer(name, options[name], low) for name, low in (("N", least), ("sequences", 1), ("held_out", 1))
    )
    stages = _stages(options["stages"], least)
    each = checks.integer("stage_epochs", options["stage_epochs"], 1)
    lengths = (*(stage for stage in stages for _ in range(each)), N)
    return Splits(
        Generated(make, n, d, least, lengths, (0, seed), dtype),
        Generated(make, held_out, d, least, (N,), (1,), dtype),
        Generated(make, held_out, d, least, (N,), (2,), dtype),
    )


def _stages(value: Any, least: int) -> list[int]:
    """Of one number or several, as they come from the command line or from config.json."""
    several = value if isinstance(value, (tuple, list)) else [value]
    try:
        whole = [int(stage) if stage == int(stage) else stage for stage in several]
    except (TypeError, ValueError, OverflowError):
        raise BadType(f"stages: expected lengths such as 1000,10000, got {value!r}") from None
    return [checks.integer("stages", stage, least) for stage in whole]
