"""Reading folders, .tar (plain, .gz, .xz) and .zip in place: nothing is ever unpacked to a path."""

from __future__ import annotations

import gzip
import lzma
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

from unicornn.errors import CorruptData

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

    They come in the archive's own order. Links and hidden files (``._name``) are left out.

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

    if path.is_dir():
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
            if chosen(name):
                yield name, full.read_bytes()


def _in_zip(path: Path, chosen: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with reading(path), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if not info.is_dir() and chosen(info.filename):
                yield info.filename, archive.read(info)


def _in_tar(path: Path, chosen: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with reading(path), tarfile.open(path, "r:*", tarinfo=_Header) as archive:
        for info in archive:
            if info.isreg() and chosen(info.name):
                file = archive.extractfile(info)
                content = file.read() if file else b""
                if len(content) != info.size:
                    raise tarfile.ReadError(f"{info.name} has {len(content)} of its {info.size} bytes")
                yield info.name, content
        while archive.fileobj is not None and archive.fileobj.read(1 << 20):  # to where the checksum is
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
    with reading(path), path.open("rb") as raw:
        first = raw.read(6)
        raw.seek(0)
        if first.startswith(b"\x1f\x8b"):
            with gzip.open(raw) as file:
                yield file  # type: ignore[misc]
        elif first == b"\xfd7zXZ\x00":
            with lzma.open(raw) as file:
                yield file
        elif first.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(raw) as archive:
                names = [name for name in archive.namelist() if _pattern((member,)).fullmatch(name)]
                if not names:
                    raise CorruptData(f"{path}: expected a member {member}, found {', '.join(archive.namelist()[:8])}")
                with archive.open(names[0]) as file:
                    yield file
        else:
            yield raw
