"""What the tasks with real data share: rows of a Split, and the statistics by which inputs are standardised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unicornn.lab.tasks._base import Batch, Split, Splits


@dataclass(frozen=True)
class Over:
    """What a Split that shows all sequences of another one in its own way has from it.

    Args:
        whole: the other one.

    Example:
        >>> import torch
        >>> from unicornn.lab.tasks import Sequences
        >>> from unicornn.lab.tasks._rows import Over
        >>> len(Over(Sequences(torch.zeros(10, 100, 3), torch.arange(10))))
        10
    """

    whole: Split

    def __len__(self) -> int:
        return len(self.whole)

    @property
    def target(self) -> Tensor:
        """(n,), where the whole has it."""
        target: Tensor = self.whole.target  # type: ignore[attr-defined]
        return target


@dataclass(frozen=True)
class Rows:
    """A Split that has some of the sequences of a larger one, without a copy.

    Args:
        whole: the larger one.
        rows: (n,), their indices in it.

    Example:
        >>> import numpy as np, torch
        >>> from unicornn.lab.tasks import Sequences
        >>> from unicornn.lab.tasks._rows import Rows
        >>> everything = Sequences(torch.zeros(10, 100, 3), torch.arange(10))
        >>> Rows(everything, np.array([2, 5, 7])).batch(torch.tensor([0, 2]), draw=0).target
        tensor([2, 7])
    """

    whole: Split
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def sizes(self) -> Tensor | None:
        """How long each sequence is, (n,), if the whole says so."""
        sizes: Tensor | None = getattr(self.whole, "sizes", None)
        return None if sizes is None else sizes[torch.from_numpy(self.rows)]

    @property
    def target(self) -> Tensor:
        """(n,), where the whole has it."""
        target: Tensor = self.whole.target[torch.from_numpy(self.rows)]  # type: ignore[attr-defined]
        return target

    def batch(self, indices: Tensor, draw: int) -> Batch:
        return self.whole.batch(torch.from_numpy(self.rows[indices.numpy()]), draw)


def splits(whole: Split, rows: Sequence[np.ndarray], embedding: Tensor | None = None) -> Splits:
    """Training, validation and test set, each some rows of one Split."""
    train, valid, test = (Rows(whole, r) for r in rows)
    return Splits(train, valid, test, embedding)


class Moments(NamedTuple):
    """Mean and mean square of every sequence, (n, d) each, in float64."""

    first: np.ndarray
    second: np.ndarray

    @classmethod
    def of(cls, u: Sequence[np.ndarray] | np.ndarray) -> Moments:
        """Of sequences (N, d)."""
        first = [np.mean(x, axis=0, dtype=np.float64) for x in u]
        second = [np.mean(np.square(x, dtype=np.float64), axis=0) for x in u]
        return cls(np.stack(first), np.stack(second))

    def over(self, rows: np.ndarray, lengths: np.ndarray | None = None) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (d,) over all steps of these sequences; 1 for a channel that never changes."""
        weights = None if lengths is None else lengths[rows]
        mean = np.average(self.first[rows], axis=0, weights=weights)
        variance = np.average(self.second[rows], axis=0, weights=weights) - mean**2
        deviation = np.sqrt(np.where(variance > 1e-12 * (1 + mean**2), variance, 1.0))
        return torch.from_numpy(mean).float(), torch.from_numpy(deviation).float()
