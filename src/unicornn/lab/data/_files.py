"""Where data files are, how they are fetched, and a cache of what is slow to parse."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unicornn._files import temporary_folder
from unicornn.errors import BadValue, CorruptData, MissingData
from unicornn.lab.data._archives import ordinary


@dataclass(frozen=True)
class File:
    """A data file.

    Args:
        path: below the data folder.
        url: where it is fetched from; "" if it has to be put there by hand.
        hash: "sha256:..." or "md5:..." of what the url gives.
        also: paths of other forms that will do: unpacked, or packed in another way.
        about: what it is and who has it, for those who have to get it by hand.

    Example:
        >>> from unicornn.lab.data import File
        >>> File("cifar-10-binary.tar.gz", also=("cifar-10-batches-bin",)).url
        ''
    """

    path: str
    url: str = ""
    hash: str = ""
    also: tuple[str, ...] = ()
    about: str = ""

    def __post_init__(self) -> None:
        if self.url and ":" not in self.hash:
            raise BadValue(f"hash: expected 'sha256:...' or 'md5:...' for {self.url}, got {self.hash!r}")


def _default(variable: str, folder: str) -> Path:
    import platformdirs

    return Path(os.environ.get(variable) or Path(platformdirs.user_cache_dir("unicornn")) / folder)


class Source:
    """The data folder, which is only read (except by ``fetch``), and the cache folder, which is written.

    Args:
        data: the data folder; None for $UNICORNN_DATA, or one in the user's cache.
        cache: for parsed data; None for $UNICORNN_CACHE, or one in the user's cache. May be deleted at any time.

    Example:
        >>> from unicornn.lab.data import File, Source
        >>> Source("nowhere").has(File("mnist/train-images-idx3-ubyte.gz"))
        False
    """

    def __init__(self, data: str | Path | None = None, cache: str | Path | None = None) -> None:
        self.data = Path(data) if data else _default("UNICORNN_DATA", "data")
        self.cache = Path(cache) if cache else _default("UNICORNN_CACHE", "parsed")

    def _present(self, file: File) -> Path | None:
        paths = (self.data / path for path in (file.path, *file.also))
        return next((ordinary(path) for path in paths if path.exists()), None)

    def has(self, file: File) -> bool:
        return self._present(file) is not None

    def find(self, *files: File) -> list[Path]:
        """The paths of these files; MissingData, naming all that are missing, if one is."""
        if not self.data.is_dir() and files:
            raise MissingData(self._message(files, f"there is no folder {self.data}"))
        missing = [file for file in files if not self.has(file)]
        if missing:
            raise MissingData(self._message(missing, f"not in {self.data}"))
        return [path for file in files if (path := self._present(file))]

    def _message(self, files: Sequence[File], why: str) -> str:
        lines = [f"data files are missing ({why}):"]
        for file in files[:8]:
            forms = " or ".join((file.path, *file.also))
            lines.append(f"  {forms}" + (f"\n    {file.about}" if file.about else ""))
            if file.url:
                lines.append(f"    {file.url} ({file.hash})")
        if len(files) > 8:
            lines.append(f"  and {len(files) - 8} more of the kind")
        lines.append("Fetch them with `unicornn data TASK` where there is a network, or put them there by hand;")
        lines.append("another folder is named by --data DIR or the variable UNICORNN_DATA.")
        return "\n".join(lines)

    def verified(self, file: File) -> bool:
        """True if the file has its published hash, False if it is here in a form that has none; else CorruptData."""
        path = self.data / file.path
        kind, _, known = file.hash.partition(":")
        if not known or not path.exists():
            return False
        with ordinary(path).open("rb") as content:
            found = hashlib.file_digest(content, kind).hexdigest()
        if found != known.lower():
            raise CorruptData(
                f"{path}: expected the published hash {file.hash}, got {kind}:{found}; delete it and fetch it again"
            )
        return True

    def fetch(self, file: File, *, progress: bool = False) -> Path:
        """Downloads a file into the data folder unless it is there, and verifies it by its hash in either case."""
        import pooch

        if (present := self._present(file)) is not None:
            self.verified(file)
            return present
        if not file.url:
            raise MissingData(self._message([file], f"not in {self.data}, and not to be fetched"))
        target = self.data / file.path
        try:
            with temporary_folder(target.parent) as folder:
                pooch.retrieve(file.url, known_hash=file.hash, fname=target.name, path=folder, progressbar=progress)
                os.replace(folder / target.name, target)  # a file whose hash is wrong never gets here
        except ValueError as error:
            raise CorruptData(f"{file.url}: what came is not what was expected, nothing was kept: {error}") from error
        except Exception as error:  # of urllib, requests, ftplib: whatever the network may do
            raise MissingData(
                self._message([file], f"not in {self.data}, and fetching failed: {type(error).__name__}")
            ) from error
        return target

    def cached(
        self, name: str, inputs: Sequence[Path], settings: str, make: Callable[[], Mapping[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """The arrays that ``make`` gives, memory-mapped; made once for these input files and settings.

        Args:
            name: of the folder in the cache.
            inputs: the files and folders that ``make`` reads: other sizes or dates make it run again.
            settings: whatever else the arrays depend on.
        """
        stamps = [(str(path), *_stamp(path)) for path in inputs]
        key = hashlib.sha256(json.dumps([stamps, settings]).encode()).hexdigest()[:16]
        folder = self.cache / f"{name}-{key}"
        if folder.is_dir():
            try:
                return _arrays(folder)
            except (
                CorruptData,
                OSError,
                ValueError,
                EOFError,
                RecursionError,
            ):  # damaged, altered, or not all there: made again
                shutil.rmtree(folder, ignore_errors=True)
        arrays = make()
        with temporary_folder(self.cache) as temporary:
            half = temporary / "arrays"
            half.mkdir()
            for stem, array in arrays.items():
                np.save(half / f"{stem}.npy", array, allow_pickle=False)
            digests = {stem: _digest(half / f"{stem}.npy") for stem in arrays}
            (half / "digests.json").write_text(json.dumps(digests))
            try:
                half.rename(folder)
            except OSError:  # another process was faster
                if not folder.is_dir():
                    raise
        return _arrays(folder)


def _stamp(path: Path) -> tuple[int, int, int]:
    """Number of files, their size and the latest date: those of the file, or of all files below the folder."""
    below = [os.path.join(folder, file) for folder, _, files in os.walk(path) for file in files]
    stats = [os.stat(file) for file in below or [str(path)]]
    return len(stats), sum(s.st_size for s in stats), max(s.st_mtime_ns for s in stats)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _arrays(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of a folder in the cache; ValueError or OSError if they are not those that were put there."""
    digests = json.loads((folder / "digests.json").read_text())
    if not isinstance(digests, dict) or not all(re.fullmatch(r"\w+", name) for name in digests):
        raise ValueError(f"{folder}: expected digests by the names of arrays")
    for name, digest in digests.items():
        if _digest(ordinary(folder / f"{name}.npy")) != digest:
            raise ValueError(f"{folder}: {name} is not what it was")
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in digests}
