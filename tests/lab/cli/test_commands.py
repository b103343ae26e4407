"""The command line: what is said about a task of the user's own that cannot be used."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.lab.training import helpers
from unicornn.lab import cli


@pytest.fixture
def complain(tmp_path, monkeypatch, capsys):
    """Runs `unicornn train` on a task's file with some text replaced: the one message that it ends with."""

    def run(old, new, *arguments):
        text = Path(helpers.__file__).read_text()
        assert old in text
        (tmp_path / "mine.py").write_text(text.replace(old, new))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["unicornn", "train", "mine.py", "--epochs", "1", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 1
        said = capsys.readouterr().err
        assert said.startswith("error: ")
        assert "Traceback" not in said
        assert not list(tmp_path.rglob("metrics.csv")), "nothing was trained"
        return said

    return run


LOAD = "def load(source, options, seed):\n"


@pytest.mark.parametrize("at", ["import torch\n", LOAD])
def test_a_missing_import_of_the_users_own(complain, at):
    said = complain(at, f"{at}{'    ' if at == LOAD else ''}import nobody_has_this\n")
    assert "mine.py imports nobody_has_this, which is not installed" in said
    assert "unicornn[train]" not in said


def test_a_missing_import_of_ours(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    for name in [name for name in sys.modules if name.startswith("unicornn.lab.search")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "argv", ["unicornn", "search", "digits"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "optuna is not installed; try pip install 'unicornn[train]'" in capsys.readouterr().err


def test_an_empty_split(complain):
    assert "test: expected at least one sequence, got none" in complain('options["n"], 24, 40', 'options["n"], 24, 0')


@pytest.mark.parametrize(("number", "name"), [(0, "train"), (1, "valid"), (2, "test")])
def test_a_class_out_of_range(complain, number, name):
    sequences = "Sequences(u, (u[:, 0, 0] > u[:, 0, 1]).long())"
    wrong = f"Sequences(u, torch.where(torch.arange(len(u)) == 7, 5 if split == {number} else 0, 0))"
    assert f"{name}: expected classes from 0 to 1, got 5 in sample 7" in complain(sequences, wrong)


def test_names_are_never_markup(tmp_path, monkeypatch):
    """A task's title and the folders of the task, the run and the page look like Rich's markup, and one closes none."""
    monkeypatch.setattr(cli.console, "width", 300)
    title, folder = "[/red] [link=", tmp_path / "[b]here[/b]"
    folder.mkdir(parents=True)
    text = Path(helpers.__file__).read_text().replace('title="Which was larger"', f"title={title!r}")
    (folder / "mine.py").write_text(text)
    run, task = folder / "[i]run", ["--task", folder / "mine.py"]

    def said(*arguments):
        outcome = CliRunner().invoke(cli.app, [str(a) for a in arguments], catch_exceptions=False)
        assert outcome.exit_code == 0, outcome.output
        return outcome.output

    assert f"{title}: unicornn, seed 0, in {run}" in said("train", folder / "mine.py", "--epochs", 1, "--out", run)
    assert "test accuracy" in said("evaluate", run, *task)
    assert f"wrote {run / 'diagnosis.json'}" in said("diagnose", run, *task)
    assert f"wrote {folder / '[u]page'}" in said("report", run, "--out", folder / "[u]page")
