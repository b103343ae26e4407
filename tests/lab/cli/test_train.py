"""Commands for training, searching and reporting."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.lab.cli.helpers import error_of, unicornn
from tests.lab.search.helpers import imagined_training
from tests.lab.training import helpers
from unicornn.errors import Diverged
from unicornn.lab import cli
from unicornn.lab.search import _search, read_study
from unicornn.lab.training import resolve, train

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
