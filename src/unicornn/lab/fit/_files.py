"""Readers of files of time series, by suffix: .csv, .parquet, .ts, .tsv, .npz, and folders of .wav files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from unicornn.errors import BadValue, CorruptData, MissingData
from unicornn.lab.data._archives import opened, ordinary
from unicornn.lab.data._formats import read_npz
from unicornn.lab.data._ts import iterate_ts, parse_targets, parse_values
from unicornn.lab.fit._data import Data
from unicornn.lab.fit._tables import CELLS, Reading, read_table
from unicornn.lab.fit._wav import read_folder

TABLES = (".csv", ".csv.gz", ".parquet")


def read(path: Path, target: str | None = None, **options: Any) -> Data:
    """Reads the series in a file, and their targets if ``target`` names a column or array or the format has them.

    Args:
        path: File, or folder of .wav files.
        target: Column or array of the targets.
        options: Other fields of ``Reading``.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from unicornn.lab.fit import read
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "walks.csv"
        ...     _ = path.write_text("series,time,x,who\\na,0,1.5,Ann\\na,1,2.5,Ann\\nb,0,3.5,Bob\\n")
        ...     data = read(path, "who")
        >>> data.ids, data.channels, data.target.tolist(), data.series[0].ravel().tolist()
        (['a', 'b'], ['x'], ['Ann', 'Bob'], [1.5, 2.5])
    """
    return _join(path, _parts(path, Reading(target, **options), whole_series=False)).check(path)


def stream(path: Path, target: str | None = None, *, whole_series: bool = True, **options: Any) -> Iterator[Data]:
    """As ``read``, but yields some series at a time, so that the file may be larger than memory (except .npz).

    Args:
        path, target, options: As for ``read``.
        whole_series: Whether the rows of each series of a table must be consecutive. If False, a series may be
            yielded in several parts, which is enough to describe it.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from unicornn.lab.fit import stream
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "walks.csv"
        ...     _ = path.write_text("series,x\\na,1\\na,2\\nb,3\\n")
        ...     [name for data in stream(path) for name in data.ids]
        ['a', 'b']
    """
    batch: list[Data] = []
    cells, enough = 0, 0 if _is_table(path) else CELLS
    for part in _parts(path, Reading(target, **options), whole_series):
        batch.append(part)
        cells += sum(x.size for x in part.series)
        if cells >= enough:
            yield _join(path, batch).check(path, complete=whole_series)
            batch, cells = [], 0
    if batch:
        yield _join(path, batch).check(path)


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith(TABLES)


def _parts(path: Path, columns: Reading, whole_series: bool) -> Iterator[Data]:
    """Parts of the file: chunks of a table, single series of other formats, all of an .npz."""
    if not path.exists():
        raise MissingData(f"{path}: expected a file of time series, or a folder of .wav files, found nothing there")
    ordinary(path)
    if path.is_dir():
        return read_folder(path, columns.target)
    if _is_table(path):
        return read_table(path, columns, whole_series)
    readers: dict[str, Callable[[Path, str | None], Iterator[Data]]] = {".ts": _ts, ".tsv": _tsv, ".npz": _npz}
    if path.suffix.lower() not in readers:
        known = ", ".join([*TABLES, *readers])
        raise BadValue(f"FILE: expected a name that ends in {known}, or a folder of .wav files, got {path.name}")
    if columns.id or columns.time or columns.drop:
        raise BadValue(f"--id, --time, --drop: expected with tables ({', '.join(TABLES)}) only, got {path.name}")
    return readers[path.suffix.lower()](path, columns.target)


def _join(path: Path, parts: Iterable[Data]) -> Data:
    data = Data.join(parts)
    if data.target is not None and path.suffix.lower() in (".ts", ".tsv"):
        data.target = parse_targets(data.target.tolist())
    return data


def _ts(path: Path, target: str | None) -> Iterator[Data]:
    for number, x, label in iterate_ts(path):
        if label is None and target is not None:
            raise BadValue(f"--target: expected a .ts file with @classLabel or @targetLabel true, got {path.name}")
        labels = None if label is None else np.array([label])
        yield Data("ts", [x], [f"line {number}"], [f"channel{i}" for i in range(x.shape[1])], labels)


def _tsv(path: Path, target: str | None) -> Iterator[Data]:
    """The UCR archive's format: one series per line, class first; shorter series are padded with missing values."""
    empty = True
    with opened(path) as file:
        for number, raw in enumerate(file, 1):
            label, *cells = raw.decode("latin-1").strip("\r\n").split("\t")
            if not label and not cells:
                continue
            if not cells:
                raise CorruptData(f"{path}, line {number}: expected a class and values separated by tabs")
            x = parse_values(path, number, cells)
            known = np.flatnonzero(~np.isnan(x))
            if not len(known):
                raise CorruptData(f"{path}, line {number}: expected values, got none")
            empty = False
            x, labels = x[: known[-1] + 1, None], np.array([label.strip()])
            yield Data("tsv of the UCR archive: class first", [x], [f"line {number}"], ["value"], labels)
    if empty:
        raise CorruptData(f"{path}: expected one series per line, got none")


def _npz(path: Path, target: str | None) -> Iterator[Data]:
    """Arrays X (n, N) or (n, N, d), or values (total steps, d) and lengths (n,); the target by its name."""
    arrays = read_npz(path)
    if "X" in arrays and arrays["X"].ndim in (2, 3):
        X = arrays["X"]
        series = list(X[:, :, None] if X.ndim == 2 else X)
        form = f"npz: X of shape {X.shape}"
    elif {"values", "lengths"} <= arrays.keys():
        values, lengths = arrays["values"], arrays["lengths"]
        if values.ndim not in (1, 2) or lengths.ndim != 1 or lengths.dtype.kind not in "iu" or not len(lengths):
            got = f"values {values.shape} and lengths {lengths.shape} of {lengths.dtype}"
            raise CorruptData(f"{path}: expected values (total steps, d) and integers as lengths (n,), got {got}")
        if sum(lengths.tolist()) != len(values) or lengths.min() < 1:
            raise CorruptData(f"{path}: expected lengths >= 1 whose sum is {len(values)}, the number of values")
        values = values[:, None] if values.ndim == 1 else values
        series = np.split(values, np.cumsum(lengths)[:-1])
        form = "npz: values and lengths"
    else:
        raise CorruptData(f"{path}: expected X (n, N) or (n, N, d), or values and lengths, got {', '.join(arrays)}")
    if target is not None and (target not in arrays or arrays[target].shape != (len(series),)):
        names = ", ".join(arrays)
        raise BadValue(f"--target: expected an array ({len(series)},) in {path.name}, got {target!r} of {names}")
    channels = [f"channel{i}" for i in range(series[0].shape[1] if series else 0)]
    ids = [str(i) for i in range(len(series))]
    yield Data(form, series, ids, channels, None if target is None else arrays[target])
