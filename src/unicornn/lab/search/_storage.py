"""Storage of a search, which lets it be stopped, resumed and shared: SQLite, PostgreSQL, or a journal in a folder.

A process that works on a trial records a heartbeat. When the heartbeats stop, another process fails the trial and
queues its parameters again. Optuna implements this; this module configures it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from unicornn.errors import BadValue

HEARTBEAT = 10  # seconds
GRACE = 60  # seconds without a heartbeat after which a process counts as dead
OPEN_ATTEMPTS = 5  # processes that start together create the tables at the same time
RETRIES = 2  # of parameters whose process died: they may be the reason
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
JOURNAL = "journal:"  # followed by a folder


@contextlib.contextmanager
def open_study(
    url: str, name: str, plan: Mapping[str, Any], direction: Any, pruner: optuna.pruners.BasePruner
) -> Iterator[tuple[optuna.Study, BaseStorage]]:
    """The study of this name in the database, created if necessary; its plan must be the same."""
    storage = open_storage(url)
    try:
        study = optuna.create_study(
            storage=storage, study_name=name, pruner=pruner, direction=direction, load_if_exists=True
        )
        old = study.user_attrs.get("plan")
        if old is None:
            study.set_user_attr("plan", plan)
        elif different := [f"{key} {old.get(key)}, got {plan[key]}" for key in plan if old.get(key) != plan[key]]:
            raise BadValue(f"search: expected the settings of the existing search, {'; '.join(different)}")
        yield study, storage
    finally:
        storage.remove_session()
        if isinstance(storage, RDBStorage):
            storage.engine.dispose()


def fail_stale_trials(study: optuna.Study) -> None:
    """Fails the trials of dead processes and queues their parameters again."""
    optuna.storages.fail_stale_trials(study)
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        age = datetime.now() - (trial.datetime_start or datetime.now())
        if not trial.params and age > timedelta(seconds=GRACE):  # died before its first heartbeat: Optuna ignores it
            study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)


class SharedJournal(JournalStorage, BaseHeartbeat):
    """Optuna's journal in a folder on a shared file system, whose clock tells the age of heartbeats."""

    def __init__(self, folder: Path) -> None:
        self._beats = folder / "heartbeats"
        self._beats.mkdir(parents=True, exist_ok=True)
        super().__init__(JournalFileBackend(str(folder / "journal.log")))

    def record_heartbeat(self, trial_id: int) -> None:
        (self._beats / str(trial_id)).touch()

    def _get_stale_trial_ids(self, study_id: int) -> list[int]:
        clock = self._beats / "clock"
        clock.touch()
        running = self.get_all_trials(study_id, deepcopy=False, states=(TrialState.RUNNING,))
        beats = {trial._trial_id: self._beats / str(trial._trial_id) for trial in running}
        oldest = clock.stat().st_mtime - GRACE
        return [i for i, beat in beats.items() if beat.exists() and beat.stat().st_mtime < oldest]

    def get_heartbeat_interval(self) -> int | None:
        return HEARTBEAT

    def get_heartbeat_stale_trial_callback(self) -> Any:
        return RetryHeartbeatStaleTrialCallback(max_retry=RETRIES)


def open_storage(url: str) -> BaseStorage:
    """Connects to a database, or opens the journal in a folder."""
    if url.startswith(JOURNAL):
        try:
            return SharedJournal(Path(url.removeprefix(JOURNAL)))
        except OSError as error:
            raise BadValue(
                f"storage: expected journal: and a folder that can be written, got {url!r}: {error}"
            ) from error
    try:
        address = make_url(url)
    except ArgumentError:
        raise BadValue(
            "storage: expected journal:FOLDER, or the URL of a database, such as postgresql+psycopg://user@host/name, "
            "got something else"
        ) from None
    options: dict[str, Any] = {"pool_pre_ping": True}
    if address.get_backend_name() == "sqlite":
        options["connect_args"] = {"timeout": GRACE}  # while another process writes
    retry = RetryHeartbeatStaleTrialCallback(max_retry=RETRIES)
    for attempt in range(1, OPEN_ATTEMPTS + 1):
        try:
            return RDBStorage(
                url, options, heartbeat_interval=HEARTBEAT, grace_period=GRACE, heartbeat_stale_trial_callback=retry
            )
        except ImportError as error:
            missing = getattr(error.__cause__, "name", None) or address.drivername
            raise BadValue(f"storage: {address.drivername} needs {missing}, which is not installed") from None
        except (SQLAlchemyError, StorageInternalError) as error:
            if attempt == OPEN_ATTEMPTS:
                safe_url = address.render_as_string(hide_password=True)
                raise BadValue(f"storage: cannot open {safe_url}: {error.__cause__ or error}") from None
            time.sleep(0.2 * attempt)
    raise AssertionError("unreachable")
