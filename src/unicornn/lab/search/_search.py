"""The search: draws parameters, trains, judges by the validation set, until there are enough trials."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import optuna
import torch
from optuna.exceptions import UpdateFinishedTrialError
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console

from unicornn._training.seeds import derive_seed
from unicornn.errors import BadValue, Diverged
from unicornn.lab._study import Study, Trial
from unicornn.lab.data._files import Source
from unicornn.lab.errors import Stopped
from unicornn.lab.search._plan import Plan, make_plan
from unicornn.lab.search._progress import EpochReport, SearchProgress
from unicornn.lab.search._space import draw
from unicornn.lab.search._storage import FINISHED, give_up_the_dead, stored_study, surplus, trials_in
from unicornn.lab.tasks._base import Task
from unicornn.lab.training._train import train

ENOUGH = 10  # complete trials, to speak of importances
WAIT = 1.0  # seconds between looks at the trials of other processes
NAME = "search"  # of the study in the folder's own database, whatever the folder is called


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
) -> Study:
    """Searches for the hyperparameters with the best validation metric (Appendix A). The test set is never looked at.

    Each trial is a run in FOLDER/trials; FOLDER/study.json tells what was found so far. The same call goes on with a
    search that was stopped or killed, and may be made by several processes at once: they share the trials.

    Args:
        task: what is learned.
        name: how the task is found again, if not by its own name: the path of its file.
        folder: of the search.
        trials: how many, over all processes; those that were pruned or failed count, those that were killed do not.
        sampler: "random" (the paper's), or "tpe", which learns from the trials before.
        pruner: "none", or "median" or "hyperband", which stop trials early that do worse than others did.
        storage: the URL of a database for several machines, postgresql+psycopg://...; else SQLite in the folder.
        epochs: of a trial, instead of the paper's.
        budget: seconds of a trial.
        model, variant, settings: as of a run; what is set is not searched.
        space: changes of ``SPACE`` (_space.py): ``{"lr": (1e-4, 1e-2), "batch_size": [8, 16], "alpha": 0}``.
        seed: of all trials' training; the parameters depend on it and on the number of the trial.
        source: where the data is.
        console: where progress is shown; None for none.

    Returns: what study.json has.

    Example:
        >>> import tempfile
        >>> from unicornn.lab import tasks
        >>> from unicornn.lab.search import search
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     study = search(tasks.find("digits"), folder=folder, trials=2, epochs=1, settings={"hidden_size": 8})
        >>> len(study.trials), sorted(study.best.parameters)
        (2, ['alpha', 'batch_size', 'dropout', 'dt', 'lr'])
    """
    folder, changes = Path(folder), dict(settings or {}) | ({"epochs": epochs} if epochs is not None else {})
    plan = make_plan(
        task, name=name or task.name, model=model, variant=variant, seed=seed, budget=budget, settings=changes,
        space=space or {}, sampler=sampler, pruner=pruner, trials=trials,
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    url, kept_as = f"sqlite:///{(folder / 'study.db').resolve()}", NAME
    if storage is not None:
        url, kept_as = storage, f"{task.name}/{folder.resolve().name}"
    with (
        _quiet(),
        SearchProgress(console, task.metric, trials) as progress,
        stored_study(url, kept_as, plan) as study,
    ):
        if not study.get_trials(deepcopy=False) and (folder / "trials").exists():
            raise BadValue(f"folder: {folder} has trials that the database does not know; name another --out")
        try:
            return _search(study, plan, folder, source, progress)
        except KeyboardInterrupt:
            progress.say("stopped; the same command goes on")
            raise
        except Stopped:
            raise Stopped("stopped by SIGTERM; the same command goes on") from None


def _search(study: optuna.Study, plan: Plan, folder: Path, source: Source | None, progress: SearchProgress) -> Study:
    """Trials until there are enough, over all processes; Optuna asks, watches over and tells each.

    Its MaxTrialsCallback does not count those that run: several processes would begin more trials than were asked for,
    and none would wait for a trial that another may lose.
    """
    found, waiting = _write(study, plan, folder), False
    begun: list[optuna.Trial] = []
    given_up: list[int] = []  # taken for dead, and tried again by another process

    def objective(trial: optuna.Trial) -> float:
        begun.append(trial)
        if surplus(study, trial, plan.trials):
            raise _Surplus
        try:
            return _try(trial, plan, folder, source, progress)
        except UpdateFinishedTrialError:
            given_up.append(trial.number)
            raise

    while True:
        give_up_the_dead(study)
        finished, running = len(trials_in(study, *FINISHED)), len(trials_in(study, TrialState.RUNNING))
        if finished != len(found.trials):  # other processes' too
            found = _write(study, plan, folder)
        progress.so_far(found)
        if finished >= plan.trials:
            return found
        if finished + running < plan.trials:
            begun.clear()
            try:
                study.optimize(objective, n_trials=1, catch=(_Surplus,))
            except BaseException:
                if begun and begun[-1].number in given_up:
                    continue
                if begun and begun[-1].params:
                    study.enqueue_trial(begun[-1].params)
                raise
            told = study.get_trials(deepcopy=False)[begun[-1].number]
            if told.state in FINISHED:
                found = _write(study, plan, folder)
                progress.over(found, _trial(told, plan))
            waiting = False
            continue
        if not waiting:
            progress.say(f"waiting for {running} of other processes' trials")
        waiting = True
        time.sleep(WAIT)


class _Surplus(Exception):
    """One trial too many: it is put back."""


def _try(trial: optuna.Trial, plan: Plan, folder: Path, source: Source | None, progress: SearchProgress) -> float:
    """Trains with what was drawn: the best validation metric."""
    # From here on: processes that share a search draw different parameters, and a search that goes on, the same.
    seed = derive_seed(plan.seed, trial.number) % 2**32
    random = plan.sampler == "random"
    trial.study.sampler = optuna.samplers.RandomSampler(seed) if random else optuna.samplers.TPESampler(seed=seed)
    parameters = {name: draw(trial, name, axis) for name, axis in plan.axes.items()}
    trial.set_user_attr("parameters", parameters)
    progress.now(f"trial {trial.number}")
    try:
        run = train(
            plan.config(parameters), folder / "trials" / f"{trial.number:05d}", task=plan.task, source=source,
            after_epoch=EpochReport(trial, plan.epochs, progress), test=False,
        )  # fmt: skip
    except (Diverged, torch.OutOfMemoryError) as error:
        trial.set_user_attr("failed", str(error))
        raise optuna.TrialPruned from error  # TPE ranks these last, and would not learn from a FAIL
    trial.set_user_attr("trained", True)  # raises if the trial has been given up meanwhile
    return float(run.result["valid"])


def _write(study: optuna.Study, plan: Plan, folder: Path) -> Study:
    found = dataclasses.replace(plan.study(), trials=[_trial(trial, plan) for trial in trials_in(study, *FINISHED)])
    if found.best is not None:
        found = dataclasses.replace(found, command=plan.command(found.best.parameters))
    if len(found.ranked()) >= ENOUGH and len(plan.axes) > 1:
        shares = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
        found = dataclasses.replace(found, importances={name: float(share) for name, share in shares.items()})
    found.write(folder / "study.json")
    return found


def _trial(trial: FrozenTrial, plan: Plan) -> Trial:
    values, why = trial.intermediate_values.values(), trial.user_attrs.get("failed", "")
    state, value = "complete", trial.value
    if why:
        state, value = "failed", None
    elif trial.state == TrialState.PRUNED:
        state, value = "pruned", plan.task.metric.best(values, value=float)
    seconds = 0.0 if trial.duration is None else round(trial.duration.total_seconds(), 3)
    return Trial(trial.number, state, value, trial.user_attrs["parameters"], seconds, len(values), why)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's own lines."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(level)
