"""Searches that are interrupted, killed or shared: no trial is lost, none is run twice."""

import os
import signal
import sys
import time
from typing import Any

import optuna
import pytest

from tests.lab.search.helpers import (
    numbers,
    parameters_of,
    run_search,
    start_process,
)
from unicornn.lab._lock import locked
from unicornn.lab._run_folder import Run
from unicornn.lab._study import STUDY_NAME, quiet_optuna
from unicornn.lab.errors import InUse
from unicornn.lab.search import _storage, read_study


def wait_for_trial(worker, folder, number):
    path = folder / "trials" / f"{number:05d}" / "config.json"
    while not path.exists():
        assert worker.poll() is None, "it ended too early"
        time.sleep(0.01)


@pytest.mark.slow
def test_two_processes_share_a_search(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["unicornn", "here"])
    worker = start_process(tmp_path / "search", 8)
    try:
        wait_for_trial(worker, tmp_path / "search", 0)
        mine = run_search(tmp_path / "search", trials=8, epochs=2, settings={"n": "200", "N": "60"})
        assert worker.wait(60) == 0
    finally:
        worker.kill()
    assert 8 <= len(set(parameters_of(mine))) == len(numbers(mine)) <= 9
    commands = [Run(tmp_path / f"search/trials/{number:05d}").config["command"] for number in numbers(mine)]
    assert {command.split()[1] for command in commands} == {"search", "here"}, "both have trained"


def test_ctrl_c_stops_cleanly_and_the_trial_is_repeated(tmp_path, monkeypatch):
    handler, report = signal.getsignal(signal.SIGINT), optuna.Trial.report

    def interrupted(self, value, step):
        if self.number == 1:
            raise KeyboardInterrupt
        report(self, value, step)

    with monkeypatch.context() as patch:
        patch.setattr(optuna.Trial, "report", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_search(tmp_path / "search")
    assert signal.getsignal(signal.SIGINT) is handler
    assert numbers(read_study(tmp_path / "search")) == [0]
    study = run_search(tmp_path / "search")
    assert numbers(study) == [0, 2, 3]
    assert study.trials[2].params["lr"] == Run(tmp_path / "search/trials/00001").config["training"]["lr"]


@pytest.fixture
def database(tmp_path):
    """The study in the folder ``search``, as another process sees it, after one trial."""
    run_search(tmp_path / "search", trials=1)
    with quiet_optuna():
        opened: Any = _storage.open_storage(f"sqlite:///{tmp_path / 'search/study.db'}")
        yield optuna.load_study(study_name=STUDY_NAME, storage=opened)
        opened.remove_session()
        opened.engine.dispose()


@pytest.mark.filterwarnings("ignore:Heartbeat of storage")
@pytest.mark.usefixtures("without_training")
def test_a_trial_of_a_dead_process_is_repeated(tmp_path, database, monkeypatch):
    monkeypatch.setattr(_storage, "HEARTBEAT", 1)
    monkeypatch.setattr(_storage, "GRACE", 2)
    lost = database.ask()
    database._storage.record_heartbeat(lost._trial_id)
    lost.suggest_float("lr", 1e-4, 1e-1, log=True)
    time.sleep(3)
    study = run_search(tmp_path / "search", trials=2)
    assert numbers(study) == [0, 2]
    assert study.trials[2].params["lr"] == lost.params["lr"]


@pytest.mark.usefixtures("without_training")
def test_a_journal_is_shared_by_folders(tmp_path):
    """Each folder has its own trials and a copy of the whole search."""
    storage = f"journal:{tmp_path / 'shared'}"
    run_search(tmp_path / "one/search", trials=2, storage=storage)
    study = run_search(tmp_path / "two/search", trials=3, storage=storage)
    assert numbers(study) == numbers(read_study(tmp_path / "two/search")) == [0, 1, 2]
    assert len(numbers(read_study(tmp_path / "one/search"))) == 2


def test_a_trial_folder_in_use_is_named(tmp_path):
    """Processes share the folder of a search, but never that of a trial, regardless of the database they use."""
    run_search(tmp_path / "search", trials=1)
    with locked(tmp_path / "search/trials/00001"), pytest.raises(InUse, match=rf"in use by process {os.getpid()} on "):
        run_search(tmp_path / "search", trials=2)
    assert len(numbers(run_search(tmp_path / "search", trials=2))) == 2
