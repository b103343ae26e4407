"""Folders of .wav files with a table of labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from unicornn.errors import BadValue, CorruptData
from unicornn.lab.data._archives import opened, ordinary
from unicornn.lab.fit._data import Data

NAMES = ("file", "filename", "name", "path", "wav")


def read_folder(folder: Path, target: str | None) -> Iterator[Data]:
    """Recordings one by one, in the order of their names; a target is a column of the .csv beside them, which has their
    names."""
    try:
        import soundfile
    except ImportError as error:
        raise ImportError(f"{folder}: reading .wav files needs soundfile: pip install 'unicornn[fit]'") from error

    files = {path.name: path for path in sorted(folder.glob("*.wav"))}
    if not files:
        raise CorruptData(f"{folder}: expected .wav files in the folder, got none")
    labels = None if target is None else _labels(folder, target, files)
    first: tuple[int, int] | None = None
    for i, (name, path) in enumerate(files.items()):
        try:
            sound, rate = soundfile.read(ordinary(path), dtype="float32", always_2d=True)
        except (soundfile.LibsndfileError, RuntimeError) as error:
            raise CorruptData(f"{path}: expected a sound file: {error}") from error
        if not len(sound):
            raise CorruptData(f"{path}: expected samples, got none")
        d, expected_rate = first = first or (sound.shape[1], rate)
        if sound.shape[1] != d:
            raise CorruptData(f"{path}: expected {d} channels as in {next(iter(files))}, got {sound.shape[1]}")
        if rate != expected_rate:
            raise CorruptData(f"{path}: expected a sampling rate of {expected_rate} Hz as before, got {rate} Hz")
        channels, label = [f"channel{c}" for c in range(d)], None if labels is None else labels[i : i + 1]
        yield Data(f"folder of .wav files at {rate} Hz", [sound], [name], channels, label)


def _labels(folder: Path, target: str, files: dict[str, Path]) -> np.ndarray:
    tables = sorted(folder.glob("*.csv"))
    if len(tables) != 1:
        raise BadValue(f"{folder}: expected one .csv with the labels of the files, got {len(tables)}")
    try:
        with opened(tables[0]) as file:
            table = pd.read_csv(file)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise CorruptData(f"{tables[0]}: expected a table: {error}") from error
    column = next((c for c in table.columns if str(c).lower() in NAMES), None)
    if column is None or target not in table.columns:
        raise BadValue(
            f"{tables[0]}: expected a column of file names ({', '.join(NAMES)}) and {target!r}, got "
            f"{', '.join(map(str, table.columns))}"
        )
    if table[column].duplicated().any():
        twice = table[column][table[column].duplicated()].iloc[0]
        raise CorruptData(f"{tables[0]}: expected each file once, got {twice!r} twice")
    found = dict(zip(table[column], table[target], strict=True))
    for name in files:
        if name not in found or pd.isna(found[name]):
            raise CorruptData(f"{tables[0]}: expected a label for every file, got none for {name!r}")
    for line, name in enumerate(table[column], 2):
        if name not in files:
            raise CorruptData(f"{tables[0]}, line {line}: expected the name of a file in the folder, got {name!r}")
    return np.array([found[name] for name in files])
