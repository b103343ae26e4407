"""Reads files in folders, .tar (plain, .gz, .xz) and .zip in place: nothing is extracted to disk, links are skipped."""

from __future__ import annotations

import gzip
import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from unicornn.errors import CorruptData

_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, gzip.BadGzipFile, EOFError)


@contextmanager
def _damage_is_corrupt_data(path: Path) -> Iterator[None]:
    """Turns the libraries' errors for damaged files into CorruptData, which names the file."""
    try:
        yield
    except _DAMAGE as error:
        raise CorruptData(f"{path}: damaged or cut short: {error}") from error
    except (RuntimeError, NotImplementedError) as error:  # from zipfile: encrypted, or an unknown compression
        raise CorruptData(f"{path}: cannot be unpacked: {error}") from error


def _pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    each = (re.escape(pattern).replace(r"\*", "[^/]*") for pattern in patterns)
    return re.compile(rf"(?:.*/)?(?:{'|'.join(each)})")


def members(path: Path, *patterns: str) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files in a folder or archive whose names match a pattern, in the archive's order.

    Links, devices and hidden files (``._name``) are skipped. A pattern is the last part of a name, with ``*`` for
    anything but a slash: "train/pos/*.txt". Archives are recognised by their first bytes.
    """
    wanted = _pattern(patterns)

    def chosen(name: str) -> bool:
        return wanted.fullmatch(name) is not None and not name.rpartition("/")[2].startswith(".")

    if path.is_dir():
        return _in_folder(path, chosen)
    with path.open("rb") as file:
        zipped = file.read(4) == b"PK\x03\x04"
    return _in_zip(path, chosen) if zipped else _in_tar(path, chosen)


def _in_folder(path: Path, chosen: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path.parent).as_posix()
        if chosen(name) and stat.S_ISREG(file.lstat().st_mode):
            yield name, file.read_bytes()


def _in_zip(path: Path, chosen: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with _damage_is_corrupt_data(path), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if not info.is_dir() and chosen(info.filename) and not stat.S_ISLNK(info.external_attr >> 16):
                yield info.filename, archive.read(info)


def _in_tar(path: Path, chosen: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with opened(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as archive:
        for info in archive:
            if info.isreg() and chosen(info.name):
                file = archive.extractfile(info)
                content = file.read() if file else b""
                if len(content) != info.size:
                    raise tarfile.ReadError(f"{info.name} has {len(content)} of its {info.size} bytes")
                yield info.name, content
        while unpacked.read(1 << 20):  # to the end, where the checksum is
            pass


@contextmanager
def opened(path: Path, member: str = "") -> Iterator[IO[Any]]:
    """A file opened for reading, unpacked on the fly if it is a .gz, an .xz or a .zip with this member."""
    with _damage_is_corrupt_data(path), path.open("rb") as raw:
        first = raw.read(6)
        raw.seek(0)
        if first.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(raw) as archive:
                names = [name for name in archive.namelist() if _pattern((member,)).fullmatch(name)]
                if not names:
                    raise CorruptData(f"{path}: expected a member {member}, got {', '.join(archive.namelist()[:8])}")
                with archive.open(names[0]) as file:
                    yield file
        elif first.startswith(b"\x1f\x8b") or first == b"\xfd7zXZ\x00":
            unpack: Callable[..., Any] = gzip.open if first.startswith(b"\x1f") else lzma.open
            with unpack(raw) as file:
                yield file
        else:
            yield raw
