"""Folders of .wav files with a table of labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from unicornn.errors import BadValue, CorruptData
from unicornn.lab.data._archives import opened, ordinary
from unicornn.lab.fit._data import Data

FILE_COLUMNS = ("file", "filename", "name", "path", "wav")


def read_folder(folder: Path, target: str | None) -> Iterator[Data]:
    """Recordings one by one, in order of their names; the target is a column of the .csv in the same folder."""
    try:
        import soundfile
    except ImportError as error:
        raise ImportError(f"{folder}: reading .wav files needs soundfile: pip install 'unicornn[fit]'") from error

    files = sorted(folder.glob("*.wav"))
    if not files:
        raise CorruptData(f"{folder}: expected .wav files in the folder, got none")
    labels = None if target is None else _labels(folder, target, [path.name for path in files])
    first: tuple[int, int] | None = None
    for i, path in enumerate(files):
        try:
            sound, rate = soundfile.read(ordinary(path), dtype="float32", always_2d=True)
        except (soundfile.LibsndfileError, RuntimeError) as error:
            raise CorruptData(f"{path}: expected a sound file: {error}") from error
        if not len(sound):
            raise CorruptData(f"{path}: expected samples, got none")
        d, expected_rate = first = first or (sound.shape[1], rate)
        if sound.shape[1] != d:
            raise CorruptData(f"{path}: expected {d} channels as in {files[0].name}, got {sound.shape[1]}")
        if rate != expected_rate:
            raise CorruptData(f"{path}: expected a sampling rate of {expected_rate} Hz as before, got {rate} Hz")
        channels, label = [f"channel{c}" for c in range(d)], None if labels is None else labels[i : i + 1]
        yield Data(f"folder of .wav files at {rate} Hz", [sound], [path.name], channels, label)


def _labels(folder: Path, target: str, names: list[str]) -> np.ndarray:
    tables = sorted(folder.glob("*.csv"))
    if len(tables) != 1:
        raise BadValue(f"{folder}: expected one .csv with the labels of the files, got {len(tables)}")
    path = tables[0]
    try:
        with opened(path) as file:
            table = pd.read_csv(file)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise CorruptData(f"{path}: expected a table: {error}") from error
    columns = [str(c) for c in table.columns]
    file_column = next((c for c in columns if c.lower() in FILE_COLUMNS), None)
    if file_column is None or target not in columns:
        expected = f"expected a column of file names ({', '.join(FILE_COLUMNS)}) and {target!r}"
        raise BadValue(f"{path}: {expected}, got {', '.join(columns)}")
    labels = table.set_index(file_column)[target]
    if labels.index.has_duplicates:
        raise CorruptData(f"{path}: expected each file once, got {labels.index[labels.index.duplicated()][0]!r} twice")
    for line, name in enumerate(labels.index, 2):
        if name not in names:
            raise CorruptData(f"{path}, line {line}: expected the name of a file in the folder, got {name!r}")
    labels = labels.reindex(names)
    if labels.isna().any():
        raise CorruptData(f"{path}: expected a label for every file, got none for {labels.index[labels.isna()][0]!r}")
    return np.array(labels.tolist())
