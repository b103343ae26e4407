"""Other operating systems, simulated: modules that exist only on Unix are hidden or replaced."""

import mmap
import os
import subprocess
import sys
import types

import pytest
import torch

import unicornn
from unicornn import _files
from unicornn._ops.cpu import memory
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


def test_imports_without_unix_modules():
    modules = [name if name == "unicornn" else f"unicornn.{name}" for name in PUBLIC]
    done = subprocess.run(
        [sys.executable, "-c", HIDE.format(modules=modules)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr


def test_windows_processes_are_not_killed_by_the_check(monkeypatch):
    monkeypatch.setattr(os, "name", "nt")
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("on Windows this ends the process"))
    assert not _files._abandoned(f".unicornn-{_files.socket.gethostname()}-{os.getpid()}-0")


def test_large_blocks_need_no_madvise(monkeypatch):
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    memory._madvise.cache_clear()
    try:
        layer = unicornn.UnICORNN(1, 8, gradient="stored")
        layer(torch.randn(40_000, 4, 1))[0].mean().backward()
    finally:
        memory._madvise.cache_clear()


def test_peak_memory_without_proc_and_getrusage(monkeypatch):
    info = types.SimpleNamespace(peak_wset=3 << 20)
    process = types.SimpleNamespace(memory_info=lambda: info)
    monkeypatch.setattr(measure, "Path", lambda _: types.SimpleNamespace(exists=lambda: False))
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.setitem(sys.modules, "psutil", types.SimpleNamespace(Process=lambda: process))
    assert measure.peak() == 3
