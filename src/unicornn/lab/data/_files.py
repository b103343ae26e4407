"""The data folder, downloads, and a cache of data that are slow to parse."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unicornn._files import temporary_folder
from unicornn.errors import BadValue, CorruptData, MissingData


@dataclass(frozen=True)
class File:
    """A data file.

    Args:
        path: Path below the data folder.
        url: Address of the download; "" if the file has to be put there manually.
        hash: Hash of the download, "sha256:..." or "md5:...".
        also: Paths of accepted alternatives, such as an unpacked or differently packed version.
        about: Description of the file and its source, for obtaining it manually.

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


def _default_folder(variable: str, folder: str) -> Path:
    import platformdirs

    return Path(os.environ.get(variable) or Path(platformdirs.user_cache_dir("unicornn")) / folder)


class Source:
    """The data folder, which is only read (except by ``fetch``), and the cache folder.

    Args:
        data: Data folder; None for $UNICORNN_DATA, or a folder in the user's cache.
        cache: Folder for parsed data, which may be deleted at any time; None for $UNICORNN_CACHE, or a folder in the
            user's cache.

    Example:
        >>> from unicornn.lab.data import File, Source
        >>> Source("nowhere").has(File("mnist/train-images-idx3-ubyte.gz"))
        False
    """

    def __init__(self, data: str | Path | None = None, cache: str | Path | None = None) -> None:
        self.data = Path(data) if data else _default_folder("UNICORNN_DATA", "data")
        self.cache = Path(cache) if cache else _default_folder("UNICORNN_CACHE", "parsed")

    def _present(self, file: File) -> Path | None:
        paths = (self.data / path for path in (file.path, *file.also))
        return next((path for path in paths if path.exists()), None)

    def has(self, file: File) -> bool:
        return self._present(file) is not None

    def find(self, *files: File) -> list[Path]:
        """Paths of these files; MissingData lists all that are missing."""
        if not self.data.is_dir() and files:
            raise MissingData(self._message(files, f"there is no folder {self.data}"))
        paths = {file: self._present(file) for file in files}
        if missing := [file for file, path in paths.items() if path is None]:
            raise MissingData(self._message(missing, f"not in {self.data}"))
        return [path for path in paths.values() if path]

    def _message(self, files: Sequence[File], why: str) -> str:
        lines = [f"data files are missing ({why}):"]
        for file in files[:8]:
            forms = " or ".join((file.path, *file.also))
            lines.append(f"  {forms}" + (f"\n    {file.about}" if file.about else ""))
            if file.url:
                lines.append(f"    {file.url} ({file.hash})")
        if len(files) > 8:
            lines.append(f"  and {len(files) - 8} more")
        lines.append("Download them with `unicornn data TASK`, or put them there manually; use --data DIR or the")
        lines.append("environment variable UNICORNN_DATA for another folder.")
        return "\n".join(lines)

    def verified(self, file: File) -> bool:
        """True if the file has its published hash, False if its form has no published hash; otherwise CorruptData."""
        path = self.data / file.path
        kind, _, published = file.hash.partition(":")
        if not published or not path.exists():
            return False
        actual = _digest(path, kind)
        if actual != published.lower():
            raise CorruptData(
                f"{path}: expected the published hash {file.hash}, got {kind}:{actual}; delete and download it again"
            )
        return True

    def fetch(self, file: File, *, progress: bool = False) -> Path:
        """Downloads a file into the data folder unless it exists, and verifies its hash in either case."""
        import pooch

        if (present := self._present(file)) is not None:
            self.verified(file)
            return present
        if not file.url:
            raise MissingData(self._message([file], f"not in {self.data}, and cannot be downloaded"))
        target = self.data / file.path
        try:
            with temporary_folder(target.parent) as folder:
                pooch.retrieve(file.url, known_hash=file.hash, fname=target.name, path=folder, progressbar=progress)
                os.replace(folder / target.name, target)  # not reached if the hash is wrong
        except ValueError as error:
            raise CorruptData(
                f"{file.url}: the download is not the published file and was discarded: {error}"
            ) from error
        except Exception as error:  # any network error of urllib, requests or ftplib
            raise MissingData(
                self._message([file], f"not in {self.data}, and the download failed: {type(error).__name__}")
            ) from error
        return target

    def cached(
        self, name: str, inputs: Sequence[Path], settings: str, make: Callable[[], Mapping[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """The arrays returned by ``make``, memory-mapped; ``make`` runs once for these input files and settings.

        Args:
            name: Name of the folder in the cache.
            inputs: Files and folders read by ``make``; a change of their sizes or dates makes it run again.
            settings: Anything else that the arrays depend on.
        """
        stamps = [(str(path), *_stamp(path)) for path in inputs]
        key = hashlib.sha256(repr([stamps, settings]).encode()).hexdigest()[:16]
        folder = self.cache / f"{name}-{key}"
        if folder.is_dir():
            try:
                return _load_arrays(folder)
            except (OSError, ValueError, EOFError):  # damaged
                shutil.rmtree(folder, ignore_errors=True)
        arrays = make()
        with temporary_folder(self.cache) as temporary:
            half = temporary / "arrays"
            half.mkdir()
            for stem, array in arrays.items():
                np.save(half / f"{stem}.npy", array, allow_pickle=False)
            (half / "names").write_text(" ".join(arrays))
            try:
                half.rename(folder)
            except OSError:  # another process has made it in the meantime
                if not folder.is_dir():
                    raise
        return _load_arrays(folder)


def _stamp(path: Path) -> tuple[int, int, int]:
    """Number, total size and latest date of the files below a folder, or of a single file."""
    below = [os.path.join(folder, file) for folder, _, files in os.walk(path) for file in files]
    stats = [os.stat(file) for file in below or [str(path)]]
    return len(stats), sum(s.st_size for s in stats), max(s.st_mtime_ns for s in stats)


def _digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def _load_arrays(folder: Path) -> dict[str, np.ndarray]:
    names = (folder / "names").read_text().split()
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names}
