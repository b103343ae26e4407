"""Metrics: which of two values is better, and how a value is printed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from unicornn.lab._text import NONE

T = TypeVar("T")


@dataclass(frozen=True)
class Metric:
    """A metric: its name, and whether larger values are better. None, NaN and infinity are worse than any number."""

    name: str
    more_is_better: bool

    def cost(self, value: float | None) -> float:
        """The value as a number to minimise; infinite for None, NaN and infinity."""
        if value is None or not math.isfinite(value):
            return math.inf
        return -value if self.more_is_better else value

    def ranked(self, things: Iterable[T], value: Callable[[T], float | None]) -> list[T]:
        """Things in the order of their values, the best first; a stable sort."""
        return sorted(things, key=lambda thing: self.cost(value(thing)))

    def best(self, things: Iterable[T], value: Callable[[T], float | None]) -> T | None:
        """The thing with the best value, the first of equals; None if no value is finite."""
        finite = [thing for thing in things if self.cost(value(thing)) < math.inf]
        return next(iter(self.ranked(finite, value)), None)

    def text(self, value: float | None, deviation: float | None = None) -> str:
        """Formats accuracies in percent with one decimal (90.3 ± 3.0 %), errors with three digits (1.00 ± 0.06)."""
        if value is None or not math.isfinite(value):
            return NONE
        if self.name == "accuracy":
            return f"{100 * value:.1f}" + (f" ± {100 * deviation:.1f}" if deviation is not None else "") + " %"
        places = 2 if value == 0 else 2 - math.floor(math.log10(abs(float(f"{value:.2e}"))))
        text = f"{value:.{places}f}" if 0 <= places <= 6 else f"{value:.3g}"
        return text + (f" ± {deviation:.{max(places, 0)}f}" if deviation is not None else "")
