"""Reads files in folders, .tar (plain, .gz, .xz) and .zip in place: nothing is extracted to disk.

Only regular files are read: links are not followed, and pipes and devices, which may never end, raise an error. The
unpacked size is limited, so that a small archive cannot fill the memory.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

from unicornn.errors import CorruptData

MAX_UNPACKED = 4 << 30  # largest size in bytes of an unpacked archive
MAX_MEMBER = 1 << 30  # largest size in bytes of one of its members, which is held in memory

_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, gzip.BadGzipFile, EOFError)


class _Header(tarfile.TarInfo):
    """tarfile treats a damaged header after the first one as the end of the archive; here it is an error."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if buf and not bytes(buf).strip(b"\0"):  # the block of zeros at the end of every archive
                raise
            raise tarfile.ReadError(f"{error} where a member or the end of the archive should be") from error


class _Limited(io.RawIOBase):
    """An unpacked file; reading more than ``MAX_UNPACKED`` bytes of it raises CorruptData."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path, self._size = file, path, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(len(buffer))
        self._size += len(content)
        _check_unpacked(self._path, self._size)
        buffer[: len(content)] = content
        return len(content)


def _check_unpacked(path: Path, size: int) -> None:
    if size > MAX_UNPACKED:
        raise CorruptData(f"{path}: expected at most {MAX_UNPACKED:,} bytes when unpacked, got more")


def check_member(path: Path, name: str, size: int) -> None:
    """Raises CorruptData if a member is too large to be held in memory."""
    if size > MAX_MEMBER:
        raise CorruptData(f"{path}: expected {name} to have at most {MAX_MEMBER:,} bytes when unpacked, got {size:,}")


def ordinary(path: Path) -> Path:
    """The path, if it is a file or a folder; CorruptData if it is a pipe, a socket or a device."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise CorruptData(f"{path}: expected a file or a folder, got a device, a pipe or a socket")
    return path


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

    if ordinary(path).is_dir():
        return _in_folder(path, chosen)
    with path.open("rb") as file:
        zipped = file.read(4) == b"PK\x03\x04"
    return _in_zip(path, chosen) if zipped else _in_tar(path, chosen)


def _in_folder(path: Path, chosen: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    for folder, below, files in os.walk(path):
        below.sort()
        for file in sorted(files):
            full = Path(folder, file)
            name = full.relative_to(path.parent).as_posix()
            if chosen(name) and stat.S_ISREG(full.lstat().st_mode):
                check_member(path, name, full.lstat().st_size)
                yield name, full.read_bytes()


def _in_zip(path: Path, chosen: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with _damage_is_corrupt_data(path), zipfile.ZipFile(path) as archive:
        size = 0
        for info in archive.infolist():
            if not info.is_dir() and chosen(info.filename) and not stat.S_ISLNK(info.external_attr >> 16):
                check_member(path, info.filename, info.file_size)
                size += info.file_size
                _check_unpacked(path, size)
                yield info.filename, archive.read(info)


def _in_tar(path: Path, chosen: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with opened(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r|", tarinfo=_Header) as archive:
        for info in archive:
            if info.isreg() and chosen(info.name):
                check_member(path, info.name, info.size)
                file = archive.extractfile(info)
                content = file.read() if file else b""
                if len(content) != info.size:
                    raise tarfile.ReadError(f"{info.name} has {len(content)} of its {info.size} bytes")
                yield info.name, content
        while unpacked.read(1 << 20):  # to the end, where the checksum is
            pass


@contextmanager
def opened(path: Path, member: str = "") -> Iterator[IO[bytes]]:
    """A file opened for reading, unpacked on the fly if it is a .gz, an .xz or a .zip with this member."""
    with _damage_is_corrupt_data(path), ordinary(path).open("rb") as raw:
        first = raw.read(6)
        raw.seek(0)
        if first.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(raw) as archive:
                names = [name for name in archive.namelist() if _pattern((member,)).fullmatch(name)]
                if not names:
                    raise CorruptData(f"{path}: expected a member {member}, got {', '.join(archive.namelist()[:8])}")
                with archive.open(names[0]) as file:
                    yield io.BufferedReader(_Limited(file, path))
        elif first.startswith(b"\x1f\x8b") or first == b"\xfd7zXZ\x00":
            unpack: Callable[..., Any] = lzma.open if first.startswith(b"\xfd") else gzip.open
            with unpack(raw) as file:
                yield io.BufferedReader(_Limited(file, path))
        else:
            yield raw
