"""Which hyperparameters are searched, and where. Appendix A names them, but gives no ranges: these are ours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from optuna import Trial

from unicornn._checks import did_you_mean
from unicornn.errors import BadValue


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, drawn uniformly, or so that their logarithm is uniform."""

    low: float
    high: float
    log: bool = False

    def draw(self, trial: Trial, name: str) -> float:
        """Three significant digits, as in the paper's tab:nets: a trial is repeated by a command that can be read."""
        drawn = trial.suggest_float(name, self.low, self.high, log=self.log)
        return min(max(float(f"{drawn:.3g}"), self.low), self.high)


@dataclass(frozen=True)
class Choice:
    """One of these, each as likely as the others."""

    values: tuple[int, ...]

    def draw(self, trial: Trial, name: str) -> int:
        return int(trial.suggest_categorical(name, self.values))


Axis = Range | Choice

SPACE: dict[str, Axis] = {
    "lr": Range(1e-4, 1e-1, log=True),
    "dropout": Range(0.0, 0.7),
    "batch_size": Choice((16, 32, 64, 128)),
    "dt_first": Range(1e-6, 1e-1, log=True),
    "dt": Range(5e-3, 0.5, log=True),
    "alpha": Range(0.0, 30.0),
}
LEAST = {"lr": 0.0, "dt": 0.0, "dt_first": 0.0}  # to be exceeded; by the others, to be reached


def chosen(has: Iterable[str], changes: Mapping[str, Any]) -> tuple[dict[str, Axis], dict[str, float]]:
    """The axes of a search and the parameters that are fixed.

    Args:
        has: the names in ``SPACE`` that the model has.
        changes: for each name a number, which fixes it, or numbers: the two ends of a range, or the values of a
            ``batch_size``. Strings as on the command line will do.

    Example:
        >>> axes, fixed = chosen(["lr", "alpha", "batch_size"], {"lr": "1e-4,1e-2", "alpha": 0, "batch_size": [8, 16]})
        >>> axes["lr"], axes["batch_size"], fixed
        (Range(low=0.0001, high=0.01, log=True), Choice(values=(8, 16)), {'alpha': 0.0})
    """
    axes, fixed = {name: SPACE[name] for name in has}, {}
    for name, value in changes.items():
        if name not in axes:
            names = ", ".join(axes) or "nothing, all is fixed"
            raise BadValue(f"--range: expected one of {names}, got {name!r}{did_you_mean(name, axes)}")
        numbers = _numbers(name, value)
        if len(numbers) == 1:
            del axes[name]
            fixed[name] = numbers[0]
        else:
            axes[name] = _axis(name, numbers)
    return axes, fixed


def as_dict(axes: Mapping[str, Axis]) -> dict[str, dict[str, Any]]:
    """As in study.json."""
    return {name: {k: list(v) if k == "values" else v for k, v in asdict(axis).items()} for name, axis in axes.items()}


def _numbers(name: str, value: Any) -> list[float]:
    whole = isinstance(SPACE[name], Choice)
    expected = "a whole number or several" if whole else "a number or two, the ends of a range"
    if isinstance(value, str):
        value = value.strip("[]()").split(",")
    values = value if isinstance(value, Sequence) else [value]
    try:
        numbers = [int(v) if whole else float(v) for v in values]
    except (ValueError, TypeError):
        raise BadValue(f"--range {name}: expected {expected}, got {value!r}") from None
    least, reached = LEAST.get(name, 1 if whole else 0.0), name not in LEAST
    for v in numbers:
        if not math.isfinite(v) or v < least or (v == least and not reached) or (name == "dropout" and v >= 1):
            limits = f"{'>=' if reached else '>'} {least:g}" + (" and < 1" if name == "dropout" else "")
            raise BadValue(f"--range {name}: expected numbers {limits}, got {v:g}")
    if not numbers or (len(numbers) > 2 and not whole):
        raise BadValue(f"--range {name}: expected {expected}, got {value!r}")
    return numbers


def _axis(name: str, numbers: list[float]) -> Axis:
    usual = SPACE[name]
    if isinstance(usual, Choice):
        return Choice(tuple(int(v) for v in dict.fromkeys(numbers)))
    low, high = numbers
    if low >= high:
        raise BadValue(f"--range {name}: expected LOW,HIGH with LOW < HIGH, got {low:g},{high:g}")
    return Range(low, high, usual.log)
