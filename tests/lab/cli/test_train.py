"""Commands for training, searching and reporting."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.lab.cli.helpers import error_of, unicornn
from tests.lab.search.helpers import imagined_training
from tests.lab.training import helpers
from unicornn.errors import Diverged
from unicornn.lab import cli
from unicornn.lab._run_folder import Run
from unicornn.lab.search import _search, read_study
from unicornn.lab.training import resolve, train
from unicornn.lab.training._checkpoint import read

COMMAND = [sys.executable, "-m", "unicornn"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNICORNN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(cli.console, "width", 300)


def as_a_process(*arguments, **options):
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)


def test_from_training_to_report():
    output = unicornn("train", helpers.__file__, "--epochs", 2, "--seed", 3, "--set", "dt=0.2")
    assert "test accuracy" in output
    assert "epoch 2/2" in output
    run = os.path.join("runs", "small", "unicornn-dt=0.2-seed3")
    output = unicornn("evaluate", run, "--split", "valid", "--task", helpers.__file__)
    assert "valid accuracy" in output
    output = unicornn("diagnose", run, "--task", helpers.__file__)
    assert "initial state recovered by inverting 20 steps" in output
    assert "bit for bit" in output
    assert "largest Lyapunov exponent" in output
    assert "needs 200 steps" in output
    assert os.path.getsize(os.path.join(run, "diagnosis.png")) > 10_000
    output = unicornn("report", "runs", "--out", "page.html")
    assert "Which was larger" in Path("page.html").read_text()


def test_energy_readout_and_spread_time_scales():
    settings = ("--set", "readout=last+energy(segments=2)", "--set", "init=spread", "--set", "patch=2")
    unicornn("train", helpers.__file__, "--epochs", 2, *settings, "--out", "run")
    options = json.loads(Path("run/config.json").read_text())["model_options"]
    assert (options["readout"], options["init"]) == ("last+energy(segments=2)", "spread")
    for command in ("evaluate", "diagnose"):
        unicornn(command, "run", "--task", helpers.__file__)


@pytest.mark.slow
def test_bench():
    sizes = ["--length", 8, "--batch-size", 2, "--hidden-size", 4, "--seconds", 0.1]
    output = unicornn("bench", "lstm", *sizes, "--out", "bench")
    assert "lstm" in output
    assert {p.name for p in Path("bench").iterdir()} == {"bench.json", "bench.png"}


def test_tasks_are_listed_with_the_papers_results(monkeypatch):
    monkeypatch.setattr(cli.console, "width", 80)  # names are complete
    output = unicornn("tasks")
    for name in ("digits", "digits-noise", "lorenz96", "psmnist", "cifar10-noise", "eigenworms", "worms44", "bidmc-rr",
                 "bidmc-hr", "imdb"):  # fmt: skip
        assert name in output
    monkeypatch.setattr(cli.console, "width", 300)
    assert "98.4 %" in unicornn("tasks")


def test_data_reports_the_size_of_the_splits():
    output = unicornn("data", "digits")
    assert "train 1,077, valid 360, test 360 sequences" in output


SEARCH = ["search", helpers.__file__]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "digits", "--set", "lern=3"], "lern"),
        (["train", "digits", "--set", "lr"], "NAME=VALUE"),
        (["train", "digitz"], "did you mean 'digits'"),
        (["train", "digits", "--budget", "soon"], "budget: "),
        (["train", "digits", "--resume"], "there is no"),
        (["evaluate", "nowhere"], "nowhere"),
        (["report", "nowhere"], "nowhere"),
        (["train", "psmnist"], "train-images-idx3-ubyte"),
        ([*SEARCH, "--range", "lern=3"], "--range: "),
        ([*SEARCH, "--range", "lr"], "NAME=LOW,HIGH"),
        ([*SEARCH, "--sampler", "grid"], "sampler: "),
        ([*SEARCH, "--budget", "soon"], "budget: "),
        ([*SEARCH, "--storage", "somewhere"], "storage: "),
    ],
)
def test_mistakes_get_one_message_and_a_status(arguments, message, monkeypatch, capsys):
    assert message in error_of(arguments, monkeypatch, capsys)


def test_a_full_disk_is_reported(monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("unicornn._files.os.fsync", full)
    assert "disk is full" in error_of(["train", helpers.__file__, "--out", "run"], monkeypatch, capsys)


def test_from_search_to_report(tmp_path, monkeypatch):
    monkeypatch.setattr(_search, "train", imagined_training)
    options = ["--epochs", 1, "--range", "lr=1e-4,1e-2", "--range", "batch_size=32", "--set", "hidden_size=4"]
    output = unicornn(*SEARCH, "--trials", 2, *options)
    folder = tmp_path / "runs/small/search-unicornn-batch_size=32-hidden_size=4-lr=1e-4,1e-2-seed0"
    study = read_study(folder)
    assert f"Which was larger: search, unicornn, 2 trials, in {folder.relative_to(tmp_path)}" in output
    assert f"trial {study.best_trial.number}" in output
    command = study.best_trial.user_attrs["command"]
    assert f"\n{command}\n" in output
    assert "--set hidden_size=4 --set epochs=1 --set batch_size=32 --set lr=" in command
    assert set(study.best_params) == {"lr", "dropout", "dt", "alpha"}
    assert all(1e-4 <= trial.params["lr"] <= 1e-2 for trial in study.trials)
    assert "3/3" in unicornn(*SEARCH, "--trials", 3, *options)
    unicornn("report", "runs", "--out", "page.html")
    assert "3 of 3 trials" in (tmp_path / "page.html").read_text()


def test_a_search_whose_trials_all_failed_has_a_status(monkeypatch, capsys):
    def failing(*_, **__):
        raise Diverged("loss: nan in epoch 1")

    monkeypatch.setattr(_search, "train", failing)
    assert "loss: nan in epoch 1" in error_of([*SEARCH, "--trials", 2], monkeypatch, capsys)


def test_the_command_and_the_function_train_alike(tmp_path):
    done = as_a_process("train", helpers.__file__, "--epochs", 1, "--model", "lstm", "--out", "command")
    assert done.returncode == 0, done.stderr
    config = resolve(helpers.TASK, model="lstm", settings={"epochs": 1})
    run = train(config, tmp_path / "function", task=helpers.TASK)
    one, other = (load_file(path / "best.safetensors") for path in (tmp_path / "command", run.path))
    assert all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.slow
def test_kill_9_in_the_middle_of_an_epoch_then_resume():
    arguments = ["train", helpers.__file__, "--epochs", "4", "--set", "n=400", "--set", "N=100", "--seed", "5"]
    assert as_a_process(*arguments, "--out", "uninterrupted").returncode == 0
    process = subprocess.Popen([*COMMAND, *arguments, "--out", "killed"], stdout=subprocess.DEVNULL)
    while not os.path.exists("killed/last.ckpt"):
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.01)
    time.sleep(0.05)  # an epoch takes longer
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not os.path.exists("killed/result.json")
    resumed = as_a_process(*arguments, "--out", "killed", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "epoch 1/4" not in resumed.stdout
    assert "epoch 4/4" in resumed.stdout
    for name in ("best.safetensors", "last.ckpt"):
        one, other = (
            load_file(f"{run}/{name}") if name.startswith("best") else read(Path(run, name)).tensors
            for run in ("uninterrupted", "killed")
        )
        assert one.keys() == other.keys()
        assert all(torch.equal(one[k], other[k]) for k in one)
    curves = [Run(name).metrics.drop(columns="seconds") for name in ("uninterrupted", "killed")]
    assert curves[0].equals(curves[1])
