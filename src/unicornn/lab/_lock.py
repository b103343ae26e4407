"""One process at a time in a folder."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from unicornn.lab.errors import InUse


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other processes out of a folder, which is created if necessary; raises ``InUse`` if one is using it.

    The operating system releases the lock of a process that ends. The file ``lock`` in the folder names its owner.
    Removes the folder if it is still empty at the end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lock"
    try:
        with FileLock(path, timeout=0):
            with contextlib.suppress(OSError):  # Windows: other processes cannot read a locked file either
                path.write_text(f"process {os.getpid()} on {platform.node()}")
            try:
                yield
            finally:
                with contextlib.suppress(PermissionError):  # Windows does not remove open files
                    path.unlink(missing_ok=True)
    except Timeout:
        owner = "another process"
        with contextlib.suppress(OSError):
            owner = path.read_text(errors="replace")[:200] or owner
        raise InUse(f"out: {folder} is in use by {owner}; wait for it, or name another folder with --out") from None
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()
