"""What a search is asked for, and the settings of a run that follow from a trial's parameters."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unicornn import _checks as checks
from unicornn.errors import BadValue
from unicornn.lab._networks import model_settings
from unicornn.lab._study import Study
from unicornn.lab.search._space import SPACE, Axis, as_dict, chosen
from unicornn.lab.tasks._base import Task
from unicornn.lab.training._config import Config, resolve

SAMPLERS = ("random", "tpe")
PRUNERS = ("none", "median", "hyperband")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A search, complete and checked; made by ``make_plan``."""

    task: Task
    name: str  # by which the task is found again
    model: str
    variant: str | None
    seed: int
    budget: float | None
    settings: Mapping[str, Any]
    axes: Mapping[str, Axis]
    fixed: Mapping[str, float]
    sampler: str
    pruner: str
    trials: int
    layers: int
    epochs: int

    def changes(self, parameters: Mapping[str, float]) -> dict[str, Any]:
        """What a trial sets: its parameters, where the first layer's dt and the others' become one per layer."""
        every: dict[str, Any] = {**self.fixed, **parameters}
        if "dt_first" in every:
            every["dt"] = (every.pop("dt_first"), *[every["dt"]] * (self.layers - 1))
        return {**self.settings, **every}

    def config(self, parameters: Mapping[str, float]) -> Config:
        return resolve(
            self.task, name=self.name, model=self.model, variant=self.variant, seed=self.seed, budget=self.budget,
            settings=self.changes(parameters),
        )  # fmt: skip

    def command(self, parameters: Mapping[str, float]) -> str:
        """Trains with these parameters, and looks at the test set."""
        words = ["unicornn", "train", self.name]
        for option, value, usual in (
            ("model", self.model, "unicornn"), ("variant", self.variant, None), ("seed", self.seed, 0),
        ):  # fmt: skip
            words += [f"--{option}", str(value)] if value != usual else []
        words += ["--budget", f"{self.budget:g}s"] if self.budget else []
        for name, value in self.changes(parameters).items():
            text = ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
            words += ["--set", f"{name}={text}"]
        return shlex.join(words)

    def about(self) -> dict[str, Any]:
        """What must be the same in all processes of a search, as it comes back from JSON."""
        return {
            "task": self.task.name, "model": self.model, "variant": self.variant, "seed": self.seed,
            "budget": self.budget, "settings": {k: str(v) for k, v in self.settings.items()}, "fixed": dict(self.fixed),
            "space": as_dict(self.axes), "sampler": self.sampler, "pruner": self.pruner,
        }  # fmt: skip

    def study(self) -> Study:
        """The search before its first trial."""
        return Study(
            task=self.name, title=self.task.title, model=self.model, variant=self.variant, metric=self.task.metric,
            seed=self.seed, settings={**self.settings, **self.fixed},
            sampler=self.sampler, pruner=self.pruner, asked=self.trials, space=as_dict(self.axes),
        )  # fmt: skip


def make_plan(
    task: Task,
    *,
    name: str,
    model: str,
    variant: str | None,
    seed: int,
    budget: float | None,
    settings: Mapping[str, Any],
    space: Mapping[str, Any],
    sampler: str,
    pruner: str,
    trials: int,
) -> Plan:
    """The plan, if all names and numbers are right. Searched is what the model has and the settings do not fix."""
    usual = resolve(task, name=name, model=model, variant=variant, seed=seed, budget=budget, settings=settings)
    if both := [key for key in space if key in settings]:
        raise BadValue(f"--range: expected names that --set does not fix, got {both[0]!r} in both")
    dt = usual.model_options.get("dt")
    own = {"lr", "batch_size", *model_settings(model), *(["dt_first"] if isinstance(dt, (tuple, list)) else [])}
    left_out = {*settings, *(["dt_first"] if "dt" in settings else [])}
    axes, fixed = chosen([key for key in SPACE if key in own - left_out], space)
    if not axes:
        raise BadValue("--range: expected something to search, but every parameter is fixed")
    return Plan(
        task=task, name=name, model=model, variant=variant, seed=seed, budget=budget, settings=dict(settings),
        axes=axes, fixed=fixed, sampler=checks.choice("sampler", sampler, SAMPLERS),
        pruner=checks.choice("pruner", pruner, PRUNERS), trials=checks.integer("trials", trials, 1),
        layers=int(usual.model_options.get("num_layers", 1)), epochs=usual.training.epochs,
    )  # fmt: skip
