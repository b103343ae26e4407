"""Which hyperparameters are searched, and where. Appendix A names them, but gives no ranges: these are ours.

They contain what the paper found (Table 6), batches of 30 sequences too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optuna import Trial
from optuna.distributions import CategoricalDistribution, FloatDistribution

from unicornn._checks import did_you_mean
from unicornn.errors import BadValue

Axis = FloatDistribution | CategoricalDistribution

SPACE: dict[str, Axis] = {
    "lr": FloatDistribution(1e-4, 1e-1, log=True),
    "dropout": FloatDistribution(0.0, 0.7),
    "batch_size": CategoricalDistribution((4, 8, 16, 30, 32, 64, 128)),
    "dt_first": FloatDistribution(1e-6, 1.0, log=True),
    "dt": FloatDistribution(5e-3, 0.5, log=True),
    "alpha": FloatDistribution(0.0, 40.0),
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
        >>> as_dict(axes), fixed
        ({'lr': {'low': 0.0001, 'high': 0.01, 'log': True}, 'batch_size': {'values': [8, 16]}}, {'alpha': 0.0})
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


def draw(trial: Trial, name: str, axis: Axis) -> float:
    """Three significant digits, as in the paper's Table 6: a trial is repeated by a command that can be read."""
    if isinstance(axis, CategoricalDistribution):
        return int(trial.suggest_categorical(name, axis.choices))  # type: ignore[arg-type]
    drawn = trial.suggest_float(name, axis.low, axis.high, log=axis.log)
    return min(max(float(f"{drawn:.3g}"), axis.low), axis.high)


def as_dict(axes: Mapping[str, Axis]) -> dict[str, dict[str, Any]]:
    """As in study.json."""
    return {
        name: {"values": list(axis.choices)}
        if isinstance(axis, CategoricalDistribution)
        else {"low": axis.low, "high": axis.high, "log": axis.log}
        for name, axis in axes.items()
    }


def _numbers(name: str, value: Any) -> list[float]:
    whole = isinstance(SPACE[name], CategoricalDistribution)
    expected = "an integer or several" if whole else "a number or two, the ends of a range"
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
    if isinstance(usual, CategoricalDistribution):
        return CategoricalDistribution(tuple(int(v) for v in dict.fromkeys(numbers)))
    low, high = numbers
    if low >= high:
        raise BadValue(f"--range {name}: expected LOW,HIGH with LOW < HIGH, got {low:g},{high:g}")
    return FloatDistribution(low, high, log=usual.log)
