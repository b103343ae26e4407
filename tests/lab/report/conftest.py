"""Fixtures of the report's tests."""

import pytest

from tests.lab.report.helpers import replace_tasks, write_many
from unicornn.lab.report import _page, report


@pytest.fixture
def known_tasks(monkeypatch):
    replace_tasks(monkeypatch)


@pytest.fixture
def no_plots(monkeypatch):
    """Drawing takes most of the time."""
    monkeypatch.setattr(_page, "_group_plots", lambda *_: iter(()))


@pytest.fixture(scope="session")
def everything(tmp_path_factory):
    """A page about runs of every kind."""
    root = tmp_path_factory.mktemp("everything")
    with pytest.MonkeyPatch.context() as patch:
        replace_tasks(patch)
        write_many(root / "runs")
        return report([root / "runs"], root / "report.html")
