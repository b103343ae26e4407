"""Folders with one series per file: recordings or tables, labelled by a table or by the names of their folders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from unicornn.errors import BadValue, CorruptData
from unicornn.lab.data._formats import read_sound
from unicornn.lab.fit._data import SOUNDS, TABLES, Data, Reading
from unicornn.lab.fit._sources import open_table
from unicornn.lab.fit._tables import read_table

FILE_COLUMNS = ("file", "filename", "name", "path", "wav")
LABELS = "labels.csv"


def read_folder(path: Path, reading: Reading) -> Iterator[Data]:
    """Series one by one, in order of their names; or the single recording in a file.

    Targets are the names of the folders in which the files are, or a column of a table in the folder (labels.csv, or
    the only .csv beside recordings), or a column of each table.
    """
    files, classes = ([path], False) if path.is_file() else _list_files(path)
    folder = path if path.is_dir() else path.parent
    sounds = files[0].suffix.lower() in SOUNDS
    tables = [file for file in files if file.name.lower().endswith(TABLES)]
    labels: dict[str, object] | None = None
    if sounds:
        files = [file for file in files if file.suffix.lower() in SOUNDS]
        if reading.target is not None and not classes:
            if len(tables) != 1:
                raise BadValue(f"{folder}: expected one .csv with the labels of the files, got {len(tables)}")
            labels = _labels(tables[0], reading.target, [file.name for file in files])
    elif not classes and (folder / LABELS) in files:
        files.remove(folder / LABELS)
        if reading.target is not None:
            labels = _labels(folder / LABELS, reading.target, [file.name for file in files])
    if classes and reading.target is not None:
        raise BadValue(
            f"--target: expected none, because the folders in {folder} are the classes, got {reading.target!r}"
        )
    own = replace(reading, target=None) if labels is not None or sounds else reading
    first: Data | None = None
    for file in files:
        name = file.relative_to(folder).as_posix()
        data = _recording(file, name) if sounds else Data.join(read_table(file, own, True, name))
        first = first or data
        if (data.form, data.channels) != (first.form, first.channels):
            expected, got = (f"{each.form} and channels {', '.join(each.channels)}" for each in (first, data))
            raise CorruptData(f"{file}: expected {expected} as in {first.ids[0]}, got {got}")
        label = file.parent.name if classes else None if labels is None else labels[file.name]
        target = data.target if label is None else np.array([label])
        yield replace(data, form=f"folder{' of folders named by class' if classes else ''}: {data.form}", target=target)


def _list_files(folder: Path) -> tuple[list[Path], bool]:
    """Files with series in a folder, or in its folders, whose names are then classes."""
    known = (*SOUNDS, *TABLES)
    visible = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    below = [file for path in visible if path.is_dir() for file in sorted(path.iterdir())]
    files, inside = ([path for path in paths if path.name.lower().endswith(known)] for paths in (visible, below))
    if files and inside:
        raise CorruptData(f"{folder}: expected files, or folders named by class, got both")
    kinds = {path.suffix.lower() in SOUNDS for path in inside or files}
    if not kinds or (inside and len(kinds) > 1):
        others = sorted({path.suffix or path.name for path in below or visible})
        got = "both" if kinds else ", ".join(others[:6]) or "nothing"
        raise CorruptData(f"{folder}: expected recordings or tables ({', '.join(known)}), got {got}")
    return sorted(inside or files, key=lambda path: (path.suffix.lower() not in SOUNDS, path)), bool(inside)


def _recording(path: Path, name: str) -> Data:
    sound, rate = read_sound(path, "float32", "fit")
    if not len(sound):
        raise CorruptData(f"{path}: expected samples, got none")
    return Data(f"recordings at {rate} Hz", [sound], [name], [f"channel{c}" for c in range(sound.shape[1])])


def _labels(path: Path, target: str, names: list[str]) -> dict[str, object]:
    """The target of each file, from a table."""
    table = open_table(path, Reading())
    file_column = next((c for c in table.names if c.lower() in FILE_COLUMNS), None)
    if file_column is None or target not in table.names:
        expected = f"expected a column of file names ({', '.join(FILE_COLUMNS)}) and {target!r}"
        raise BadValue(f"{path}: {expected}, got {', '.join(table.names)}")
    labels: dict[str, object] = {}
    known = set(names)
    for chunk in table.chunks:
        (files, different), (codes, values) = chunk.names(file_column), chunk.labels(target)
        for row, (file, code) in enumerate(zip(files, codes, strict=True)):
            place, name = f"{path}, line {chunk.line + row}", different[file]
            if name in labels:
                raise CorruptData(f"{place}: expected each file once, got {name!r} twice")
            if name not in known:
                raise CorruptData(f"{place}: expected the name of a file in the folder, got {name!r}")
            if code < 0:
                raise CorruptData(f"{place}: expected a label for every file, got none for {name!r}")
            labels[name] = values[code]
    if missing := [name for name in names if name not in labels]:
        raise CorruptData(f"{path}: expected a label for every file, got none for {missing[0]!r}")
    return labels
