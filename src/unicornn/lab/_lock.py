"""One process at a time in a folder."""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from unicornn.errors import InUse

FAR = 1 << 30
"""The byte that is locked on Windows, where nobody else can read what is locked: beyond the name of the owner."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other processes out of a folder, which is made if need be; raises ``InUse`` if one of them is in it.

    The lock is the operating system's (flock; locking on Windows), which takes it from a process that dies. The file
    ``lock`` in the folder says whose it is. A folder that is still empty at the end is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lock"
    file = _open(path)
    try:
        os.ftruncate(file, 0)
        os.lseek(file, 0, os.SEEK_SET)
        os.write(file, f"process {os.getpid()} on {platform.node()}".encode())
        yield
    finally:
        with contextlib.suppress(PermissionError):  # Windows removes no file that is open
            path.unlink(missing_ok=True)  # before the lock is given up: see ``_open``
        os.close(file)
        with contextlib.suppress(OSError):
            folder.rmdir()


def _open(path: Path) -> int:
    """The file, locked."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _take(file)
        except (BlockingIOError, PermissionError):
            os.lseek(file, 0, os.SEEK_SET)
            who = os.read(file, 200).decode(errors="replace") or "another process"
            os.close(file)
            raise InUse(
                f"out: {path.parent} is in use by {who}; wait for it, or name another folder with --out"
            ) from None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        os.close(file)  # its owner has removed it in between


def _take(file: int) -> None:
    """Locks the file, or raises an error at once if another process has it."""
    try:
        fcntl = importlib.import_module("fcntl")
    except ImportError:  # Windows
        msvcrt = importlib.import_module("msvcrt")
        os.lseek(file, FAR, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
