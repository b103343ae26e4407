"""The file formats of the data sets: idx (MNIST), CIFAR's binary, .npz; see ``_ts`` for .ts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from unicornn.errors import CorruptData
from unicornn.lab.data._archives import fits, opened, ordinary


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The unsigned bytes in an idx file, gzipped or not.

    Args:
        path: the file.
        dimensions: how many it should have: 3 for images (n, rows, columns), 1 for labels (n,).

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from unicornn.lab.data._formats import read_idx
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "labels"
        ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]))
        ...     read_idx(path, 1)
        array([7, 8, 9], dtype=uint8)
    """
    magic, header = bytes([0, 0, 8, dimensions]), 4 + 4 * dimensions
    with opened(path) as file:
        content = file.read(header)
        shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, header, 4))
        if content[:4] == magic:
            fits(path, f"an array of {shape}", math.prod(shape))
            content += file.read(math.prod(shape) + 1)  # a byte more than there should be, if there is one
    if content[:4] != magic:
        raise CorruptData(
            f"{path}: expected an idx file of unsigned bytes in {dimensions} dimensions, which begins with "
            f"{magic.hex(' ')}; it begins with {content[:4].hex(' ') or 'nothing'}"
        )
    if len(content) != header + math.prod(shape):
        raise CorruptData(
            f"{path}: expected {header} bytes of header and the {math.prod(shape)} that its sizes {shape} say, "
            f"got {len(content)} in all"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def read_npz(path: Path, *names: str) -> dict[str, np.ndarray]:
    """Arrays of an .npz file by these names, or all of them; without pickles.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from unicornn.lab.data._formats import read_npz
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(Path(folder) / "a.npz", x=[1, 2], y=[3])
        ...     read_npz(Path(folder) / "a.npz", "y", "x")
        {'y': array([3]), 'x': array([1, 2])}
    """
    try:
        with ordinary(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            for info in arrays.zip.infolist():
                fits(path, info.filename, info.file_size)
            return {name: arrays[name] for name in names or arrays.files}
    except CorruptData:
        raise
    except Exception as error:  # numpy and zipfile have a dozen kinds for what may be wrong with a file
        expected = f"with {', '.join(names)}" if names else "of numbers"
        raise CorruptData(f"{path}: expected an .npz {expected}: {error}") from error


def read_cifar10(content: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32) and labels (n,) from one of CIFAR-10's binary files, whose name is for the errors.

    Example:
        >>> from unicornn.lab.data._formats import read_cifar10
        >>> images, labels = read_cifar10(bytes([7]) + bytes(3072), "data_batch_1.bin")
        >>> images.shape, labels
        ((1, 3, 32, 32), array([7], dtype=uint8))
    """
    record = 1 + 3 * 32 * 32
    if not content or len(content) % record:
        raise CorruptData(f"{name}: expected a multiple of {record} bytes (label and pixels), got {len(content)}")
    records = np.frombuffer(content, np.uint8).reshape(-1, record)
    labels = records[:, 0]
    if labels.max() > 9:
        raise CorruptData(f"{name}: expected labels from 0 to 9, got {labels.max()}")
    return records[:, 1:].reshape(-1, 3, 32, 32), labels
