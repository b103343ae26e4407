"""Folders for what is not finished yet: gone at the end, and swept up later if the process was killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

_SIGN = ".unicornn-"


@contextlib.contextmanager
def workshop(parent: Path) -> Iterator[Path]:
    """A new folder within another one, removed at the end; those of processes that have died here are removed first.

    Example:
        >>> import tempfile
        >>> from unicornn.lab.data._workshop import workshop
        >>> with tempfile.TemporaryDirectory() as parent, workshop(Path(parent)) as folder:
        ...     folder.parent == Path(parent), folder.is_dir()
        (True, True)
    """
    parent.mkdir(parents=True, exist_ok=True)
    own = f"{_SIGN}{socket.gethostname()}-"
    for path in parent.glob(f"{_SIGN}*"):
        number = path.name.removeprefix(own).partition("-")[0]
        if path.name.startswith(own) and number.isdecimal() and not _alive(int(number)):
            shutil.rmtree(path, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{own}{os.getpid()}-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
