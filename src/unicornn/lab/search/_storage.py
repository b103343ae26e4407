"""Where a search is kept, so that it can be killed and shared: Optuna's tables in SQLite, PostgreSQL or the like.

A process that works on a trial says every few seconds that it is alive. When it has not for a while, its trial is given
up by the others, and its parameters are tried again.
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage
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


class Kept:
    """A study in its storage.

    Args:
        url: of the database.
        name: of the study in it.
        plan: must be that of the study, if there is one already.
    """

    def __init__(self, url: str, name: str, plan: Plan, pruner: optuna.pruners.BasePruner) -> None:
        self.storage = _open(url)
        self.study = optuna.create_study(
            storage=self.storage, study_name=name, pruner=pruner, load_if_exists=True,
            direction="maximize" if plan.task.metric.more_is_better else "minimize",
        )  # fmt: skip
        old, new = self.study.user_attrs.get("about"), plan.about()
        if old is None:
            self.study.set_user_attr("about", new)
        elif different := [f"{k} was {old.get(k)}, is {v}" for k, v in new.items() if old.get(k) != v]:
            self.close()
            raise BadValue(f"search: the one in {name} has other settings: {'; '.join(different)}")

    def close(self) -> None:
        self.storage.remove_session()
        self.storage.engine.dispose()

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=states)

    def ask(self) -> optuna.Trial:
        """A new trial, or one whose parameters are to be tried again."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Heartbeat of storage is supposed")  # it has one: ``alive``
            trial = self.study.ask()
        self.storage.record_heartbeat(trial._trial_id)
        trial.set_user_attr("begun", True)
        return trial

    def surplus(self, trial: optuna.Trial, asked: int) -> bool:
        """Whether as many trials as were asked for came before this one: another process was quicker."""
        there = self.trials(*FINISHED, TrialState.RUNNING, TrialState.WAITING)
        return sum(each.number < trial.number for each in there) >= asked

    @contextlib.contextmanager
    def alive(self, trial: optuna.Trial) -> Iterator[None]:
        """Says so, until the trial is over."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(HEARTBEAT):
                with contextlib.suppress(SQLAlchemyError, StorageInternalError):  # the next one may arrive
                    self.storage.record_heartbeat(trial._trial_id)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def give_up_the_dead(self) -> None:
        """Trials of processes that are no more fail, and their parameters are tried again."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            optuna.storages.fail_stale_trials(self.study)
        for trial in self.trials(TrialState.RUNNING):  # killed before its first heartbeat
            age = datetime.now() - (trial.datetime_start or datetime.now())
            if "begun" not in trial.user_attrs and age > timedelta(seconds=GRACE):
                self.study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)

    def fail(self, trial: optuna.Trial, *, again: bool) -> None:
        self.study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
        if again:
            frozen = self.study.get_trials(deepcopy=False)[trial.number]
            _queue(self.study, frozen, frozen.user_attrs.get("killed", 0))


def _after_a_death(study: optuna.Study, trial: FrozenTrial) -> None:
    if (killed := trial.user_attrs.get("killed", 0) + 1) <= RETRIES:
        _queue(study, trial, killed)


def _queue(study: optuna.Study, trial: FrozenTrial, killed: int) -> None:
    """The parameters of a trial that did not come to its end are tried again."""
    if trial.params:
        again = optuna.create_trial(
            state=TrialState.WAITING, params=trial.params, distributions=trial.distributions,
            user_attrs={"killed": killed},
        )  # fmt: skip
        study.add_trial(again)


def _open(url: str) -> RDBStorage:
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
                    heartbeat_stale_trial_callback=_after_a_death,
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
