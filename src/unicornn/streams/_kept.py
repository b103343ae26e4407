"""Windows by their samples: for estimators that look at a window as a whole, and so have no state to be carried on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unicornn.streams._engine import Array
from unicornn.streams._windows import Counted

Saved = dict[str, Array]


class Kept:
    """The last ``window`` samples of each slot, in its row; what ``Engine`` is to states.

    Args:
        window, d: of how many samples, of how many channels.
        answer: what is said of a window (window, d), of
        shape: this shape.
    """

    number = np.float64

    def __init__(self, window: int, d: int, answer: Callable[[Array], Array], shape: tuple[int, ...]) -> None:
        self.window, self.d, self.answer, self.shape = window, d, answer, shape
        self.samples: Array = np.zeros((0, window, d))

    def grow(self, rows: int) -> None:
        have = len(self.samples)
        if rows > have:
            more = np.zeros((max(rows, 2 * have) - have, self.window, self.d))
            self.samples = np.concatenate([self.samples, more])

    def reset(self, rows: Any) -> None:
        self.samples[rows] = 0

    def saved(self, rows: Any) -> Saved:
        return {"samples": self.samples[rows]}

    def restore(self, rows: Any, arrays: Saved) -> None:
        self.samples[rows] = arrays["samples"]


class KeptWindows(Counted):
    """The same as ``Windows`` for ``Kept``: one lane, and every answer is that to a window by itself."""

    def __init__(self, window: int, every: int) -> None:
        super().__init__(window, every, lanes=1)

    def push(
        self, engine: Kept, slots: Array, u: Array, count: Array, patch: int, pending: Any
    ) -> tuple[Array, Array, Array]:
        """The answers at the ends of windows, slot by slot; how many each has; no slot is out of range.

        All answers are there before the first sample is kept, so that an error changes nothing.
        """
        W, found, ends, last = self.window, [], [], []
        for slot, new in zip(slots, np.split(u, np.cumsum(count)[:-1]), strict=True):
            n = int(self.n[slot])
            x = np.concatenate([engine.samples[slot, : min(n, W)], new])
            behind = n + len(new) - len(x)  # how many samples are forgotten
            first = W if n < W else n + self.every - (n - W) % self.every
            at = range(first - behind, len(x) + 1, self.every)
            found += [engine.answer(x[end - W : end]) for end in at]
            ends.append(len(at))
            last.append(x[-W:])
        for slot, x in zip(slots, last, strict=True):
            engine.samples[slot, : len(x)] = x
        self.n[slots] += count
        return np.array(found).reshape(-1, *engine.shape), np.array(ends), np.zeros(len(slots), bool)
