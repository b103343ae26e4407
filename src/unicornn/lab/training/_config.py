"""The settings of a run: the task's, changed by a variant, changed by the user."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from unicornn._checks import choice, did_you_mean, flag, fraction, integer, not_negative, positive
from unicornn.errors import BadValue
from unicornn.lab._networks import FRAMES, model_settings
from unicornn.lab.tasks._base import Task, Training

SCHEDULES = ("step", "onecycle", "cosine", "constant")
OPTIMIZERS = ("adam", "adamw")
POSITIVE = ("lr", "batch_size", "epochs", "eval_batch_size")  # settings of the training that must not be 0
AUTO = "auto"  # value of dt: the time step that ``suggest_dt`` finds for the task's sequences
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class Config:
    """Everything that a run depends on, except the data and the versions; made by ``resolve``.

    Example:
        >>> from unicornn.lab import tasks
        >>> from unicornn.lab.training import Config, resolve
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

    def __post_init__(self) -> None:
        if self.budget is not None:
            positive("budget", self.budget)
        _check_training(self.training)
        for name, value in self.model_options.items():
            for number in value if isinstance(value, (tuple, list)) else [value]:
                if isinstance(number, float) and not math.isfinite(number):
                    raise BadValue(f"{name}: expected a finite number, got {number}")

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """The config in a run's config.json, which has further entries."""
        try:
            own = {f.name: values[f.name] for f in dataclasses.fields(cls)}
            return cls(**own | {"training": Training(**values["training"])})
        except (KeyError, TypeError) as error:
            raise BadValue(f"config: expected the settings of a run of this version, got {error}") from None


def differences(old: Config, new: Config) -> list[str]:
    """The settings that differ, except epochs and budget, which may change when a run is resumed."""
    before, after = (json.loads(json.dumps(config.as_dict())) for config in (old, new))  # tuples become lists
    for settings in (before, after):
        settings.pop("budget")
        settings["training"].pop("epochs")
    return [f"{name} was {before[name]}, is {after[name]}" for name in before if before[name] != after[name]]


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
    """Resolves the settings of a run.

    Args:
        task: Task with the initial settings.
        name: Name or path by which the task is found again; default: its name.
        model: "unicornn" or the name of a baseline.
        variant: One of the task's named sets of changes.
        seed: Seed of the weights, batches, dropout and noise.
        budget: Seconds after which training stops.
        settings: Further changes. Values may be strings, as on the command line.

    Example:
        >>> from unicornn.lab import tasks
        >>> from unicornn.lab.training import resolve
        >>> resolve(tasks.find("digits"), settings={"lr": "0.1"}).training.lr
        0.1
    """
    if variant is not None and variant not in task.variants:
        have = ", ".join(map(repr, task.variants)) or "none"
        raise BadValue(f"variant: expected one of {task.name}'s ({have}), got {variant!r}")
    possible = model_settings(model)
    training = dataclasses.asdict(task.training)
    if model in task.models:
        model_options = dict(task.models[model])
    else:  # no published settings: the sizes and the dropout of UnICORNN, behind the same frames
        ours, shared = task.models["unicornn"], ["hidden_size", "num_layers", "dropout"]
        if "frames" in ours:
            shared += ["frames", *FRAMES, "readout", "readout_init"]
        model_options = {k: ours[k] for k in shared if k in ours and k in possible}
    if model == "unicornn":
        model_options.setdefault("gradient", "stored")  # faster than "reversible", with the same gradients
    task_options = task.defaults

    for changes in (task.variants.get(variant or "", {}), settings or {}):
        for key, value in changes.items():
            if key in training:
                training[key] = _parsed(key, value, training[key])
            elif key in task_options:
                task_options[key] = _parsed(key, value, task_options[key])
            elif key == "dt" and value == AUTO and model == "unicornn":
                model_options[key] = AUTO
            elif key in possible:
                model_options[key] = _parsed(key, value, model_options.get(key, possible[key]))
            elif changes is settings:  # a variant may contain settings of other models
                names = sorted([*training, *task.options, *possible])
                raise BadValue(f"--set: expected one of {', '.join(names)}, got {key!r}{did_you_mean(key, names)}")
    model_options.setdefault("hidden_size", 128)
    checked = task.check(task_options)
    return Config(name or task.name, model, seed, Training(**training), variant, model_options, checked, budget)


def _check_training(training: Training) -> None:
    """Raises an error if a type or a range is wrong."""
    for f in dataclasses.fields(Training):
        value, least = getattr(training, f.name), int(f.name in POSITIVE)
        kind: type = type(f.default)
        if kind is bool:
            flag(f.name, value)
        elif kind is int:
            integer(f.name, value, least, 2**31 - 1)
        elif kind is float:
            (positive if least else not_negative)(f.name, value)
    for name in ("average", "label_smoothing"):
        fraction(name, getattr(training, name))
    if training.huber and not training.standardise:
        raise BadValue(f"huber: expected 0 without standardise, got {training.huber}")
    choice("schedule", training.schedule, SCHEDULES)
    choice("optimizer", training.optimizer, OPTIMIZERS)


def parse(pairs: Iterable[str], option: str = "--set", form: str = "NAME=VALUE") -> dict[str, str]:
    """Names and values given to a command-line option, whose own name and form are for the error."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise BadValue(f"{option}: expected {form}, got {pair!r}")
        settings[name.strip().replace("-", "_")] = value.strip()
    return settings


def _parsed(key: str, value: Any, default: Any) -> Any:
    """Converts a string to the type of the default."""
    if not isinstance(value, str):
        return value
    try:
        if isinstance(default, bool):
            return BOOLEANS[value.lower()]
        if isinstance(default, int):
            return int(value)
        if isinstance(default, (float, tuple, list)):
            numbers = [float(v) for v in value.strip("[]()").split(",")]
            return numbers[0] if len(numbers) == 1 else tuple(numbers)
    except (ValueError, KeyError):
        raise BadValue(f"{key}: expected something like {default!r}, got {value!r}") from None
    for kind in (int, float) if default is None else ():
        with contextlib.suppress(ValueError):
            return kind(value)
    return value
