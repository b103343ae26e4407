"""The search: samples parameters, trains and compares by the validation set until there are enough trials."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import optuna
import torch
from optuna.distributions import distribution_to_json
from optuna.study import MaxTrialsCallback
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.status import Status

from unicornn import _checks as checks
from unicornn._training.seeds import derive_seed
from unicornn.errors import BadValue, Diverged
from unicornn.lab._networks import model_settings
from unicornn.lab._study import (
    DATABASE,
    STUDY_NAME,
    copy_to_folder,
    in_memory,
    metric_of,
    outcome,
    quiet_optuna,
    ranked,
    seconds,
)
from unicornn.lab._text import duration
from unicornn.lab.data._files import Source
from unicornn.lab.errors import Stopped
from unicornn.lab.search._space import SPACE, Axis, split_space, suggest
from unicornn.lab.search._storage import open_storage
from unicornn.lab.tasks._base import Task
from unicornn.lab.training._config import Config, resolve
from unicornn.lab.training._train import train

SAMPLERS = {"random": optuna.samplers.RandomSampler, "tpe": optuna.samplers.TPESampler}
PRUNERS: dict[str, Callable[[int], optuna.pruners.BasePruner]] = {  # by the number of epochs
    "none": lambda epochs: optuna.pruners.NopPruner(),
    "median": lambda epochs: optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=epochs // 10),
    "hyperband": lambda epochs: optuna.pruners.HyperbandPruner(max_resource=epochs),
}
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)


def search(
    task: Task,
    *,
    name: str | None = None,
    folder: str | Path,
    trials: int = 50,
    sampler: str = "random",
    pruner: str = "none",
    storage: str | None = None,
    epochs: int | None = None,
    budget: float | None = None,
    model: str = "unicornn",
    variant: str | None = None,
    settings: Mapping[str, Any] | None = None,
    space: Mapping[str, Any] | None = None,
    seed: int = 0,
    source: Source | None = None,
    console: Console | None = None,
) -> optuna.Study:
    """Searches for the hyperparameters with the best validation metric (Appendix A). Never reads the test set.

    Each trial is a run in FOLDER/trials; FOLDER/study.db is Optuna's database. The same call resumes a search that was
    stopped or killed. Several processes may make it at the same time: they share the trials.

    Args:
        task: Task to train on.
        name: Path of the task's file, if the task is not part of the package.
        folder: Folder of the search.
        trials: Number of trials over all processes; counts pruned and failed trials, but not killed ones. Processes
            that run at the same time finish the trials that they have begun.
        sampler: "random" (as in the paper) or "tpe", which learns from earlier trials.
        pruner: "none", or "median" or "hyperband", which stop trials that do worse than others.
        storage: What several machines share: "journal:FOLDER" on a shared file system, or the URL of a database,
            postgresql+psycopg://...; default: SQLite in the folder.
        epochs: Number of epochs of a trial; default: the paper's.
        budget: Time limit of a trial in seconds.
        model, variant, settings: As for ``training.resolve``; parameters with a setting are not searched.
        space: Changes to ``SPACE`` (_space.py): ``{"lr": (1e-4, 1e-2), "batch_size": [8, 16], "alpha": 0}``.
        seed: Seed of every training. A trial's parameters depend on it and on the number of the trial.
        source: Location of the data.
        console: Console for progress; None for no output.

    Returns:
        Optuna's study. ``study.best_trial.user_attrs["command"]`` trains with the best settings and evaluates on the
        test set.

    Example:
        >>> import tempfile
        >>> from unicornn.lab import tasks
        >>> from unicornn.lab.search import search
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     study = search(tasks.find("digits"), folder=folder, trials=2, epochs=1, settings={"hidden_size": 8})
        >>> len(study.trials), sorted(study.best_params)
        (2, ['alpha', 'batch_size', 'dropout', 'dt', 'lr'])
    """
    checks.choice("sampler", sampler, SAMPLERS)
    prune = PRUNERS[checks.choice("pruner", pruner, PRUNERS)]
    checks.integer("trials", trials, 1)
    name, folder, settings = name or task.name, Path(folder), dict(settings or {})
    settings |= {"epochs": epochs} if epochs is not None else {}
    configure = partial(resolve, task, name=name, model=model, variant=variant, seed=seed, budget=budget)
    default = configure(settings=settings)
    axes, fixed = _axes(default, settings, space or {})
    plan = {
        "task": task.name, "metric": task.metric.name, "model": model, "variant": variant, "seed": seed,
        "budget": budget, "settings": {key: str(value) for key, value in (settings | fixed).items()},
        "sampler": sampler, "pruner": pruner,
        "space": {name: json.loads(distribution_to_json(axis)) for name, axis in axes.items()},
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    study_name = STUDY_NAME if storage is None else f"{task.name}/{folder.resolve().name}"
    console = console or Console(quiet=True)
    status = console.status("")
    with quiet_optuna(), status if console.is_terminal else contextlib.nullcontext():
        opened = open_storage(storage or f"sqlite:///{(folder / DATABASE).resolve()}")
        try:
            study = optuna.create_study(
                storage=opened, study_name=study_name, pruner=prune(default.training.epochs),
                direction="maximize" if task.metric.more_is_better else "minimize", load_if_exists=True,
            )  # fmt: skip
            old = study.user_attrs.get("plan", plan)
            if different := [f"{key} {old.get(key)}, got {plan[key]}" for key in plan if old.get(key) != plan[key]]:
                raise BadValue(f"search: expected the settings of the existing search, {'; '.join(different)}")
            if not study.get_trials(deepcopy=False) and (folder / "trials").exists():
                raise BadValue(f"folder: {folder} has trials that are not in the database; name another --out")
            for name, value in (("plan", plan), ("title", task.title), ("requested", trials)):
                study.set_user_attr(name, value)
            layers = int(default.model_options.get("num_layers", 1))
            _Search(study, trials, axes, settings | fixed, layers, configure, folder, task, source, status).run()
            if storage is not None:
                copy_to_folder(folder, opened, study_name)
            return in_memory(opened, study_name)
        except KeyboardInterrupt:
            console.print("stopped; the same command resumes the search")
            raise
        except Stopped:
            raise Stopped("stopped by SIGTERM; the same command resumes the search") from None
        finally:
            opened.remove_session()
            if isinstance(opened, optuna.storages.RDBStorage):
                opened.engine.dispose()


def _axes(
    config: Config, settings: Mapping[str, Any], space: Mapping[str, Any]
) -> tuple[dict[str, Axis], dict[str, float]]:
    """The axes to search, which the model must have and no setting fix, and the values that ``space`` fixes."""
    if both := [key for key in space if key in settings]:
        raise BadValue(f"--range: expected names that --set does not fix, got {both[0]!r} in both")
    searchable = {"lr", "batch_size", *model_settings(config.model)} - set(settings)
    if "dt" in searchable and isinstance(config.model_options.get("dt"), (tuple, list)):
        searchable.add("dt_first")
    return split_space([key for key in SPACE if key in searchable], space)


@dataclass
class _Search:
    """The part of this process in a search."""

    study: optuna.Study
    requested: int
    axes: Mapping[str, Axis]
    settings: Mapping[str, Any]  # fixed for all trials
    layers: int
    configure: Callable[..., Config]
    folder: Path
    task: Task
    source: Source | None
    status: Status

    def run(self) -> None:
        """Runs trials until all processes together have finished enough."""
        if self._finished() < self.requested:
            enough = MaxTrialsCallback(self.requested, states=FINISHED)
            self.study.optimize(self._objective, callbacks=[self._report, enough])

    def _finished(self) -> int:
        return len(self.study.get_trials(deepcopy=False, states=FINISHED))

    def _objective(self, trial: optuna.Trial) -> float:
        try:
            return self._train(trial)
        except optuna.TrialPruned:
            raise
        except (Exception, KeyboardInterrupt):
            if trial.params:  # repeated when the search is resumed
                self.study.enqueue_trial(trial.params)
            raise

    def _train(self, trial: optuna.Trial) -> float:
        """Trains with sampled parameters and returns the best validation metric."""
        # A seed per trial: processes that share a search sample different parameters, a resumed search the same ones.
        plan = self.study.user_attrs["plan"]
        self.study.sampler = SAMPLERS[plan["sampler"]](seed=derive_seed(plan["seed"], trial.number) % 2**32)
        settings: dict[str, Any] = {**self.settings, **suggest(trial, self.axes)}
        if "dt_first" in settings:  # and one dt for all other layers
            settings["dt"] = (settings.pop("dt_first"), *[settings["dt"]] * (self.layers - 1))
        config = self.configure(settings=settings)
        trial.set_user_attr("command", _command(config, settings))

        def after_epoch(row: Mapping[str, float]) -> None:
            epoch, epochs = int(row["epoch"]), config.training.epochs
            self.status.update(f"trial {trial.number}, epoch {epoch} of {epochs}")
            trial.report(row["valid"], epoch)
            if epoch < epochs and trial.should_prune():
                raise optuna.TrialPruned

        folder = self.folder / "trials" / f"{trial.number:05d}"
        try:
            run = train(config, folder, task=self.task, source=self.source, after_epoch=after_epoch, test=False)
        except (Diverged, torch.OutOfMemoryError) as error:
            trial.set_user_attr("failure", str(error))
            raise optuna.TrialPruned from error  # TPE ranks pruned trials last, and ignores failed ones
        return float(run.result["valid"])

    def _report(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Prints a line; called by Optuna after each trial of this process."""
        if trial.state not in FINISHED:
            return
        metric, best, state = metric_of(study), next(iter(ranked(study)), None), outcome(trial)
        done = f"validation {metric.name}" if state == "complete" else state
        texts = [f"trial {trial.number}", done + (f" {metric.text(trial.value)}" if state != "failed" else "")]
        texts += [f"best {metric.text(best.value)} (trial {best.number})"] if best is not None else []
        texts.append(", ".join(f"{name} {value:.3g}" for name, value in trial.params.items()))
        texts += [duration(seconds(trial)), f"{self._finished()}/{self.requested}"]
        self.status.console.print(" · ".join(texts), highlight=False, soft_wrap=True, markup=False)


def _command(config: Config, settings: Mapping[str, Any]) -> str:
    """The command that trains with these settings and evaluates on the test set."""
    words = ["unicornn", "train", config.task]
    options = {"model": (config.model, "unicornn"), "variant": (config.variant, None), "seed": (config.seed, 0)}
    for option, (value, default) in options.items():
        words += [f"--{option}", str(value)] if value != default else []
    words += ["--budget", f"{config.budget:g}s"] if config.budget else []
    for name, value in settings.items():
        text = ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
        words += ["--set", f"{name}={text}"]
    return shlex.join(words)
