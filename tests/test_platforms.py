"""Systems that lack what Linux has: the modules are hidden, or stood in for."""

import mmap
import os
import subprocess
import sys
import types

import pytest
import torch

import unicornn
from unicornn import _unfinished as unfinished
from unicornn._ops import memory
from unicornn.errors import InUse
from unicornn.lab._lock import locked
from unicornn.lab.bench import _measure as measure

HIDE = """
import sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None  # as on Windows
import importlib
for name in {modules!r}:
    importlib.import_module(name)
"""
PUBLIC = ("unicornn", "models", "theory", "baselines", "streams", "lab.training", "lab.search", "lab.tasks", "lab.fit")


def test_everything_imports_without_the_modules_of_unix():
    modules = [name if name == "unicornn" else f"unicornn.{name}" for name in PUBLIC]
    done = subprocess.run(
        [sys.executable, "-c", HIDE.format(modules=modules)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr


class Msvcrt(types.ModuleType):
    """Windows' locks, of one process with two files."""

    LK_NBLCK = 2

    def __init__(self):
        super().__init__("msvcrt")
        self.held = set()

    def locking(self, file, mode, count):
        assert (mode, count) == (self.LK_NBLCK, 1)
        key = (os.fstat(file).st_ino, os.lseek(file, 0, os.SEEK_CUR))
        if key in self.held:
            raise PermissionError(13, "Permission denied")
        self.held.add(key)


def test_a_folder_is_locked_without_flock(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", Msvcrt())
    folder = tmp_path / "run"
    with locked(folder):
        assert f"process {os.getpid()}" in (folder / "lock").read_text()
        with pytest.raises(InUse, match=f"process {os.getpid()}"), locked(folder):
            pass
    assert not folder.exists()


def test_nobody_is_killed_by_asking_whether_he_lives(monkeypatch):
    monkeypatch.setattr(os, "name", "nt")
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("on Windows this ends the process"))
    machine = unfinished.socket.gethostname()
    assert not unfinished.abandoned(f"{machine}-{os.getpid()}")


def test_large_blocks_need_no_madvise(monkeypatch):
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    memory._madvise.cache_clear()
    try:
        layer = unicornn.UnICORNN(1, 8, gradient="stored")
        layer(torch.randn(40_000, 4, 1))[0].mean().backward()
    finally:
        memory._madvise.cache_clear()


def test_the_peak_of_memory_without_proc_and_getrusage(monkeypatch):
    info = types.SimpleNamespace(peak_wset=3 << 20)
    process = types.SimpleNamespace(memory_info=lambda: info)
    monkeypatch.setattr(measure, "Path", lambda _: types.SimpleNamespace(exists=lambda: False))
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.setitem(sys.modules, "psutil", types.SimpleNamespace(Process=lambda: process))
    assert measure.peak() == 3
