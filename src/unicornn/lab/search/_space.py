"""The search space: which hyperparameters are searched, and in which ranges.

Appendix A of the paper names the hyperparameters but gives no ranges. These are ours; they contain all values in
Table 6.
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
    "batch_size": CategoricalDistribution((4, 8, 16, 30, 32, 33, 64, 128)),
    "dt_first": FloatDistribution(1e-6, 1.0, log=True),
    "dt": FloatDistribution(5e-3, 0.5, log=True),
    "alpha": FloatDistribution(0.0, 40.0),
}
_LOWEST = {"dropout": 0, "alpha": 0, "batch_size": 1}  # the others must be > 0


def split_space(names: Iterable[str], changes: Mapping[str, Any]) -> tuple[dict[str, Axis], dict[str, float]]:
    """The axes to search and the parameters with a fixed value.

    Args:
        names: Names in ``SPACE`` that the model has.
        changes: Changes to ``SPACE`` by name: one number fixes a parameter, two are the ends of a range; for
            ``batch_size``, several are the values to choose from. Strings are parsed as on the command line.
    """
    axes, fixed = {name: SPACE[name] for name in names}, {}
    for name, value in changes.items():
        if name not in axes:
            expected = ", ".join(axes) or "no name, since all parameters are fixed"
            raise BadValue(f"--range: expected one of {expected}, got {name!r}{did_you_mean(name, axes)}")
        default = axes.pop(name)
        numbers = _parse_numbers(name, value)
        if len(numbers) == 1:
            fixed[name] = numbers[0]
        elif isinstance(default, CategoricalDistribution):
            axes[name] = CategoricalDistribution(tuple(dict.fromkeys(numbers)))
        elif len(numbers) == 2 and numbers[0] < numbers[1]:
            axes[name] = FloatDistribution(numbers[0], numbers[1], log=default.log)
        else:
            raise BadValue(f"--range {name}: expected LOW,HIGH with LOW < HIGH or one number, got {value}")
    if not axes:
        raise BadValue("--range: expected something to search, got a fixed value for every parameter")
    return {name: axes[name] for name in SPACE if name in axes}, fixed


def _parse_numbers(name: str, value: Any) -> list[Any]:
    number = int if name == "batch_size" else float
    if isinstance(value, str):
        value = value.strip("[]()").split(",")
    values = value if isinstance(value, Sequence) else [value]
    try:
        numbers = [number(v) for v in values]
    except (ValueError, TypeError):
        numbers = []
    lowest = _LOWEST.get(name, 0)
    highest = 1 if name == "dropout" else math.inf
    if not numbers or not all((n >= lowest if name in _LOWEST else n > 0) and n < highest for n in numbers):
        limits = (f">= {lowest}" if name in _LOWEST else "> 0") + (" and < 1" if name == "dropout" else "")
        raise BadValue(f"--range {name}: expected finite numbers {limits} ({number.__name__}), got {value}")
    return numbers


def suggest(trial: Trial, axes: Mapping[str, Axis]) -> dict[str, Any]:
    """Samples the parameters of a trial."""
    for name, axis in axes.items():
        if isinstance(axis, CategoricalDistribution):
            trial.suggest_categorical(name, axis.choices)
        else:
            trial.suggest_float(name, axis.low, axis.high, log=axis.log)
    return trial.params
