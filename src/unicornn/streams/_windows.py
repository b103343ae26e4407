"""Answers over the last ``window`` steps, by staggered states.

Every ``every`` steps a state starts at rest; ``window`` steps later it has seen the last window and nothing else, and
answers. So there are window / every of them at work for a sequence, rounded up: its lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unicornn.streams._engine import Array, Engine


class Counted:
    """Windows of ``window`` steps, one every ``every`` steps; and how many steps each slot has had."""

    def __init__(self, window: int, every: int, lanes: int) -> None:
        self.window, self.every, self.lanes = window, every, lanes
        self.n: Array = np.zeros(0, np.int64)  # steps of each slot so far

    def grow(self, slots: int) -> None:
        self.n = np.concatenate([self.n, np.zeros(slots - len(self.n), np.int64)])

    def reset(self, slot: int) -> None:
        self.n[slot] = 0


class Windows(Counted):
    """The lanes of all slots. Row slot · lanes + i of the engine is lane i of a slot."""

    def __init__(self, window: int, every: int) -> None:
        super().__init__(window, every, lanes=-(-window // every))

    def push(
        self, engine: Engine, slots: Array, u: Array, count: Array, patch: int, pending: tuple[Array, Array]
    ) -> tuple[Array, Array, Array]:
        """The features at the ends of windows, slot by slot; how many each has; and which slots are out of range."""
        rows = (slots[:, None] * self.lanes + np.arange(self.lanes)).reshape(-1)
        before = engine.copy(rows), self.n[slots].copy(), pending[0][slots], pending[1][slots]
        if patch > 1:
            u, count = _whole_patches(slots, u, count, patch, pending)
        begin, left = np.cumsum(count) - count, count.copy()
        bad, found = np.zeros(len(slots), bool), []
        while left.any():
            here = np.flatnonzero(left)
            n = self.n[slots[here]]
            engine.reset((slots[here] * self.lanes + n // self.every % self.lanes)[n % self.every == 0])
            # To the next start, or to the next end of a window, whichever comes first.
            ahead = np.minimum(self.every - n % self.every, (self.window - n) % self.every)
            ahead = np.where(ahead == 0, np.minimum(self.every, self.every - n % self.every), ahead)
            go = np.minimum(left[here], ahead)
            first = np.maximum(0, -(-(n - self.window + 1) // self.every))
            active = n // self.every - first + 1
            owner = np.repeat(np.arange(len(here)), active)
            start = first[owner] + np.arange(len(owner)) - np.repeat(np.cumsum(active) - active, active)
            asked = (start * self.every + self.window == (n + go)[owner]).astype(np.int64)
            F, out = engine.carry(
                slots[here][owner] * self.lanes + start % self.lanes, u, begin[here][owner], go[owner], asked
            )
            ended = np.flatnonzero(asked)
            found.append((here[owner[ended]], F[ended]))
            np.logical_or.at(bad, here[owner], out)
            self.n[slots[here]] += go
            begin[here] += go
            left[here] -= go
        whose = np.concatenate([who for who, _ in found]) if found else np.zeros(0, np.int64)
        F = np.concatenate([F for _, F in found]) if found else np.empty((0, engine.width), engine.number)
        if bad.any():
            state, n, waiting, waits = before
            lanes = np.repeat(bad, self.lanes)
            engine.put(rows[lanes], tuple(part[lanes] for part in state))
            self.n[slots[bad]], pending[0][slots[bad]], pending[1][slots[bad]] = n[bad], waiting[bad], waits[bad]
        order = np.argsort(whose, kind="stable")
        return F[order], np.bincount(whose, minlength=len(slots)), bad


def _whole_patches(
    slots: Array, u: Array, count: Array, patch: int, pending: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Samples as whole patches (·, patch · d), how many each slot has; what is left over waits."""
    waiting, waits = pending
    parts: list[Any] = []
    ends = np.cumsum(count)
    for i, slot in enumerate(slots):
        x = np.concatenate([waiting[slot, : waits[slot]], u[ends[i] - count[i] : ends[i]]])
        whole = len(x) // patch * patch
        waits[slot] = len(x) - whole
        waiting[slot, : waits[slot]] = x[whole:]
        parts.append(x[:whole].reshape(-1, patch * x.shape[1]))
    return np.concatenate(parts), np.array([len(part) for part in parts])
