"""Answers over the last ``window`` steps, from staggered states.

A state starts from rest every ``hop`` steps. After ``window`` steps it has seen the last window and nothing else; then
its features are read. Each sequence thus needs window / hop states, rounded up: its lanes.
"""

from __future__ import annotations

import numpy as np

from unicornn.streams._engine import Engine
from unicornn.streams._rows import COUNT, Array, Rows
from unicornn.streams._sequences import Incomplete, Pushed, Sequences


class StaggeredStates(Sequences):
    """The states of all sequences. Row slot · lanes + i of the engine is lane i of a slot.

    Args:
        engine: Kernel and states.
        window: Number of steps in a window.
        hop: Number of steps between the ends of two windows.
        patch: Number of samples in a step.
    """

    def __init__(self, engine: Engine, window: int, hop: int, patch: int) -> None:
        self.engine, self.window, self.hop, self.lanes = engine, window, hop, -(-window // hop)
        self.steps = Rows({"n": COUNT}, n=np.zeros(0, np.int64))  # steps of each slot so far
        self.incomplete = Incomplete(patch, engine.d // patch, engine.np_dtype)
        super().__init__((engine, self.lanes), (self.incomplete, 1), (self.steps, 1))

    def push(self, slots: Array, u: Array, count: Array, return_all: bool) -> Pushed:
        before = self.taken(slots)
        u, count = self.incomplete.complete(slots, u, count)
        begin, left = np.cumsum(count) - count, count.copy()
        bad = np.zeros(len(slots), bool)
        whose, features = [np.zeros(0, np.int64)], [np.empty((0, self.engine.width), self.engine.np_dtype)]
        while left.any():
            here = np.flatnonzero(left)
            n = self.steps["n"][slots[here]]
            self.engine.reset((slots[here] * self.lanes + n // self.hop % self.lanes)[n % self.hop == 0])
            # Up to the next start or the next end of a window, whichever comes first.
            ahead = np.minimum(self.hop - n % self.hop, (self.window - n) % self.hop)
            ahead = np.where(ahead == 0, np.minimum(self.hop, self.hop - n % self.hop), ahead)
            go = np.minimum(left[here], ahead)
            first = np.maximum(0, -(-(n - self.window + 1) // self.hop))
            active = n // self.hop - first + 1
            owner = np.repeat(np.arange(len(here)), active)
            start = first[owner] + np.arange(len(owner)) - np.repeat(np.cumsum(active) - active, active)
            asked = (start * self.hop + self.window == (n + go)[owner]).astype(np.int64)
            rows = slots[here][owner] * self.lanes + start % self.lanes
            F, out = self.engine.carry(rows, u, begin[here][owner], go[owner], asked)
            ended = np.flatnonzero(asked)
            whose.append(here[owner[ended]])
            features.append(F[ended])
            np.logical_or.at(bad, here[owner], out)
            self.steps["n"][slots[here]] += go
            begin[here] += go
            left[here] -= go
        self.put_back(slots, bad, before)
        owners = np.concatenate(whose)
        order, ends = np.argsort(owners, kind="stable"), np.bincount(owners, minlength=len(slots))
        return np.concatenate(features)[order], ends, bad
