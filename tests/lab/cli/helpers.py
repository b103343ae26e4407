"""Commands in this process."""

import sys

import pytest
from typer.testing import CliRunner

from unicornn.lab import cli


def unicornn(*arguments):
    """Runs a command and returns its output; raises its error."""
    outcome = CliRunner().invoke(cli.app, [str(a) for a in arguments], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


def error_of(arguments, monkeypatch, capsys):
    """Runs a command that fails and returns its error message."""
    monkeypatch.setattr(sys, "argv", ["unicornn", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    message = capsys.readouterr().err
    assert stop.value.code == 1
    assert message.startswith("error: ")
    assert "Traceback" not in message
    return message
