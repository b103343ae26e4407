"""What Eq. (6) and Suppl. Eq. (75) have in them, in the order in which the ops' schemas have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor


class Coefficients(NamedTuple):
    """w, b (L, m); a (L, m), the effective time steps; V[l] (m, d or m); Lambda: the matrices of the last L - S layers,
    which skip S layers; α. Unpacked (``*coefficients``), they are the arguments of an op."""

    w: Tensor
    V: Sequence[Tensor]
    b: Tensor
    a: Tensor
    Lambda: Sequence[Tensor]
    alpha: float

    @property
    def S(self) -> int:
        return len(self.V) - len(self.Lambda)
