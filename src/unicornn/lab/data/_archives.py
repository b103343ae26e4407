"""Reading folders, .tar (plain, .gz, .xz) and .zip in place: nothing is ever unpacked to a path.

What is read is a regular file: links are not followed, and pipes and devices, which may never end, are refused. What a
file unpacks to is counted, so that a small one cannot fill the memory.
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

MOST = 4 << 30  # bytes that an archive may unpack to, and
MOST_AT_ONCE = 1 << 30  # that one of its members may, which is held in memory

_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, gzip.BadGzipFile, EOFError)


class _Header(tarfile.TarInfo):
    """tarfile takes a damaged header after the first one for the end of the archive; here it is an error."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if buf and not bytes(buf).strip(b"\0"):  # the block of zeros with which every archive ends
                raise
            raise tarfile.ReadError(f"{error} where a member or the end of the archive should be") from error


class _Counted(io.RawIOBase):
    """The bytes of a file as they are unpacked, up to ``MOST`` of them."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path, self._left = file, path, MOST

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(len(buffer))
        self._left -= len(content)
        if self._left < 0:
            raise CorruptData(f"{self._path}: expected at most {MOST:,} bytes when unpacked, got more")
        buffer[: len(content)] = content
        return len(content)


def fits(path: Path, name: str, size: int) -> None:
    """CorruptData if a member is too large to be held in memory."""
    if size > MOST_AT_ONCE:
        raise CorruptData(f"{path}: expected {name} to have at most {MOST_AT_ONCE:,} bytes when unpacked, got {size:,}")


def ordinary(path: Path) -> Path:
    """The path, if it is a file or a folder; CorruptData if it is a pipe, a socket or a device.

    Example:
        >>> from unicornn.lab.data._archives import ordinary
        >>> ordinary(Path("/dev/zero"))
        Traceback (most recent call last):
            ...
        unicornn.errors.CorruptData: /dev/zero: expected a file or a folder, got a device, a pipe or a socket
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise CorruptData(f"{path}: expected a file or a folder, got a device, a pipe or a socket")
    return path


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns what the libraries raise on a damaged file into CorruptData, naming the file."""
    try:
        yield
    except _DAMAGE as error:
        raise CorruptData(f"{path}: damaged or cut short: {error}") from error
    except (RuntimeError, NotImplementedError) as error:  # of zipfile: encrypted, or packed in an unknown way
        raise CorruptData(f"{path}: cannot be unpacked: {error}") from error


def _pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    each = (re.escape(pattern).replace(r"\*", "[^/]*") for pattern in patterns)
    return re.compile(rf"(?:.*/)?(?:{'|'.join(each)})")


def members(path: Path, *patterns: str) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files in a folder or archive whose names end as one of the patterns does.

    Args:
        path: a folder, a .tar, packed or not, or a .zip; what it is is seen from its first bytes.
        patterns: the last parts of a name, ``*`` for anything but a slash: "train/pos/*.txt".

    They come in the archive's own order. Links, devices and hidden files (``._name``) within it are left out.

    Example:
        >>> import io, tempfile, tarfile
        >>> from pathlib import Path
        >>> from unicornn.lab.data._archives import members
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tarfile.open(Path(folder) / "a.tar.gz", "w:gz") as tar:
        ...         info = tarfile.TarInfo("a/train/1.txt")
        ...         info.size = 5
        ...         tar.addfile(info, io.BytesIO(b"hello"))
        ...     list(members(Path(folder) / "a.tar.gz", "train/*.txt"))
        [('a/train/1.txt', b'hello')]
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
                fits(path, name, full.lstat().st_size)
                yield name, full.read_bytes()


def _in_zip(path: Path, chosen: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with reading(path), zipfile.ZipFile(path) as archive:
        left = MOST
        for info in archive.infolist():
            if not info.is_dir() and chosen(info.filename) and not stat.S_ISLNK(info.external_attr >> 16):
                fits(path, info.filename, info.file_size)
                left -= info.file_size
                if left < 0:
                    raise CorruptData(f"{path}: expected at most {MOST:,} bytes when unpacked, got more")
                yield info.filename, archive.read(info)


def _in_tar(path: Path, chosen: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with opened(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r|", tarinfo=_Header) as archive:
        for info in archive:
            if info.isreg() and chosen(info.name):
                fits(path, info.name, info.size)
                file = archive.extractfile(info)
                content = file.read() if file else b""
                if len(content) != info.size:
                    raise tarfile.ReadError(f"{info.name} has {len(content)} of its {info.size} bytes")
                yield info.name, content
        while unpacked.read(1 << 20):  # to where the checksum is
            pass


@contextmanager
def opened(path: Path, member: str = "") -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked as they are read if it is a .gz, an .xz or a .zip with this member.

    Example:
        >>> import gzip, tempfile
        >>> from pathlib import Path
        >>> from unicornn.lab.data._archives import opened
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "words.gz"
        ...     _ = path.write_bytes(gzip.compress(b"one\\ntwo\\n"))
        ...     with opened(path) as file:
        ...         list(file)
        [b'one\\n', b'two\\n']
    """
    with reading(path), ordinary(path).open("rb") as raw:
        first = raw.read(6)
        raw.seek(0)
        if first.startswith(b"\x1f\x8b"):
            with gzip.open(raw) as file:
                yield io.BufferedReader(_Counted(file, path))  # type: ignore[arg-type]
        elif first == b"\xfd7zXZ\x00":
            with lzma.open(raw) as file:
                yield io.BufferedReader(_Counted(file, path))
        elif first.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(raw) as archive:
                names = [name for name in archive.namelist() if _pattern((member,)).fullmatch(name)]
                if not names:
                    raise CorruptData(f"{path}: expected a member {member}, found {', '.join(archive.namelist()[:8])}")
                with archive.open(names[0]) as file:
                    yield io.BufferedReader(_Counted(file, path))
        else:
            yield raw
