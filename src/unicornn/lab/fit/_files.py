"""Readers of files of time series, by suffix, and of folders of such files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unicornn._extras import install_hint
from unicornn.errors import BadValue, CorruptData, MissingData
from unicornn.lab.data._archives import opened
from unicornn.lab.data._formats import read_npz
from unicornn.lab.data._ts import NUMBER, check_text, iterate_ts, parse_targets, parse_values
from unicornn.lab.fit._data import SOUNDS, TABLES, TEXT, Data, Reading

CELLS = 1 << 18  # of other formats than tables, read at a time

PANDAS = {
    ".json": "json", ".xls": "excel", ".ods": "excel", ".pkl": "pickle", ".pickle": "pickle", ".h5": "hdf",
    ".hdf5": "hdf", ".orc": "orc", ".dta": "stata", ".sas7bdat": "sas",
}  # fmt: skip
"""Functions of pandas that read other formats."""
CONVERSIONS = {suffix: f"pandas.read_{name}({{0!r}}).to_parquet('series.parquet')" for suffix, name in PANDAS.items()}
CONVERSIONS |= {
    ".mat": "numpy.savez('series.npz', X=scipy.io.loadmat({0!r})['X'])",
    ".arff": "pandas.DataFrame(scipy.io.arff.loadarff({0!r})[0]).to_parquet('series.parquet')",
    ".mp3": "ffmpeg -i {0} recordings/1.wav",
}


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
    reading = _reading(path, target, options)
    return _finish(path, Data.join(_parts(path, reading, whole_series=False)), reading)


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
    reading = _reading(path, target, options)
    if reading.resample is not None and not whole_series:  # needs all of a series
        yield read(path, target, **options)
        return
    batch: list[Data] = []
    cells, enough = 0, 0 if _is_table(path) else CELLS
    for part in _parts(path, reading, whole_series):
        batch.append(part)
        cells += sum(x.size for x in part.series)
        if cells >= enough:
            yield _finish(path, Data.join(batch), reading, whole_series)
            batch, cells = [], 0
    if batch:
        yield _finish(path, Data.join(batch), reading, whole_series)


def has_targets(path: Path) -> bool:
    """Whether a file has targets without ``--target``: .ts and .tsv, and folders named by class."""
    return path.suffix.lower() in (".ts", ".tsv") or (path.is_dir() and any(each.is_dir() for each in path.iterdir()))


def _reading(path: Path, target: str | None, options: dict[str, Any]) -> Reading:
    reading = Reading(target, **options)
    return reading.complete() if path.is_dir() or _is_table(path) else reading


def _finish(path: Path, data: Data, reading: Reading, complete: bool = True) -> Data:
    """Series that are checked, with targets as numbers if all are.

    Targets stay text if the series are not ``complete``: those of other parts may not be numbers.
    """
    if data.target is not None and data.target.dtype.kind in TEXT and complete:
        data.target = parse_targets(data.target.tolist())
    data.check(path, complete)
    if reading.resample is not None:
        data = data.resample(reading.resample)
        data.reading = {**data.reading, "resample": reading.resample}
        data.notes = [*data.notes, f"resampled with a period of {reading.resample}"]
    return data


def _is_table(path: Path) -> bool:
    """Whether a file is a table; a .tsv is one if it has a header, unlike those of the UCR archive."""
    if path.suffix.lower() == ".tsv" and path.is_file():
        with opened(path) as file:
            second = file.readline().decode("latin-1").split("\t")[1:2]
        return any(cell.strip()[:1].isalpha() and not re.match(NUMBER, cell.strip()) for cell in second)
    return path.name.lower().endswith(TABLES)


def _parts(path: Path, reading: Reading, whole_series: bool) -> Iterator[Data]:
    """Parts of the file: chunks of a table, single series of other formats, all of an .npz."""
    if not path.exists():
        raise MissingData(f"{path}: expected a file of time series or a folder of such files, found nothing there")
    suffix = path.suffix.lower()
    if path.is_dir() or suffix in SOUNDS:
        from unicornn.lab.fit._folders import read_folder

        return read_folder(path, reading)
    if _is_table(path):
        try:
            from unicornn.lab.fit._tables import read_table
        except ImportError as error:
            raise ImportError(f"{path}: reading tables needs pyarrow: {install_hint('fit')}") from error
        return read_table(path, reading, whole_series)
    readers: dict[str, Callable[[Path, Reading], Iterator[Data]]] = {
        ".ts": _ts, ".tsv": _tsv, ".npz": _npz, ".npy": _npy,
    }  # fmt: skip
    if suffix not in readers:
        known = ", ".join([*TABLES, *readers, *SOUNDS])
        convert = f"; convert it: {CONVERSIONS[suffix].format(path.name)}" if suffix in CONVERSIONS else ""
        raise BadValue(f"FILE: expected a name that ends in {known}, or a folder, got {path.name}{convert}")
    if reading.id or reading.time or reading.drop or reading.form:
        raise BadValue(
            f"--id, --time, --drop, --form: expected with tables ({', '.join(TABLES)}) only, got {path.name}"
        )
    return readers[suffix](path, reading)


def _ts(path: Path, reading: Reading) -> Iterator[Data]:
    for number, x, label in iterate_ts(path):
        if label is None and reading.target is not None:
            raise BadValue(f"--target: expected a .ts file with @classLabel or @targetLabel true, got {path.name}")
        labels = None if label is None else np.array([label])
        yield Data("ts", [x], [f"line {number}"], [f"channel{i}" for i in range(x.shape[1])], labels)


def _tsv(path: Path, reading: Reading) -> Iterator[Data]:
    """The UCR archive's format: one series per line, class first; shorter series are padded with missing values."""
    empty = True
    with opened(path) as file:
        for number, raw in enumerate(file, 1):
            line = raw.decode("latin-1").strip("\r\n")
            check_text(path, number, line)
            label, *cells = line.split("\t")
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


def _npy(path: Path, reading: Reading) -> Iterator[Data]:
    """An array (n, N) or (n, N, d)."""
    if reading.target is not None:
        line = "numpy.savez('series.npz', X=X, y=y)"
        raise BadValue(f"--target: expected a file with targets, got {path.name}; save both in one file: {line}")
    try:
        with path.open("rb") as file:
            array = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CorruptData(f"{path}: expected an .npy of numbers: {error}") from error
    if not isinstance(array, np.ndarray) or array.ndim not in (2, 3):
        raise CorruptData(f"{path}: expected an array (n, N) or (n, N, d), got {getattr(array, 'shape', 'several')}")
    yield _from_arrays(path, {"X": array}, reading, "npy: array")


def _npz(path: Path, reading: Reading) -> Iterator[Data]:
    """Arrays X (n, N) or (n, N, d), or values (total steps, d) and lengths (n,); the target by its name."""
    yield _from_arrays(path, read_npz(path), reading, "npz: X")


def _from_arrays(path: Path, arrays: dict[str, np.ndarray], reading: Reading, form: str) -> Data:
    if "X" in arrays and arrays["X"].ndim in (2, 3):
        X = arrays["X"]
        series = list(X[:, :, None] if X.ndim == 2 else X)
        form = f"{form} of shape {X.shape}"
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
    for option, name in (("--target", reading.target), ("--groups", reading.groups)):
        if name is not None and (name not in arrays or arrays[name].shape != (len(series),)):
            names = ", ".join(arrays)
            raise BadValue(f"{option}: expected an array ({len(series)},) in {path.name}, got {name!r} of {names}")
    channels = [f"channel{i}" for i in range(series[0].shape[1] if series else 0)]
    data = Data(form, series, [str(i) for i in range(len(series))], channels)
    target, groups = (None if name is None else arrays[name] for name in (reading.target, reading.groups))
    return replace(data, target=target, groups=groups)
