"""What is trained and how: a task's settings, a variant's, and what the user sets, in this order."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from unicornn import models
from unicornn._checks import choice, did_you_mean, fraction, integer, not_negative, positive
from unicornn.errors import BadType, BadValue
from unicornn.lab.tasks._base import Task, Training

SCHEDULES = ("step", "onecycle", "cosine", "constant")
OPTIMIZERS = ("adam", "adamw")
POSITIVE = ("lr", "batch_size", "epochs", "eval_batch_size")  # of the training's settings; the others may be 0
AUTO = "auto"  # of dt: the time step that ``suggest_dt`` finds for the task's sequences
LARGEST = {"hidden_size": 2**20, "num_layers": 1000}


@dataclass(frozen=True)
class Config:
    """All that a run depends on, the data and the versions apart; made by ``resolve``.

    Example:
        >>> from unicornn.lab import tasks
        >>> from unicornn.lab.training._config import Config, resolve
        >>> config = resolve(tasks.find("digits"), seed=3)
        >>> Config.from_dict(config.as_dict()) == config
        True
    """

    task: str
    model: str
    seed: int
    training: Training
    variant: str | None = None
    model_options: Mapping[str, Any] = field(default_factory=dict)
    task_options: Mapping[str, Any] = field(default_factory=dict)
    budget: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """The config in a run's config.json, where there is more besides."""
        missing = [f.name for f in dataclasses.fields(cls) if f.name not in values]
        if missing:
            raise BadValue(f"config: expected {missing[0]!r}, found none")
        config = cls(**{f.name: values[f.name] for f in dataclasses.fields(cls)})
        training, possible = dict(values["training"]), models.layer_options(config.model)
        known = [f.name for f in dataclasses.fields(Training)]
        for key in (*training, *config.model_options):
            if key not in known and key not in possible:
                raise BadValue(f"config: expected settings that this version has, got {key!r}")
        for key, value in (*config.model_options.items(), *config.task_options.items()):
            _check_numbers(key, value)
        return dataclasses.replace(config, training=_checked(training))


def differences(old: Config, new: Config) -> list[str]:
    """What differs between two, but for the end of the run: epochs and budget may be changed."""
    before, after = (_plain(config.as_dict()) for config in (old, new))
    for settings in (before, after):
        settings.pop("budget")
        settings["training"].pop("epochs")
    return [f"{name} was {before[name]}, is {after[name]}" for name in before if before[name] != after[name]]


def _plain(value: Any) -> Any:
    """As it would come back from JSON."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def defaults(task: Task) -> dict[str, Any]:
    """Of the task's own options."""
    return {option: values[0] for option, values in task.options.items()}


def resolve(
    task: Task,
    *,
    name: str | None = None,
    model: str = "unicornn",
    variant: str | None = None,
    seed: int = 0,
    budget: float | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Config:
    """The settings of a run.

    Args:
        task: whose settings are the start.
        name: how the task is found again, if not by its own name.
        model: "unicornn" or a baseline's name.
        variant: one of the task's named changes.
        settings: further changes; values may be strings, as on the command line.

    Example:
        >>> from unicornn.lab import tasks
        >>> from unicornn.lab.training import resolve
        >>> resolve(tasks.find("digits"), settings={"lr": "0.1"}).training.lr
        0.1
    """
    if variant is not None and variant not in task.variants:
        have = ", ".join(map(repr, task.variants)) or "none"
        raise BadValue(f"variant: expected one of {task.name}'s ({have}), got {variant!r}")
    if budget is not None:
        positive("budget", budget)
    possible = models.layer_options(model)
    training = dataclasses.asdict(task.training)
    of_model = dict(task.models.get(model, {}))
    if model not in task.models:  # no published settings: the sizes and the dropout of UnICORNN's
        ours = task.models["unicornn"]
        of_model = {k: ours[k] for k in ("hidden_size", "num_layers", "dropout") if k in ours and k in possible}
    if model == "unicornn":
        of_model.setdefault("gradient", "stored")  # faster than "reversible", the gradients are the same
    of_task = defaults(task)

    for changes in (task.variants.get(variant or "", {}), settings or {}):
        for key, value in changes.items():
            if key in training:
                training[key] = _like(key, value, training[key])
            elif key in task.options:
                of_task[key] = _option(key, value, task.options[key])
            elif key == "dt" and value == AUTO and model == "unicornn":
                of_model[key] = AUTO
            elif key in possible:
                of_model[key] = _like(key, value, of_model.get(key, possible[key]))
            elif changes is settings:  # a variant may speak of another model's settings
                raise BadValue(_unknown(key, [*training, *task.options, *possible]))
    of_model.setdefault("hidden_size", 128)
    for key, value in (of_model | of_task).items():
        _check_numbers(key, value)
    return Config(name or task.name, model, seed, _checked(training), variant, of_model, of_task, budget)


def _checked(settings: Mapping[str, Any]) -> Training:
    """The settings of the training, if each is of its kind and within its range."""
    for f in dataclasses.fields(Training):
        value, kind = settings.get(f.name, f.default), type(f.default)
        if kind is bool and not isinstance(value, bool):
            raise BadType(f"{f.name}: expected true or false, got {value!r}")
        if kind is int:
            _check_numbers(f.name, value)
            integer(f.name, value, 1 if f.name in POSITIVE else 0)
        if kind is float:
            (positive if f.name in POSITIVE else not_negative)(f.name, value)
        _check_numbers(f.name, value)
    fraction("average", settings.get("average", 0.0))
    choice("schedule", settings.get("schedule", "step"), SCHEDULES)
    choice("optimizer", settings.get("optimizer", "adam"), OPTIMIZERS)
    return Training(**settings)


def _check_numbers(name: str, value: Any) -> None:
    """Finite ones, and not so large that they are a slip of the keyboard, or an attack."""
    for number in value if isinstance(value, (tuple, list)) else [value]:
        if isinstance(number, float) and not math.isfinite(number):
            raise BadValue(f"{name}: expected a finite number, got {number}")
        if isinstance(number, int) and number > (most := LARGEST.get(name, 2**31 - 1)):
            raise BadValue(f"{name}: expected at most {most:,}, got a number of {len(str(number))} digits")


def parse(pairs: Iterable[str], option: str = "--set", form: str = "NAME=VALUE") -> dict[str, str]:
    """``["lr=0.1", "dt=0.1,0.2"]`` as a dict; the option and the form of its values are for the error.

    Example:
        >>> parse(["lr=0.1", "dt=0.1,0.2"])
        {'lr': '0.1', 'dt': '0.1,0.2'}
    """
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise BadValue(f"{option}: expected {form}, got {pair!r}")
        settings[name.strip().replace("-", "_")] = value.strip()
    return settings


def _unknown(key: str, names: list[str]) -> str:
    return f"--set: expected one of {', '.join(sorted(names))}, got {key!r}{did_you_mean(key, names)}"


def _option(key: str, value: Any, values: Any) -> Any:
    value = _like(key, value, values[0])
    free = len(values) == 1 and isinstance(values[0], (int, float, tuple))
    if not free and value not in values:
        raise BadValue(f"{key}: expected one of {', '.join(map(str, values))}, got {value!r}")
    return value


def _like(key: str, value: Any, default: Any) -> Any:
    """The value as the kind of thing that the default is."""
    if not isinstance(value, str):
        return value
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}[value.lower()]
        if isinstance(default, int):
            return int(value)
        if isinstance(default, (float, tuple, list)):
            numbers = [float(v) for v in value.strip("[]()").split(",")]
            return numbers[0] if len(numbers) == 1 else tuple(numbers)
    except (ValueError, KeyError):
        raise BadValue(f"{key}: expected something like {default!r}, got {value!r}") from None
    return _literal(value) if default is None else value


def _literal(value: str) -> Any:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            pass
    return value
