"""Whose an unfinished file is: its name carries the machine and the process, so that leftovers are known as such."""

from __future__ import annotations

import os
import socket


def mark() -> str:
    """This machine and this process, to be part of a file's name.

    Example:
        >>> from unicornn.lab._owner import abandoned, mark
        >>> abandoned(mark())
        False
    """
    return f"{socket.gethostname()}-{os.getpid()}"


def abandoned(owner: str) -> bool:
    """Whether a mark is that of a process of this machine that is no more. Those of other machines may live.

    Example:
        >>> from unicornn.lab._owner import abandoned, mark
        >>> abandoned("elsewhere-1"), abandoned("no mark")
        (False, False)
    """
    machine, _, process = owner.rpartition("-")
    if machine != socket.gethostname() or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False
