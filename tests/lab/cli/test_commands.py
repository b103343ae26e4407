"""Error messages about a user's task file."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.lab.training import helpers
from unicornn.lab import cli


@pytest.fixture
def complain(tmp_path, monkeypatch, capsys):
    """Runs `unicornn train` on a task file with some text replaced and returns the error message."""

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
def test_a_missing_import_of_a_task_file(complain, at):
    said = complain(at, f"{at}{'    ' if at == LOAD else ''}import not_a_library\n")
    assert "mine.py imports not_a_library, which is not installed" in said
    assert "unicornn[train]" not in said


def test_a_missing_import_of_the_package(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    for name in [name for name in sys.modules if name.startswith("unicornn.lab.search")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "argv", ["unicornn", "search", "digits"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "optuna is not installed; try pip install 'unicornn[train]'" in capsys.readouterr().err


def test_an_empty_split(complain):
    assert "test: " in complain('options["n"], 24, 40', 'options["n"], 24, 0')


@pytest.mark.parametrize(("number", "name"), [(0, "train"), (1, "valid"), (2, "test")])
def test_a_class_out_of_range(complain, number, name):
    sequences = "Sequences(u, (u[:, 0, 0] > u[:, 0, 1]).long())"
    wrong = f"Sequences(u, torch.where(torch.arange(len(u)) == 7, 5 if split == {number} else 0, 0))"
    assert f"{name}: expected classes from 0 to 1" in complain(sequences, wrong)


def test_names_are_never_markup(tmp_path, monkeypatch):
    """The task's title and all folders look like Rich's markup."""
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
