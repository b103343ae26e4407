"""Hints how to install the libraries of an extra. The package is not on PyPI, so they name its clone."""

from __future__ import annotations

_OF_COMMANDS = {"fit": "fit", "predict": "fit", "features": "fit", "explain": "fit", "export": "fit,export"}


def install_hint(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install '.[{extra}]' in the clone of unicornn"


def missing_library(name: str, arguments: list[str]) -> str:
    """A message about a library that a command needs; the command is the first of its arguments."""
    extra = _OF_COMMANDS.get(arguments[0] if arguments else "", "train")
    return f"{name} is not installed; try {install_hint(extra)}"
