"""Searches that are interrupted, killed or shared: nothing is lost, nothing is done twice."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import optuna
import pytest
from optuna.trial import TrialState

from tests.lab.search.helpers import imagined_training, parameters_of, run_search
from tests.lab.training import helpers as small
from unicornn.lab._lock import locked
from unicornn.lab._run_folder import Run
from unicornn.lab.errors import InUse
from unicornn.lab.search import _progress as progress
from unicornn.lab.search import _search as run
from unicornn.lab.search import _storage as storage
from unicornn.lab.search import read_study


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(storage, "HEARTBEAT", 1)
    monkeypatch.setattr(storage, "GRACE", 2)
    monkeypatch.setattr(run, "WAIT", 0.1)


def process(folder, trials, **options):
    """`unicornn search` beside this one, with trials that take a while."""
    arguments = ["--trials", str(trials), "--epochs", "2", "--set", "n=200", "--set", "N=60", "--out", str(folder)]
    command = [sys.executable, "-m", "unicornn", "search", small.__file__, *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, **options)


def the_same(folder, trials):
    return run_search(folder, trials=trials, epochs=2, settings={"n": "200", "N": "60"})


def trial_under_way(worker, folder, number):
    path = folder / "trials" / f"{number:05d}" / "config.json"
    while not path.exists():
        assert worker.poll() is None, "it ended too early"
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_kill_9_then_the_same_again(tmp_path):
    worker = process(tmp_path / "search", 4)
    trial_under_way(worker, tmp_path / "search", 1)
    worker.send_signal(signal.SIGKILL)
    assert worker.wait() == -signal.SIGKILL
    before = read_study(tmp_path / "search/study.json")
    assert [trial.number for trial in before.trials] == [0]
    killed = Run(tmp_path / "search/trials/00001").config["training"]["lr"]
    study = the_same(tmp_path / "search", 4)
    assert study.trials[0] == before.trials[0]
    assert len(set(parameters_of(study))) == len(study.trials) == 4
    assert 1 not in [trial.number for trial in study.trials]
    assert [trial.parameters["lr"] for trial in study.trials].count(killed) == 1


@pytest.mark.slow
def test_two_processes_share_a_search(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["unicornn", "here"])
    worker = process(tmp_path / "search", 8)
    try:
        trial_under_way(worker, tmp_path / "search", 0)
        mine = the_same(tmp_path / "search", 8)
        assert worker.wait(60) == 0
    finally:
        worker.kill()
    theirs = read_study(tmp_path / "search/study.json")
    assert theirs.trials == mine.trials
    assert len(set(parameters_of(mine))) == len(mine.trials) == 8
    by = {Run(tmp_path / f"search/trials/{t.number:05d}").config["command"].split()[1] for t in mine.trials}
    assert by == {"search", "here"}, "both have worked"


def test_tables_are_made_by_several_at_once(tmp_path):
    url, together, opened = f"sqlite:///{tmp_path / 'study.db'}", threading.Barrier(4), []

    def open_it():
        together.wait()
        opened.append(storage.open_storage(url))

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 4
    for each in opened:
        each.engine.dispose()


def test_ctrl_c_stops_cleanly_and_the_trial_is_tried_again(tmp_path, monkeypatch):
    answer = signal.getsignal(signal.SIGINT)

    def interrupted(self, row):
        if self.trial.number == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(progress.EpochReport, "__call__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_search(tmp_path / "search")
    assert signal.getsignal(signal.SIGINT) is answer
    assert len(read_study(tmp_path / "search/study.json").trials) == 1
    study = run_search(tmp_path / "search")
    assert [trial.number for trial in study.trials] == [0, 2, 3]
    tried = Run(tmp_path / "search/trials/00001").config["training"]["lr"]
    assert study.trials[1].parameters["lr"] == tried


def test_an_error_is_raised_and_the_trial_tried_again(tmp_path, monkeypatch):
    def full(config, folder, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(run, "train", full)
        for _ in range(4):  # any number of times
            with pytest.raises(OSError, match="No space"):
                run_search(tmp_path / "search")
    monkeypatch.setattr(run, "train", imagined_training)
    study = run_search(tmp_path / "search")
    assert len(study.trials) == 3
    assert parameters_of(study)[0] == parameters_of(run_search(tmp_path / "whole"))[0]


@contextlib.contextmanager
def database(folder):
    """The study behind the search's back."""
    there = storage.open_storage(f"sqlite:///{folder / 'study.db'}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Heartbeat of storage")
        yield optuna.load_study(study_name=run.NAME, storage=there)
    there.remove_session()
    there.engine.dispose()


def give_up(folder, number):
    with database(folder) as study:
        study.tell(number, state=TrialState.FAIL)


def test_a_trial_that_was_taken_for_dead_does_not_count_twice(tmp_path, monkeypatch):
    def slow(config, folder, **options):
        if folder.name == "00001":  # another process gives it up
            give_up(tmp_path / "search", 1)
        return imagined_training(config, folder, **options)

    monkeypatch.setattr(run, "train", slow)
    study = run_search(tmp_path / "search")
    assert [trial.number for trial in study.trials] == [0, 2, 3]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("told", [True, False])
def test_trials_of_the_dead_are_not_waited_for(tmp_path, monkeypatch, told):
    """A process that died within its trial, and one that died before it could say that it was alive."""
    monkeypatch.setattr(run, "train", imagined_training)
    run_search(tmp_path / "search", trials=1)
    with database(tmp_path / "search") as study:
        lost = study.ask()
        if told:
            study._storage.record_heartbeat(lost._trial_id)
            lost.suggest_float("lr", 1e-4, 1e-1, log=True)
    study = run_search(tmp_path / "search", trials=2)
    assert [trial.number for trial in study.trials] == [0, 2]
    if told:
        assert study.trials[1].parameters["lr"] == float(f"{lost.params['lr']:.3g}")


@pytest.mark.usefixtures("impatient")
def test_parameters_that_kill_are_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "train", imagined_training)
    run_search(tmp_path / "search", trials=1)
    killed = optuna.trial.create_trial(
        state=TrialState.FAIL,
        params={"lr": 0.01},
        distributions={"lr": optuna.distributions.FloatDistribution(1e-4, 1e-1, log=True)},
        system_attrs={"retry_history": list(range(storage.RETRIES))},
    )
    with database(tmp_path / "search") as study:
        after_a_death = study._storage.get_heartbeat_stale_trial_callback()
        after_a_death(study, killed)
        assert len(study.trials) == 1
        killed.system_attrs = {}
        after_a_death(study, killed)
        assert study.trials[1].state == TrialState.WAITING


def test_one_too_many_is_put_back(tmp_path, monkeypatch):
    """Two processes have seen that one more is needed, and both began."""
    seen = []

    def other_is_quicker(self):
        if not seen:
            seen.append("the other's")
            with database(tmp_path / "search") as study:
                ask(study)
        return ask(self)

    ask = optuna.Study.ask
    monkeypatch.setattr(run, "train", imagined_training)
    run_search(tmp_path / "search", trials=1)
    monkeypatch.setattr(optuna.Study, "ask", other_is_quicker)
    monkeypatch.setattr(time, "sleep", lambda _: give_up(tmp_path / "search", 1))
    study = run_search(tmp_path / "search", trials=2)
    assert [trial.number for trial in study.trials] == [0, 3]
    assert json.loads((tmp_path / "search/study.json").read_text())["asked"] == 2


@pytest.mark.parametrize("number", [0, 1])
def test_a_trial_that_was_given_up_after_its_last_epoch(tmp_path, monkeypatch, number):
    def slow(config, folder, **options):
        trained = imagined_training(config, folder, **options)
        if folder.name == f"{number:05d}":
            give_up(tmp_path / "search", number)
        return trained

    monkeypatch.setattr(run, "train", slow)
    study = run_search(tmp_path / "search")
    assert [trial.number for trial in study.trials] == [i for i in range(4) if i != number]


def test_a_search_folder_can_be_renamed(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "train", imagined_training)
    first = run_search(tmp_path / "search", trials=2)
    (tmp_path / "search").rename(tmp_path / "other")
    study = run_search(tmp_path / "other", trials=3)
    assert study.trials[:2] == first.trials
    assert parameters_of(study) == parameters_of(run_search(tmp_path / "whole", trials=3))


@pytest.mark.slow
def test_sigterm_stops_a_search_and_it_goes_on(tmp_path):
    worker = process(tmp_path / "search", 4, stderr=subprocess.PIPE, text=True)
    trial_under_way(worker, tmp_path / "search", 1)
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate(timeout=60)
    assert worker.returncode not in (0, -signal.SIGTERM)
    assert "the same command goes on" in said
    assert "Traceback" not in said
    assert len(the_same(tmp_path / "search", 4).trials) == 4


def test_a_trial_folder_in_use_is_named(tmp_path):
    """Processes share the folder of a search, but never that of a trial, whatever database they use."""
    run_search(tmp_path / "search", trials=1)
    with locked(tmp_path / "search/trials/00001"), pytest.raises(InUse, match=rf"in use by process {os.getpid()} on "):
        run_search(tmp_path / "search", trials=2)
    assert len(run_search(tmp_path / "search", trials=2).trials) == 2


def test_an_error_before_a_trial_begins_repeats_none(tmp_path, monkeypatch):
    asked, ask = [], optuna.Study.ask

    def gone_after_one(self):
        asked.append(self)
        if len(asked) > 1:
            raise OSError("the database is gone")
        return ask(self)

    monkeypatch.setattr(run, "train", imagined_training)
    with monkeypatch.context() as patch:
        patch.setattr(optuna.Study, "ask", gone_after_one)
        with pytest.raises(OSError, match="the database is gone"):
            run_search(tmp_path / "search")
    study = run_search(tmp_path / "search")
    assert len(set(parameters_of(study))) == 3
