"""Storage of a search, which lets it be stopped, resumed and shared: SQLite, PostgreSQL, or a journal in a folder.

A process that works on a trial records a heartbeat in the database. When the heartbeats stop, another process fails the
trial and queues its parameters again. Optuna implements this; this module configures it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.storages.journal import JournalFileBackend
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from unicornn.errors import BadValue

HEARTBEAT = 10  # seconds
GRACE = 60  # seconds without a heartbeat after which a process counts as dead
OPEN_ATTEMPTS = 5  # processes that start together create the tables at the same time
RETRIES = 2  # of parameters whose process died: they may be the reason
JOURNAL = "journal:"  # followed by a folder


def open_storage(url: str) -> BaseStorage:
    """Connects to a database, or opens the journal in a folder."""
    try:
        if url.startswith(JOURNAL):
            Path(url.removeprefix(JOURNAL)).mkdir(parents=True, exist_ok=True)
            return JournalStorage(JournalFileBackend(str(Path(url.removeprefix(JOURNAL), "journal.log"))))
        address = make_url(url)
    except (OSError, ArgumentError):
        raise BadValue(
            "storage: expected journal: and a folder that can be written, or the URL of a database, such as "
            "postgresql+psycopg://user@host/name, got something else"
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
