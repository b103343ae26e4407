"""Commands for training, searching and reporting."""

import os
from pathlib import Path

import pytest

from tests.lab.cli.helpers import error_of, unicornn
from tests.lab.search.helpers import imagined_training
from tests.lab.training import helpers
from unicornn.errors import Diverged
from unicornn.lab import cli
from unicornn.lab.search import _search, read_study


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNICORNN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(cli.console, "width", 300)


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
        (["train", "digitz"], "did you mean 'digits'"),
        (["train", "digits", "--budget", "soon"], "budget: "),
        (["train", "digits", "--resume"], "there is no"),
        (["evaluate", "nowhere"], "nowhere"),
        (["train", "psmnist"], "train-images-idx3-ubyte"),
        ([*SEARCH, "--range", "lr"], "NAME=LOW,HIGH"),
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
