"""Folders for what is not finished yet: gone at the end, and swept up later if the process was killed."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from unicornn._unfinished import abandoned, mark

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
    for path in parent.glob(f"{_SIGN}*"):
        if abandoned(path.name.removeprefix(_SIGN).rpartition("-")[0]):
            shutil.rmtree(path, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{_SIGN}{mark()}-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
