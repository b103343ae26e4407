"""Fixtures of the search's tests."""

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk():
    """SQLite without fsync: a process may be killed all the same, only the machine must not."""

    def relaxed(connection, _):
        if type(connection).__module__ == "sqlite3":
            connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", relaxed)
    yield
    event.remove(Engine, "connect", relaxed)
