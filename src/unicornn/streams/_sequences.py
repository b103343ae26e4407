"""What a stream keeps of its sequences: the state since the first sample, or the samples of the last window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unicornn.streams._engine import Engine
from unicornn.streams._rows import COUNT, Array, Limits, Rows

Pushed = tuple[Array, Array, Array]
"""Features or answers, sequence by sequence; how many each sequence has; which sequences left the range of states."""


class Sequences:
    """All sequences of a stream, by their slots.

    tables: groups of rows, with the number of rows (lanes) of each slot.
    """

    def __init__(self, *tables: tuple[Rows, int]) -> None:
        self.tables = tables

    def push(self, slots: Array, u: Array, count: Array, return_all: bool) -> Pushed:
        """Adds samples u (·, d), of which each slot has ``count``. Slots out of range stay as they were."""
        raise NotImplementedError

    def grow(self, slots: int) -> None:
        for table, lanes in self.tables:
            table.grow(slots * lanes)

    def reset(self, slot: int) -> None:
        for table, lanes in self.tables:
            table.reset(rows_of([slot], lanes))

    def taken(self, slots: Array) -> list[dict[str, Array]]:
        """A copy of the rows of these slots."""
        return [table.taken(rows_of(slots, lanes)) for table, lanes in self.tables]

    def put_back(self, slots: Array, chosen: Array, copies: list[dict[str, Array]]) -> None:
        """Restores those of the copied slots that are chosen (bool)."""
        for (table, lanes), arrays in zip(self.tables, copies, strict=True):
            rows = np.repeat(chosen, lanes)
            table.put(rows_of(slots[chosen], lanes), {name: array[rows] for name, array in arrays.items()})

    def saved(self, slots: Array) -> dict[str, Array]:
        return {k: v for table, lanes in self.tables for k, v in table.saved(rows_of(slots, lanes)).items()}

    def restore(self, slots: Array, arrays: dict[str, Array]) -> None:
        for table, lanes in self.tables:
            table.restore(rows_of(slots, lanes), arrays)

    @property
    def limits(self) -> Limits:
        return {name: limit for table, _ in self.tables for name, limit in table.limits.items()}


def rows_of(slots: Any, lanes: int) -> Array:
    """Rows of the slots: slot · lanes, …, slot · lanes + lanes - 1 for each."""
    return (np.asarray(slots)[:, None] * lanes + np.arange(lanes)).reshape(-1)


class Incomplete(Rows):
    """Incomplete patches. samples: (slots, patch - 1, d); waiting: number of samples of each slot."""

    def __init__(self, patch: int, d: int, dtype: Any) -> None:
        self.patch = patch
        limits = {"waiting": (0, patch - 1)}
        super().__init__(limits, samples=np.zeros((0, patch - 1, d), dtype), waiting=np.zeros(0, np.int64))

    def complete(self, slots: Array, u: Array, count: Array) -> tuple[Array, Array]:
        """Complete patches (·, patch · d), and how many each slot has; the remaining samples wait."""
        if self.patch == 1:
            return u, count
        parts: list[Any] = []
        samples, waiting = self["samples"], self["waiting"]
        for slot, new in zip(slots, np.split(u, np.cumsum(count)[:-1]), strict=True):
            x = np.concatenate([samples[slot, : waiting[slot]], new])
            used = len(x) // self.patch * self.patch
            waiting[slot] = len(x) - used
            samples[slot, : waiting[slot]] = x[used:]
            parts.append(x[:used].reshape(-1, self.patch * x.shape[1]))
        return np.concatenate(parts), np.array([len(part) for part in parts])


class CarriedStates(Sequences):
    """The state of every sequence since its first sample."""

    def __init__(self, engine: Engine, patch: int) -> None:
        self.engine, self.incomplete = engine, Incomplete(patch, engine.d // patch, engine.np_dtype)
        super().__init__((engine, 1), (self.incomplete, 1))

    def push(self, slots: Array, u: Array, count: Array, return_all: bool) -> Pushed:
        if self.incomplete.patch > 1:
            return self._push_patches(slots, u, count, return_all)
        asked = np.full(len(slots), 2 if return_all else 1)
        F, bad = self.engine.carry(slots, u, np.cumsum(count) - count, count, asked)
        return F, count if return_all else np.ones_like(count), bad

    def _push_patches(self, slots: Array, u: Array, count: Array, return_all: bool) -> Pushed:
        """Sample by sample. An incomplete patch is padded with zeros for its answer, and does not change the state."""
        engine, samples, waiting = self.engine, self.incomplete["samples"], self.incomplete["waiting"]
        patch, before = self.incomplete.patch, self.taken(slots)
        bad, ends = np.zeros(len(slots), bool), count if return_all else np.ones_like(count)
        F = np.empty((int(ends.sum()), engine.width), engine.np_dtype)
        begin, place = np.cumsum(count) - count, np.cumsum(ends) - ends
        for n in range(int(count.max())):
            here = np.flatnonzero(count > n)
            at = slots[here]
            step = np.zeros((len(here), patch, u.shape[1]), engine.np_dtype)
            step[:, : patch - 1] = samples[at]
            step[np.arange(len(here)), waiting[at]] = u[begin[here] + n]
            step[np.arange(patch) > waiting[at][:, None]] = 0
            complete = waiting[at] == patch - 1
            for chosen in (~complete, complete):
                if not chosen.any():
                    continue
                one, inputs = np.ones(int(chosen.sum()), np.int64), step[chosen].reshape(int(chosen.sum()), -1)
                commit = bool(complete[chosen][0])
                features, out = engine.carry(at[chosen], inputs, np.arange(len(one)), one, one, commit)
                wanted = return_all | (count[here[chosen]] == n + 1)
                places = place[here[chosen]] + (n if return_all else 0)
                F[places[wanted]] = features[wanted]
                bad[here[chosen]] |= out
            samples[at] = step[:, : patch - 1]
            waiting[at] = np.where(complete, 0, waiting[at] + 1)
        self.put_back(slots, bad, before)
        return F, ends, bad


class KeptSamples(Sequences):
    """The last samples of every sequence, for estimators that predict from a window as a whole.

    Args:
        window: Number of samples in a window.
        hop: Number of samples between the ends of two windows.
        d: Number of channels.
        answer: The prediction for a window (window, d).
        shape: Shape of a prediction.
    """

    def __init__(self, window: int, hop: int, d: int, answer: Callable[[Array], Array], shape: tuple[int, ...]) -> None:
        self.window, self.hop, self.answer, self.shape = window, hop, answer, shape
        self.rows = Rows({"n": COUNT}, kept=np.zeros((0, window, d)), n=np.zeros(0, np.int64))  # n: samples so far
        super().__init__((self.rows, 1))

    def push(self, slots: Array, u: Array, count: Array, return_all: bool) -> Pushed:
        """Computes all predictions before the first sample is kept, so that an error changes nothing."""
        W, answers, ends, last = self.window, [], [], []
        for slot, new in zip(slots, np.split(u, np.cumsum(count)[:-1]), strict=True):
            n = int(self.rows["n"][slot])
            x = np.concatenate([self.rows["kept"][slot, : min(n, W)], new])
            forgotten = n + len(new) - len(x)
            first = W if n < W else n + self.hop - (n - W) % self.hop
            at = range(first - forgotten, len(x) + 1, self.hop)
            answers += [self.answer(x[end - W : end]) for end in at]
            ends.append(len(at))
            last.append(x[-W:])
        for slot, x in zip(slots, last, strict=True):
            self.rows["kept"][slot, : len(x)] = x
        self.rows["n"][slots] += count
        return np.array(answers).reshape(-1, *self.shape), np.array(ends), np.zeros(len(slots), bool)
