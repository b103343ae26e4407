"""What a stream keeps of its sequences: the state since the first sample, staggered states, or samples of a window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unicornn.errors import BadValue
from unicornn.streams._engine import Array, Engine, Rows

MOST_LANES = 2**16
"""Largest number of states of a sequence with a window."""
Pushed = tuple[Array, Array, Array]
"""Features or answers, sequence by sequence; how many each sequence has; which sequences left the range of states."""


class History(Rows):
    """The last samples of every sequence, as the layers read them, in a ring.

    past: (slots, size, d). length: number of samples of each slot in ``past``. total: number of samples so far.
    """

    def __init__(self, size: int, d: int, dtype: Any) -> None:
        self.size = size
        counts = {"past_length": np.zeros(0, np.int64), "total": np.zeros(0, np.int64)}
        super().__init__(past=np.zeros((0, size, d), dtype), **counts)

    def add(self, slots: Array, u: Array, count: Array) -> None:
        if self.size:
            first = np.repeat(self["total"][slots] - np.cumsum(count) + count, count)
            self["past"][np.repeat(slots, count), (first + np.arange(len(u))) % self.size] = u
            self["past_length"][slots] = np.minimum(self["past_length"][slots] + count, self.size)
        self["total"][slots] += count

    def last(self, slot: int) -> Array:
        """The samples of a slot, in order (·, d)."""
        total, length = int(self["total"][slot]), int(self["past_length"][slot])
        return self["past"][slot, np.arange(total - length, total) % max(self.size, 1)]

    def take_back(self, slot: int, count: int) -> None:
        self["total"][slot] -= count
        self["past_length"][slot] = max(0, self["past_length"][slot] - count)


class Sequences:
    """All sequences of a stream, by their slots.

    history: their last samples. tables: groups of rows, with the number of rows (lanes) of each slot. In files, the
    arrays of table i are called "i.name".
    """

    def __init__(self, history: History, *tables: tuple[Rows, int]) -> None:
        self.history, self.tables = history, ((history, 1), *tables)

    def push(self, slots: Array, u: Array, count: Array, return_all: bool) -> Pushed:
        """Adds samples u (·, d), of which each slot has ``count``. Slots out of range stay as they were."""
        raise NotImplementedError

    def take_back(self, slot: int, count: int, past: Array) -> None:
        """Restores the state before the last ``count`` samples, from the last samples ``past`` (·, d).

        Starts again from the first sample, for states that cannot be reversed, such as maxima.
        """
        n = int(self.history["total"][slot]) - count
        since = needed(past, n + count, "history")[:n]
        for table, lanes in self.tables[1:]:
            table.reset(rows_of([slot], lanes))
        if n:
            self.push(np.array([slot]), since, np.array([n]), False)

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
        return {
            f"{i}.{name}": array
            for i, (table, lanes) in enumerate(self.tables)
            for name, array in table.saved(rows_of(slots, lanes)).items()
        }

    def restore(self, slots: Array, arrays: dict[str, Array]) -> None:
        for i, (table, lanes) in enumerate(self.tables):
            own = {name.partition(".")[2]: t for name, t in arrays.items() if name.startswith(f"{i}.")}
            table.restore(rows_of(slots, lanes), own)


def rows_of(slots: Any, lanes: int) -> Array:
    """Rows of the slots: slot · lanes, …, slot · lanes + lanes - 1 for each."""
    return (np.asarray(slots)[:, None] * lanes + np.arange(lanes)).reshape(-1)


def needed(past: Array, count: int, argument: str) -> Array:
    """The last samples of a sequence, ``count`` of them."""
    if len(past) < count:
        raise BadValue(f"{argument}: expected the last {count} samples of the sequence, got {len(past)}")
    return past[len(past) - count :]


def by_owner(owners: list[Array], rows: list[Array], count: int) -> tuple[Array, Array]:
    """Rows in the order of their owners 0 to ``count`` - 1, and how many each has."""
    owner = np.concatenate(owners)
    return np.concatenate(rows)[np.argsort(owner, kind="stable")], np.bincount(owner, minlength=count)


class Incomplete(Rows):
    """Incomplete patches. samples: (slots, patch, d), followed by zeros; waiting: number of samples of each slot."""

    def __init__(self, patch: int, d: int, dtype: Any) -> None:
        self.patch = patch
        rows = patch if patch > 1 else 0
        super().__init__(samples=np.zeros((0, rows, d), dtype), waiting=np.zeros(0, np.int64))

    def wait(self, slot: int, samples: Array) -> None:
        """Sets the samples of an incomplete patch."""
        self.reset(slot)
        self["samples"][slot, : len(samples)], self["waiting"][slot] = samples, len(samples)

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

    def __init__(self, engine: Engine, patch: int, history: int) -> None:
        d, dtype = engine.d // patch, engine.np_dtype
        self.engine, self.incomplete = engine, Incomplete(patch, d, dtype)
        super().__init__(History(history, d, dtype), (engine, 1), (self.incomplete, 1))

    def push(self, slots: Array, u: Array, count: Array, return_all: bool) -> Pushed:
        begin = np.cumsum(count) - count
        if self.incomplete.patch > 1:
            F, bad = self._push_patches(slots, u, begin, count)
            return (F, count, bad) if return_all else (F[begin + count - 1], np.ones_like(count), bad)
        asked = np.full(len(slots), 2 if return_all else 1)
        F, bad = self.engine.carry(slots, u, begin, count, asked)
        return F, count if return_all else np.ones_like(count), bad

    def _push_patches(self, slots: Array, u: Array, begin: Array, count: Array) -> tuple[Array, Array]:
        """Sample by sample. An incomplete patch is padded with zeros for its answer, and does not change the state."""
        samples, waiting, before = self.incomplete["samples"], self.incomplete["waiting"], self.taken(slots)
        F, bad = np.empty((len(u), self.engine.width), self.engine.np_dtype), np.zeros(len(slots), bool)
        for n in range(int(count.max())):
            here = np.flatnonzero(count > n)
            samples[slots[here], waiting[slots[here]]] = u[begin[here] + n]
            waiting[slots[here]] += 1
            complete = waiting[slots[here]] == self.incomplete.patch
            for commit, chosen in ((False, here[~complete]), (True, here[complete])):
                if len(chosen):
                    at, one = slots[chosen], np.ones(len(chosen), np.int64)
                    inputs = samples[at].reshape(len(at), -1)
                    F[begin[chosen] + n], out = self.engine.carry(at, inputs, np.arange(len(at)), one, one, commit)
                    bad[chosen] |= out
            self.incomplete.reset(slots[here[complete]])
        self.put_back(slots, bad, before)
        return F, bad

    def take_back(self, slot: int, count: int, past: Array) -> None:
        if "mean" in self.engine.read:
            raise BadValue(
                "samples: expected a readout whose state can be reversed, got the mean, a sum of rounded numbers"
            )
        patch, n = self.incomplete.patch, int(self.history["total"][slot]) - count
        since = needed(past, count + n % patch, "samples")
        steps = int(self.engine["steps"][slot]) - n // patch
        self.engine.withdraw(slot, since[: steps * patch].reshape(steps, self.engine.d))
        self.incomplete.wait(slot, since[: n % patch])


class StaggeredStates(Sequences):
    """Answers over the last ``window`` steps, from staggered states.

    A state starts from rest every ``hop`` steps. After ``window`` steps it has seen the last window and nothing else;
    then its features are read. Each sequence thus needs window / hop states, rounded up: its lanes. Row
    slot · lanes + i of the engine is lane i of a slot.

    Args:
        engine: Kernel and states.
        window: Number of steps in a window.
        hop: Number of steps between the ends of two windows.
        patch: Number of samples in a step.
    """

    def __init__(self, engine: Engine, window: int, hop: int, patch: int, history: int) -> None:
        self.engine, self.window, self.hop, self.lanes = engine, window, hop, -(-window // hop)
        if self.lanes > MOST_LANES:
            least = -(-window // MOST_LANES) * patch
            raise BadValue(f"hop: expected at least {least} for a window of {window * patch}, got {hop * patch}")
        self.steps = Rows(n=np.zeros(0, np.int64))  # steps of each slot so far
        d, dtype = engine.d // patch, engine.np_dtype
        self.incomplete = Incomplete(patch, d, dtype)
        super().__init__(History(history, d, dtype), (engine, self.lanes), (self.incomplete, 1), (self.steps, 1))

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
        return *by_owner(whose, features, len(slots)), bad

    def take_back(self, slot: int, count: int, past: Array) -> None:
        """Replays the windows that were open, from rest."""
        patch, n = self.incomplete.patch, int(self.history["total"][slot]) - count
        steps = n // patch
        oldest = min(steps, max(0, -(-(steps - self.window + 1) // self.hop)) * self.hop)
        since = needed(past, count + n - oldest * patch, "history")
        self.engine.reset(rows_of([slot], self.lanes))
        self.incomplete.reset(slot)
        self.steps["n"][slot] = oldest
        if n > oldest * patch:
            self.push(np.array([slot]), since[: n - oldest * patch], np.array([n - oldest * patch]), False)


class KeptSamples(Sequences):
    """The last samples of every sequence, for estimators that predict from a window as a whole.

    Args:
        window: Number of samples in a window.
        hop: Number of samples between the ends of two windows.
        history: Number of samples that can be taken back, and of those before them that a window needs.
        d: Number of channels.
        answer: Function that predicts from a window (window, d).
        shape: Shape of a prediction.
    """

    def __init__(
        self, window: int, hop: int, history: int, d: int, answer: Callable[[Array], Array], shape: tuple[int, ...]
    ) -> None:
        self.window, self.hop, self.answer, self.shape = window, hop, answer, shape
        self.rows = Rows(kept=np.zeros((0, window, d)), n=np.zeros(0, np.int64))  # n: samples so far
        super().__init__(History(history, d, np.float64), (self.rows, 1))

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

    def take_back(self, slot: int, count: int, past: Array) -> None:
        n = int(self.rows["n"][slot]) - count
        since = needed(past, count + min(n, self.window), "history")
        self.rows["kept"][slot, : min(n, self.window)] = since[: len(since) - count]
        self.rows["n"][slot] = n
