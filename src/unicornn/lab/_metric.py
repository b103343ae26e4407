"""What a network is judged by: which of two numbers is better, which is the best, and how one is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from unicornn.lab._text import NONE, number, percent

T = TypeVar("T")


@dataclass(frozen=True)
class Metric:
    """A metric, by its name, and whether more of it is better. What is not a finite number is never better.

    Example:
        >>> from unicornn.lab._metric import Metric
        >>> error = Metric("RMSE", more_is_better=False)
        >>> error.better(0.5, 0.7), error.better(float("nan"), 0.7), error.better(0.5, None)
        (True, False, True)
        >>> error.text(0.5)
        '0.500'
    """

    name: str
    more_is_better: bool

    def better(self, new: float | None, old: float | None) -> bool:
        """Whether ``new`` is better than ``old``; any finite number is better than None, NaN or an infinity."""
        return self._cost(new) < self._cost(old)

    def ranked(self, things: Iterable[T], value: Callable[[T], float | None]) -> list[T]:
        """The best first, those without a finite value last; equal ones stay in their order.

        Example:
            >>> Metric("accuracy", True).ranked([0.5, None, 0.9], value=lambda x: x)
            [0.9, 0.5, None]
        """
        return sorted(things, key=lambda thing: self._cost(value(thing)))

    def best(self, things: Iterable[T], value: Callable[[T], float | None]) -> T | None:
        """The first of the best; None if there is none with a finite value.

        Example:
            >>> Metric("accuracy", True).best([{"epoch": 1, "valid": 0.5}, {"epoch": 2, "valid": 0.9}],
            ...                               value=lambda row: row["valid"])
            {'epoch': 2, 'valid': 0.9}
        """
        known = [thing for thing in things if self._cost(value(thing)) < math.inf]
        return next(iter(self.ranked(known, value)), None)

    def text(self, value: float | None, deviation: float | None = None) -> str:
        """Accuracies in percent with one decimal, errors with three significant digits.

        Example:
            >>> Metric("accuracy", True).text(0.903, 0.03)
            '90.3 ± 3.0 %'
        """
        if value is None or not math.isfinite(value):
            return NONE
        return (percent if self.name == "accuracy" else number)(value, deviation)

    def _cost(self, value: float | None) -> float:
        """Less is better; infinite for what is not a finite number."""
        if value is None or not math.isfinite(value):
            return math.inf
        return -value if self.more_is_better else value
