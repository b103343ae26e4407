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

from unicornn.errors import BadValue, Diverged
from unicornn.lab._study import Study, Trial
from unicornn.lab.data._files import Source
from unicornn.lab.search._plan import Plan, make_plan
from unicornn.lab.search._progress import Shown, Watch
from unicornn.lab.search._space import draw
from unicornn.lab.search._storage import FINISHED, Kept
from unicornn.lab.training._batches import mixed
from unicornn.lab.training._train import train

ENOUGH = 10  # complete trials, to speak of importances
WAIT = 1.0  # seconds between looks at the trials of other processes


def search(
    task: str,
    *,
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
        task: its name, or the path of its file.
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
        >>> from unicornn.lab.search import search
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     study = search("digits", folder=folder, trials=2, epochs=1, settings={"hidden_size": 8})
        >>> len(study.trials), sorted(study.best.parameters)
        (2, ['alpha', 'batch_size', 'dropout', 'dt', 'lr'])
    """
    folder, changes = Path(folder), dict(settings or {}) | ({"epochs": epochs} if epochs is not None else {})
    plan = make_plan(
        task, model=model, variant=variant, seed=seed, budget=budget, settings=changes, space=space or {},
        sampler=sampler, pruner=pruner, trials=trials,
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    url = storage or f"sqlite:///{(folder / 'study.db').resolve()}"
    with _quiet(), Shown(console, plan.task.metric, trials) as shown:
        kept = Kept(url, f"{plan.task.name}/{folder.resolve().name}", plan, _pruner(plan))
        try:
            if not kept.study.get_trials(deepcopy=False) and (folder / "trials").exists():
                raise BadValue(f"folder: {folder} has trials that the database does not know; name another --out")
            return _search(kept, plan, folder, source, shown)
        except KeyboardInterrupt:
            shown.say("stopped; the same command goes on")
            raise
        finally:
            kept.close()


def _search(kept: Kept, plan: Plan, folder: Path, source: Source | None, shown: Shown) -> Study:
    study, waiting = _write(kept, plan, folder), False
    while True:
        kept.give_up_the_dead()
        finished, running = len(kept.trials(*FINISHED)), len(kept.trials(TrialState.RUNNING))
        if finished != len(study.trials):  # other processes'
            study = _write(kept, plan, folder)
        shown.so_far(study)
        if finished >= plan.trials:
            return study
        if finished + running < plan.trials:
            study, waiting = _next(kept, plan, folder, source, shown) or study, False
            continue
        if not waiting:
            shown.say(f"waiting for {running} of other processes' trials")
        waiting = True
        time.sleep(WAIT)


def _next(kept: Kept, plan: Plan, folder: Path, source: Source | None, shown: Shown) -> Study | None:
    """One more trial, and the study with it; None if it was another process's."""
    trial = kept.ask()
    if kept.surplus(trial, plan.trials):
        kept.fail(trial, again=False)
        return None
    try:
        with kept.alive(trial):
            state, value = _try(trial, kept.study, plan, folder, source, shown)
    except UpdateFinishedTrialError:  # taken for dead, and tried again elsewhere
        return None
    except BaseException:
        kept.fail(trial, again=True)
        raise
    told = kept.study.tell(trial, value, state, skip_if_finished=True)
    if told.state not in FINISHED:
        return None
    study = _write(kept, plan, folder)
    shown.over(study, _trial(told, plan))
    return study


def _try(
    trial: optuna.Trial, study: optuna.Study, plan: Plan, folder: Path, source: Source | None, shown: Shown
) -> tuple[TrialState, float | None]:
    """Trains with what was drawn: how it ended, and the best validation metric."""
    # From here on: processes that share a search draw different parameters, and a search that goes on, the same.
    seed = mixed(plan.seed, trial.number) % 2**32
    random = plan.sampler == "random"
    study.sampler = optuna.samplers.RandomSampler(seed) if random else optuna.samplers.TPESampler(seed=seed)
    parameters = {name: draw(trial, name, axis) for name, axis in plan.axes.items()}
    trial.set_user_attr("parameters", parameters)
    shown.now(f"trial {trial.number}")
    try:
        run = train(
            plan.config(parameters), folder / "trials" / f"{trial.number:05d}", task=plan.task, source=source,
            after_epoch=Watch(trial, plan.epochs, shown), test=False,
        )  # fmt: skip
    except optuna.TrialPruned:
        return TrialState.PRUNED, None
    except (Diverged, torch.OutOfMemoryError) as error:
        trial.set_user_attr("failed", str(error))
    else:
        return TrialState.COMPLETE, run.result["valid"]
    return TrialState.PRUNED, None  # TPE ranks these last, and would not learn from a FAIL


def _pruner(plan: Plan) -> optuna.pruners.BasePruner:
    if plan.pruner == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=plan.epochs // 10)
    if plan.pruner == "hyperband":
        return optuna.pruners.HyperbandPruner(max_resource=plan.epochs)
    return optuna.pruners.NopPruner()


def _write(kept: Kept, plan: Plan, folder: Path) -> Study:
    done = [_trial(trial, plan) for trial in kept.trials(*FINISHED)]
    study = dataclasses.replace(plan.study(), trials=done)
    if study.best is not None:
        study = dataclasses.replace(study, command=plan.command(study.best.parameters))
    if len(study.ranked()) >= ENOUGH and len(plan.axes) > 1:
        shares = get_param_importances(kept.study, evaluator=FanovaImportanceEvaluator(seed=0))
        study = dataclasses.replace(study, importances={name: float(share) for name, share in shares.items()})
    study.write(folder / "study.json")
    return study


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
