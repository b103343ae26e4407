"""Names of files that are not finished yet.

Such a name carries the machine and the process that writes the file, so that what a killed process left behind is known
as such.
"""

from __future__ import annotations

import glob
import os
import socket
from pathlib import Path


def mark() -> str:
    """This machine and this process, to be part of a file's name.

    Example:
        >>> from unicornn._unfinished import abandoned, mark
        >>> abandoned(mark())
        False
    """
    return f"{socket.gethostname()}-{os.getpid()}"


def abandoned(owner: str) -> bool:
    """Whether a mark is that of a process of this machine that is no more. Those of other machines may live.

    Example:
        >>> from unicornn._unfinished import abandoned, mark
        >>> abandoned("elsewhere-1"), abandoned("no mark")
        (False, False)
    """
    machine, _, process = owner.rpartition("-")
    if os.name == "nt" or machine != socket.gethostname() or not process.isdecimal():
        return False  # on Windows, asking by os.kill would end the process
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def unfinished(path: Path) -> Path:
    """Where a file is written before it takes its name. What killed processes have left of this file is removed.

    Example:
        >>> from pathlib import Path
        >>> from unicornn._unfinished import mark, unfinished
        >>> unfinished(Path("model.onnx")).name == f".model.onnx.{mark()}"
        True
    """
    sign = f".{path.name}."
    for other in path.parent.glob(f"{glob.escape(sign)}*"):
        if abandoned(other.name.removeprefix(sign)):
            other.unlink(missing_ok=True)
    return path.with_name(sign + mark())
