"""Fixtures of the search's tests."""

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from tests.lab.search.helpers import imagined_training
from unicornn.lab.search import _search


@pytest.fixture(autouse=True)
def _no_fsync():
    """SQLite without fsync: survives a killed process, though not a power failure."""

    def relaxed(connection, _):
        if type(connection).__module__ == "sqlite3":
            connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", relaxed)
    yield
    event.remove(Engine, "connect", relaxed)


@pytest.fixture
def without_training(monkeypatch):
    monkeypatch.setattr(_search, "train", imagined_training)
