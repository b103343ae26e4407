"""Other operating systems, simulated: modules that exist only on Unix are hidden or replaced."""

import os

import pytest

from tests.processes import python
from unicornn import _files

HIDE = """
import sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None  # as on Windows
import importlib
for name in {modules!r}:
    importlib.import_module(name)
"""
PUBLIC = ("unicornn", "models", "theory", "baselines", "streams", "lab.training", "lab.search", "lab.tasks", "lab.fit")


def test_imports_without_unix_modules():
    modules = [name if name == "unicornn" else f"unicornn.{name}" for name in PUBLIC]
    python("-c", HIDE.format(modules=modules))


def test_windows_processes_are_not_killed_by_the_check(monkeypatch):
    monkeypatch.setattr(os, "name", "nt")
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("on Windows this ends the process"))
    assert not _files._abandoned(f".unicornn-{_files.socket.gethostname()}-{os.getpid()}-0")
