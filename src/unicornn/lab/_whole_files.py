"""Files that appear whole or not at all, and JSON in them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from unicornn._unfinished import unfinished


@contextlib.contextmanager
def written_whole(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Opens a file that takes its name only when it is complete and on the disk: a crash leaves the old one.

    A device or a FIFO, such as /dev/stdout, is written to, and not replaced. What a process that was killed had written
    of this file is removed. Text is UTF-8; what UTF-8 cannot say, such as half of a pair of surrogates, is escaped.
    """
    words: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "errors": "backslashreplace"}
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        with path.open(mode, **words) as file:
            yield file
        return
    temporary = unfinished(path)
    try:
        with temporary.open(mode, **words) as file:
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
