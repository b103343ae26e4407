"""Files that appear whole or not at all, and JSON in them.

The name of a file that is not finished yet carries the machine and the process that writes it, so that what a killed
process left behind is known as such.
"""

from __future__ import annotations

import contextlib
import glob
import json
import math
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


def mark() -> str:
    """This machine and this process, to be part of a file's name.

    Example:
        >>> from unicornn.lab._whole_files import abandoned, mark
        >>> abandoned(mark())
        False
    """
    return f"{socket.gethostname()}-{os.getpid()}"


def abandoned(owner: str) -> bool:
    """Whether a mark is that of a process of this machine that is no more. Those of other machines may live.

    Example:
        >>> from unicornn.lab._whole_files import abandoned, mark
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


@contextlib.contextmanager
def written_whole(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Opens a file that takes its name only when it is complete and on the disk: a crash leaves the old one.

    A device or a FIFO, such as /dev/stdout, is written to, and not replaced. What a process that was killed had written
    of this file is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        with path.open(mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
        return
    sign = f".{path.name}."
    for other in path.parent.glob(f"{glob.escape(sign)}*"):
        if abandoned(other.name.removeprefix(sign)):
            other.unlink(missing_ok=True)
    temporary = path.with_name(sign + mark())
    try:
        with temporary.open(mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """To be read by people too: a line for every entry, but one for a list of numbers."""
    lines = re.sub(r"\[\n[\s\d.,eE+-]+\]", lambda numbers: " ".join(numbers[0].split()), json.dumps(value, indent=1))
    with written_whole(path, "w") as file:
        file.write(lines + "\n")


def parse_json(text: str) -> dict[str, Any]:
    """Entries by name, whose numbers are finite. Raises ValueError, or RecursionError if it is too deep."""
    value = json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_finite)
    if not isinstance(value, dict):
        raise ValueError(f"expected entries by name, got {type(value).__name__}")
    return value


def _whole(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:20]}, which is not a finite number")
    return value
