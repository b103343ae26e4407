"""Atomic writes: a file appears complete or not at all, and a crash leaves the old one."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from unicornn.errors import BadValue

_PREFIX = ".unicornn-"
_REPLACING = threading.Lock()


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yields the path of a new, empty temporary file, which replaces ``path`` if the block ends without an error.

    Its name is unique, so that two threads or processes can write the same file: the last one wins. Temporary files of
    processes that were killed are removed.
    """
    temporary = _temporary_path(path.parent)
    with temporary.open("xb"):
        pass
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def atomic_write(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Opens a file that takes its name only when it is complete and on the disk.

    Writes to a device or a FIFO, such as /dev/stdout, without replacing it. Text is UTF-8; characters that UTF-8 cannot
    encode, such as lone surrogates, are escaped.
    """
    encoding: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "errors": "backslashreplace"}
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        with path.open(mode, **encoding) as file:
            yield file
        return
    with atomic_path(path) as temporary, temporary.open(mode, **encoding) as file:
        yield file


@contextlib.contextmanager
def output_path(path: Any) -> Iterator[Path]:
    """``atomic_path`` of a caller's argument ``path``: creates its folder; errors name the argument."""
    if not isinstance(path, (str, Path)) or not str(path) or "\0" in str(path):
        raise BadValue(f"path: expected the path of a file to write, got {path!r:.80}")
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a device would be replaced
            raise BadValue(f"path: expected a regular file to write, got {str(path)!r:.80}")
        with atomic_path(path) as temporary:
            yield temporary
    except OSError as error:
        raise BadValue(f"path: expected a file that can be written, got {str(path)!r:.80}: {error.strerror}") from error


@contextlib.contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Yields a new folder inside ``parent``, which is created if necessary, and removes it at the end of the block."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = _temporary_path(parent)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def atomic_write_all(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Writes several files, all of which are on the disk before the first one takes its name; in this order."""
    with temporary_folder(folder) as temporary:
        for name, content in contents.items():
            with (temporary / name).open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        with _REPLACING:  # otherwise two threads could leave some files of each
            for name in contents:
                os.replace(temporary / name, folder / name)


def _temporary_path(parent: Path) -> Path:
    """A unique path inside ``parent`` that names this machine and process. Removes what killed processes left there."""
    for other in parent.glob(f"{_PREFIX}*"):
        if _abandoned(other.name):
            if other.is_dir() and not other.is_symlink():
                shutil.rmtree(other, ignore_errors=True)
            else:
                other.unlink(missing_ok=True)
    return parent / f"{_PREFIX}{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(8)}"


def _abandoned(name: str) -> bool:
    """Whether a temporary file belongs to a process of this machine that has ended."""
    machine, _, process = name.removeprefix(_PREFIX).rpartition("-")[0].rpartition("-")
    if os.name == "nt" or machine != socket.gethostname() or not process.isdecimal():
        return False  # on Windows, os.kill(process, 0) would end the process
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def write_json(path: Path, value: Any) -> None:
    """Writes JSON for people to read: one line per entry, one line per list of numbers."""
    lines = re.sub(r"\[\n[\s\d.,eE+-]+\]", lambda numbers: " ".join(numbers[0].split()), json.dumps(value, indent=1))
    with atomic_write(path, "w") as file:
        file.write(lines + "\n")


def parse_json(text: str) -> dict[str, Any]:
    """Parses a JSON object of finite numbers. Raises ValueError, or RecursionError if it is nested too deeply."""
    value = json.loads(text, parse_int=_short_int, parse_float=_finite, parse_constant=_finite)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {type(value).__name__}")
    return value


def _short_int(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:20]}, which is not a finite number")
    return value
