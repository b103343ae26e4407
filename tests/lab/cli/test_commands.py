"""Error messages about a user's task file."""

import sys
from pathlib import Path

import pytest

from tests.lab.cli.helpers import error_of
from tests.lab.training import helpers
from unicornn import __main__


@pytest.mark.parametrize("line", ["import torch\n", "def load(source, options, seed):\n    "])
def test_a_missing_import_of_a_task_file(line, tmp_path, monkeypatch, capsys):
    text = Path(helpers.__file__).read_text().replace(line.rstrip(" "), f"{line}import not_a_library\n")
    (tmp_path / "mine.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    message = error_of(["train", "mine.py", "--epochs", "1"], monkeypatch, capsys)
    assert "mine.py imports not_a_library, which is not installed" in message
    assert "pip install" not in message


@pytest.mark.parametrize(
    ("arguments", "library", "ours", "extra"),
    [(["search", "digits"], "optuna", "unicornn.lab.search", "train"),
     (["fit", "a.csv", "--target", "y"], "pandas", "unicornn.lab.fit", "fit")],
)  # fmt: skip
def test_a_missing_import_of_the_package(arguments, library, ours, extra, monkeypatch, capsys):
    without(monkeypatch, library, ours)
    hint = f"{library} is not installed; try pip install '.[{extra}]' in the clone"
    assert hint in error_of(arguments, monkeypatch, capsys)


def without(monkeypatch, library, ours):
    """Hides a library, and forgets our modules that may have imported it."""
    monkeypatch.setitem(sys.modules, library, None)
    for name in [name for name in sys.modules if name.startswith(ours)]:
        monkeypatch.delitem(sys.modules, name)


def test_the_command_without_its_libraries(monkeypatch, capsys):
    without(monkeypatch, "typer", "unicornn.lab.cli")
    monkeypatch.setattr(sys, "argv", ["unicornn", "predict", "model", "a.csv"])
    with pytest.raises(SystemExit):
        __main__.main()
    assert "typer is not installed; try pip install '.[fit]'" in capsys.readouterr().err
