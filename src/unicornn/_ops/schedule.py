"""Chunks of time, the order of sequences, and the selected outputs: what both drivers decide before a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unicornn._ops.problem import Problem

Array = np.ndarray[Any, Any]


class Limits(NamedTuple):
    """Upper limits of a chunk: elements of a layer (K·b·m) and time steps. K is a multiple of ``multiple``."""

    elements: int
    steps: int
    multiple: int = 1

    def chunk_length(self, N: int, b: int, m: int) -> int:
        """K, from the sizes alone: the order of every sum must be the same in each pass."""
        K = self.elements // (b * m) // self.multiple * self.multiple
        return max(1, min(max(K, self.multiple), self.steps, N))


@dataclass(frozen=True)
class Schedule:
    """How some sequences of a batch are run. Sorted by falling length, those still running at a step come first.

    order: indices of the sequences in the batch, by falling length. lengths: in that order. K: steps of a chunk.
    end: length of the longest sequence. steps: selected time steps, ascending; places: their positions in the
    flattened selection (k, b) of these sequences, columns in the order of ``order``.
    """

    order: Array
    lengths: Array
    K: int
    end: int
    steps: Array
    places: Array

    @classmethod
    def for_sequences(cls, p: Problem, part: slice, limits: Limits) -> Schedule:
        (N, _, _), m = p.u.shape, p.w.shape[1]
        order = np.arange(part.start, part.stop)
        lengths = np.full(len(order), N)
        if p.lengths is not None:
            lengths = p.lengths[part].detach().cpu().numpy()
            falling = np.argsort(-lengths, kind="stable")
            order, lengths = order[falling], lengths[falling]
        steps = places = np.zeros(0, np.int64)
        if p.steps is not None:
            chosen = p.steps.detach().cpu().numpy()[:, order].reshape(-1)
            places = np.argsort(chosen, kind="stable")
            steps = chosen[places]
        K = limits.chunk_length(N, len(order), m)
        return cls(order, np.ascontiguousarray(lengths), K, int(lengths[0]), steps, places)

    @property
    def unsorted(self) -> Array:
        """Positions of the sequences, in the order of the batch, among those sorted by length."""
        return np.argsort(self.order)

    @property
    def chunks(self) -> range:
        """First steps of the chunks."""
        return range(0, self.end, self.K)
