"""Runs that are stopped, killed, out of time or out of disk space, and resume bit for bit."""

import itertools
import os
import resource
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from tests.lab.training import helpers
from tests.lab.training.helpers import after_each_step, config, evaluate, same, train, weights
from unicornn.errors import BadValue
from unicornn.lab.errors import Stopped
from unicornn.lab.training._checkpoint import read_checkpoint
from unicornn.lab.training._trainer import TaskTrainer

COMMAND = [sys.executable, "-m", "unicornn", "train", helpers.__file__]


def assert_same_run(a, b):
    """Two runs have the same weights, checkpoints and histories."""
    assert same(weights(a.path), weights(b.path))
    checkpoints = [read_checkpoint(run.path / "last.ckpt") for run in (a, b)]
    for part in ("network", "best", "average"):
        assert same(*(checkpoint[part] for checkpoint in checkpoints))
    for moments in zip(*(checkpoint["optimizer"]["state"].values() for checkpoint in checkpoints), strict=True):
        assert same(*moments)
    assert a.metrics.drop(columns="seconds").equals(b.metrics.drop(columns="seconds"))


STOPS = [(3, 0.0), (7, 0.9), (10, 0.9), (14, 0.0)]  # steps, of which an epoch has 7, and settings of the average


@pytest.mark.parametrize("how", ["killed", "SIGTERM"])
@pytest.mark.parametrize(("steps", "average"), STOPS)
def test_a_stopped_run_resumes_bit_for_bit(tmp_path, how, steps, average):
    """A killed run resumes after its last epoch, one that SIGTERM has stopped after its last batch."""

    def stop(trainer):
        if trainer.step == steps and how == "killed":
            raise KeyboardInterrupt
        if trainer.step == steps:
            os.kill(os.getpid(), signal.SIGTERM)

    whole, done = train(config(average=average), tmp_path / "whole"), []
    with after_each_step(stop), pytest.raises((KeyboardInterrupt, Stopped)) as stopped:
        train(config(average=average), tmp_path / "cut")
    if how == "SIGTERM":
        assert stopped.match(rf"in epoch {(steps + 6) // 7}, after batch \d of 7.*--resume")
    with after_each_step(lambda trainer: done.append(trainer.step)):
        cut = train(config(average=average), tmp_path / "cut", resume=True)
    assert done[0] == 1 + (steps if how == "SIGTERM" else (steps - 1) // 7 * 7)
    assert_same_run(whole, cut)


def test_sigterm_to_the_command(tmp_path):
    command = [*COMMAND, "--epochs", "500", "--set", "n=400", "--out", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "run/metrics.csv").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "stopped by SIGTERM in epoch" in errors
    assert "Traceback" not in errors
    assert (tmp_path / "run/last.ckpt").exists()
    assert not (tmp_path / "run/lock").exists()


def test_a_finished_run_can_be_prolonged(tmp_path):
    train(config(epochs=2), tmp_path / "run")
    longer = train(config(epochs=3), tmp_path / "run", resume=True)
    assert_same_run(longer, train(config(epochs=3), tmp_path / "whole"))
    with pytest.raises(BadValue, match=r"^epochs: .*at least the 3 .*got 2"):
        train(config(epochs=2), tmp_path / "run", resume=True)
    before = (longer.path / "result.json").stat().st_mtime_ns
    train(config(epochs=3), tmp_path / "run", resume=True)  # nothing left to do
    assert (longer.path / "result.json").stat().st_mtime_ns == before


def test_a_budget_ends_the_run_and_leaves_a_result(tmp_path, monkeypatch):
    clock = itertools.count()  # a hundredth of a second for each batch, however busy the machine is
    monkeypatch.setattr("unicornn.lab.training._trainer.time", SimpleNamespace(monotonic=lambda: next(clock) / 100))
    run = train(config(epochs=100_000, budget=1.0, schedule="cosine"), tmp_path / "run")
    assert run.result["stopped"] == "budget"
    assert run.metrics["lr"].iloc[-1] < 2e-3
    longer = train(config(epochs=100_000, budget=1.5, schedule="cosine"), tmp_path / "run", resume=True)
    assert longer.result["epochs"] > run.result["epochs"]
    assert longer.metrics["epoch"].is_unique


def test_a_larger_budget_resumes_in_the_middle_of_the_epoch(tmp_path, monkeypatch):
    """The weights of the epoch that was cut short are the best, but not those of the checkpoint."""
    whole = train(config(budget=1e6), tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(TaskTrainer, "out_of_time", property(lambda trainer: trainer.step >= 10))
        patch.setattr(TaskTrainer, "cost", lambda trainer, row: -row["epoch"])
        cut = train(config(budget=1.0), tmp_path / "cut")
    assert cut.result["stopped"] == "budget"
    assert cut.result["epochs"] == 2
    wrong = weights(cut.path)
    longer = train(config(budget=1e6), tmp_path / "cut", resume=True)
    assert not same(weights(longer.path), wrong)
    assert_same_run(longer, whole)
    assert evaluate(longer, "valid")[0] == longer.result["valid"]


def test_a_full_disk_keeps_the_last_complete_epoch(tmp_path):
    train(config(epochs=1), tmp_path / "run")
    before = (tmp_path / "run/last.ckpt").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))  # largest size of a file
    try:
        with pytest.raises(OSError, match="too large"):
            train(config(epochs=2), tmp_path / "run", resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "run/last.ckpt").read_bytes() == before
    assert not list((tmp_path / "run").glob(".*"))
    resumed = train(config(epochs=2), tmp_path / "run", resume=True)
    assert_same_run(resumed, train(config(epochs=2), tmp_path / "whole"))
