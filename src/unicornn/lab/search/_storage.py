"""Where a search is kept, so that it can be killed and shared: Optuna's tables in SQLite, PostgreSQL or the like.

A process that works on a trial says every few seconds that it is alive. When it has not for a while, its trial is given
up by the others, and its parameters are tried again. Optuna does both; what it leaves open is closed here.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from unicornn.errors import BadValue
from unicornn.lab.search._plan import Plan

HEARTBEAT = 10  # seconds
GRACE = 60  # seconds without a heartbeat, after which a process is taken for dead
ATTEMPTS = 5  # at opening: processes that start together make the tables at the same time
RETRIES = 2  # of parameters whose process died: they may be what killed it
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)


@contextlib.contextmanager
def stored_study(url: str, name: str, plan: Plan) -> Iterator[optuna.Study]:
    """The study with this name in the database, new or begun; its plan must be the same."""
    storage = open_storage(url)
    try:
        study = optuna.create_study(
            storage=storage, study_name=name, pruner=_pruner(plan), load_if_exists=True,
            direction="maximize" if plan.task.metric.more_is_better else "minimize",
        )  # fmt: skip
        old, new = study.user_attrs.get("about"), plan.about()
        if old is None:
            study.set_user_attr("about", new)
        elif different := [f"{k} was {old.get(k)}, is {v}" for k, v in new.items() if old.get(k) != v]:
            raise BadValue(f"search: the one that is there has other settings: {'; '.join(different)}")
        yield study
    finally:
        storage.remove_session()
        storage.engine.dispose()


def trials_in(study: optuna.Study, *states: TrialState) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=states)


def surplus(study: optuna.Study, trial: optuna.Trial, asked: int) -> bool:
    """Whether as many trials as were asked for came before this one: another process was quicker."""
    there = trials_in(study, *FINISHED, TrialState.RUNNING, TrialState.WAITING)
    return sum(each.number < trial.number for each in there) >= asked


def give_up_the_dead(study: optuna.Study) -> None:
    """Trials of processes that are no more fail, and their parameters are tried again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        optuna.storages.fail_stale_trials(study)
    for trial in trials_in(
        study, TrialState.RUNNING
    ):  # killed before its first heartbeat, which Optuna does not notice
        age = datetime.now() - (trial.datetime_start or datetime.now())
        if not trial.params and age > timedelta(seconds=GRACE):
            study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)


def _pruner(plan: Plan) -> optuna.pruners.BasePruner:
    if plan.pruner == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=plan.epochs // 10)
    if plan.pruner == "hyperband":
        return optuna.pruners.HyperbandPruner(max_resource=plan.epochs)
    return optuna.pruners.NopPruner()


def open_storage(url: str) -> RDBStorage:
    try:
        where = make_url(url)
    except ArgumentError:
        raise BadValue(
            "storage: expected the URL of a database, such as postgresql+psycopg://user@host/name, got something else"
        ) from None
    options: dict[str, Any] = {"pool_pre_ping": True}
    if where.get_backend_name() == "sqlite":
        options["connect_args"] = {"timeout": GRACE}  # while another process writes
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                return RDBStorage(
                    url, options, heartbeat_interval=HEARTBEAT, grace_period=GRACE,
                    heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(max_retry=RETRIES),
                )  # fmt: skip
        except ImportError as error:
            missing = getattr(error.__cause__, "name", None) or where.drivername
            raise BadValue(f"storage: {where.drivername} needs {missing}, which is not installed") from None
        except (SQLAlchemyError, StorageInternalError) as error:
            if attempt == ATTEMPTS:
                shown = where.render_as_string(hide_password=True)
                raise BadValue(f"storage: cannot open {shown}: {error.__cause__ or error}") from None
            time.sleep(0.2 * attempt)
    raise AssertionError("unreachable")
