"""`unicornn search` on the command line."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.lab.training import helpers as small
from unicornn.errors import Diverged
from unicornn.lab import cli
from unicornn.lab.search import _search, read_study

pytestmark = pytest.mark.usefixtures("without_training")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.console, "width", 300)


def unicornn(*arguments):
    """Runs a command in this process and returns its output."""
    outcome = CliRunner().invoke(cli.app, [str(a) for a in arguments], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_from_search_to_report(tmp_path):
    options = ["--epochs", 1, "--range", "lr=1e-4,1e-2", "--range", "batch_size=32", "--set", "hidden_size=4"]
    output = unicornn("search", small.__file__, "--trials", 2, *options)
    folder = tmp_path / "runs/small/search-unicornn-batch_size=32-hidden_size=4-lr=1e-4,1e-2-seed0"
    study = read_study(folder / "study.json")
    assert f"Which was larger: search, unicornn, 2 trials, in {folder.relative_to(tmp_path)}" in output
    assert f"trial {study.best.number}" in output
    assert f"\n{study.command}\n" in output
    assert "--set hidden_size=4 --set epochs=1 --set batch_size=32 --set lr=" in study.command
    assert set(study.space) == {"lr", "dropout", "dt", "alpha"}
    assert all(1e-4 <= trial.parameters["lr"] <= 1e-2 for trial in study.trials)
    assert "3/3" in unicornn("search", small.__file__, "--trials", 3, *options)
    unicornn("report", "runs", "--out", "page.html")
    assert "3 of 3 trials" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--range", "lern=3"], "--range: "),
        (["--range", "lr"], "NAME=LOW,HIGH"),
        (["--sampler", "grid"], "sampler: "),
        (["--budget", "soon"], "budget: "),
        (["--storage", "somewhere"], "storage: "),
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

    monkeypatch.setattr(_search, "train", failing)
    monkeypatch.setattr(sys, "argv", ["unicornn", "search", small.__file__, "--trials", "2"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    assert "loss: nan in epoch 1" in capsys.readouterr().err


@pytest.mark.parametrize("title", ["[/bold]", "[red]", "a [link] [", "\\[b]"])
def test_names_are_never_markup(tmp_path, title):
    text = Path(small.__file__).read_text().replace('title="Which was larger"', f"title={title!r}")
    folder = tmp_path / "[b]here[/b]"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(text)
    output = unicornn("search", folder / "mine.py", "--trials", 1, "--epochs", 1, "--out", folder / "[i]search")
    assert f"{title}: search, unicornn, 1 trials, in {folder / '[i]search'}" in output
    assert "small: train 50, valid 24, test 40 sequences" in unicornn("data", folder / "mine.py")
