"""`unicornn search` as a user would use it."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.lab.search.helpers import imagined_training
from tests.lab.training import helpers as small
from unicornn.errors import Diverged
from unicornn.lab import cli
from unicornn.lab.search import _search as run
from unicornn.lab.search import read_study


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.console, "width", 300)
    monkeypatch.setattr(run, "train", imagined_training)


def unicornn(*arguments):
    """Runs a command in this process: all that it says."""
    outcome = CliRunner().invoke(cli.app, [str(a) for a in arguments], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_from_search_to_report(tmp_path):
    options = ["--epochs", 1, "--range", "lr=1e-4,1e-2", "--range", "batch_size=32", "--set", "hidden_size=4"]
    said = unicornn("search", small.__file__, "--trials", 2, *options)
    folder = tmp_path / "runs/small/search-unicornn-batch_size=32-hidden_size=4-lr=1e-4,1e-2-seed0"
    study = read_study(folder / "study.json")
    assert f"Which was larger: search, unicornn, 2 trials, in {folder.relative_to(tmp_path)}" in said
    assert f"trial {study.best.number}; with the test set:\n{study.command}\n" in said
    assert "--set hidden_size=4 --set epochs=1 --set batch_size=32 --set lr=" in study.command
    assert set(study.space) == {"lr", "dropout", "dt", "alpha"}
    assert all(1e-4 <= trial.parameters["lr"] <= 1e-2 for trial in study.trials)
    assert "3/3" in unicornn("search", small.__file__, "--trials", 3, *options)
    unicornn("report", "runs", "--out", "page.html")
    assert "3 of 3 trials" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--range", "lern=3"], "--range: expected one of lr, dropout"),
        (["--range", "lr"], "NAME=LOW,HIGH"),
        (["--sampler", "grid"], "sampler: expected one of 'random', 'tpe', got 'grid'"),
        (["--budget", "soon"], "budget: expected a time such as 90s"),
        (["--storage", "somewhere"], "storage: expected the URL of a database"),
    ],
)
def test_mistakes_get_one_message_and_a_status(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["unicornn", "search", small.__file__, *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    assert message in capsys.readouterr().err


def test_a_search_whose_trials_all_failed_has_a_status(monkeypatch, capsys):
    def failing(*_, **__):
        raise Diverged("loss: nan in epoch 1")

    monkeypatch.setattr(run, "train", failing)
    monkeypatch.setattr(sys, "argv", ["unicornn", "search", small.__file__, "--trials", "2"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    said = capsys.readouterr().err
    assert "search: none of 2 trials was complete. The first reason: loss: nan in epoch 1" in said


@pytest.mark.parametrize("title", ["[/bold]", "[red]", "a [link] [", "\\[b]"])
def test_names_are_never_markup(tmp_path, title):
    text = Path(small.__file__).read_text().replace('title="Which was larger"', f"title={title!r}")
    folder = tmp_path / "[b]here[/b]"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(text)
    said = unicornn("search", folder / "mine.py", "--trials", 1, "--epochs", 1, "--out", folder / "[i]search")
    assert f"{title}: search, unicornn, 1 trials, in {folder / '[i]search'}" in said
    said = unicornn("data", folder / "mine.py")
    assert "small: train 50, valid 24, test 40 sequences" in said
