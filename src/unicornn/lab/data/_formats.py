"""The file formats of the data sets: idx (MNIST), CIFAR's binary, .npz, recordings; see ``_ts`` for .ts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from unicornn._extras import install_hint
from unicornn.errors import CorruptData
from unicornn.lab.data._archives import opened


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The array of unsigned bytes in an idx file, gzipped or not, which must have this number of dimensions."""
    magic, header = bytes([0, 0, 8, dimensions]), 4 + 4 * dimensions
    with opened(path) as file:
        content = file.read()
    if content[:4] != magic:
        raise CorruptData(
            f"{path}: expected an idx file of unsigned bytes in {dimensions} dimensions, beginning with "
            f"{magic.hex(' ')}, got {content[:4].hex(' ') or 'an empty file'}"
        )
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, header, 4))
    if len(content) != header + math.prod(shape):
        raise CorruptData(
            f"{path}: expected a header of {header} bytes and {math.prod(shape)} bytes for its shape {shape}, "
            f"got {len(content)} in total"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def read_npz(path: Path, *names: str) -> dict[str, np.ndarray]:
    """Arrays of an .npz file with these names, or all arrays; pickled objects are rejected."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names or arrays.files}
    except Exception as error:  # numpy and zipfile raise a dozen kinds for damaged files
        expected = f"with {', '.join(names)}" if names else "of numbers"
        raise CorruptData(f"{path}: expected an .npz {expected}: {error}") from error


def read_recordings(path: Path, dimensions: int, *labels: str) -> list[np.ndarray]:
    """An .npz of recordings one after another: ``values`` (all steps, ...), ``lengths`` (n,), and ``labels`` (n,)."""
    values, lengths, *others = read_npz(path, "values", "lengths", *labels).values()
    if not all(a.shape == lengths.shape and a.ndim == 1 and a.dtype.kind in "iu" for a in (lengths, *others)):
        shapes = ", ".join(f"{a.dtype} {a.shape}" for a in (lengths, *others))
        raise CorruptData(f"{path}: expected integers lengths, {', '.join(labels)} of the same shape, got {shapes}")
    if values.ndim != dimensions or not len(lengths) or lengths.min() < 1 or lengths.sum() != len(values):
        raise CorruptData(
            f"{path}: expected as many values as the lengths add up to, got values {values.shape} and {lengths.shape} "
            f"lengths of sum {lengths.sum()}"
        )
    if not np.isfinite(values).all():
        raise CorruptData(f"{path}: expected finite values, got {np.count_nonzero(~np.isfinite(values))} that are not")
    return [values, *(array.astype(np.int64) for array in (lengths, *others))]


def read_sound(path: Path, dtype: str, extra: str) -> tuple[np.ndarray, int]:
    """Samples (n, channels) of a recording, and its sampling rate. ``extra`` has the library that reads it."""
    try:
        import soundfile
    except ImportError as error:
        raise ImportError(f"{path}: reading recordings needs soundfile: {install_hint(extra)}") from error
    try:
        return soundfile.read(path, dtype=dtype, always_2d=True)
    except (soundfile.LibsndfileError, RuntimeError) as error:
        raise CorruptData(f"{path}: expected a sound file: {error}") from error


def read_cifar10(content: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32) and labels (n,) of one of CIFAR-10's binary files; ``name`` is used in errors."""
    record = 1 + 3 * 32 * 32
    if not content or len(content) % record:
        raise CorruptData(f"{name}: expected a multiple of {record} bytes (label and pixels), got {len(content)}")
    records = np.frombuffer(content, np.uint8).reshape(-1, record)
    labels = records[:, 0]
    if labels.max() > 9:
        raise CorruptData(f"{name}: expected labels from 0 to 9, got {labels.max()}")
    return records[:, 1:].reshape(-1, 3, 32, 32), labels
