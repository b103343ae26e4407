"""CSV and Parquet tables: series in long form (one row per step) or in wide form (one row per series)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unicornn.errors import BadValue, CorruptData
from unicornn.lab.data._archives import opened
from unicornn.lab.fit._data import Data

IDS = ("series", "series_id", "id", "case", "case_id")
TIMES = ("time", "timestamp", "t", "step")
OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
CELLS = 1 << 18  # read at a time, which needs about 60 MB


@dataclass(frozen=True)
class Reading:
    """Options for reading a file.

    Attributes:
        target: Column or array of the targets.
        id: Column of series names, in a table.
        time: Column of times, in a long table.
        drop: Columns of a table to leave out.
        ignored: Columns of a table to leave out if they exist.
    """

    target: str | None = None
    id: str | None = None
    time: str | None = None
    drop: Sequence[str] = ()
    ignored: Sequence[str] = ()


@dataclass
class _Seen:
    """State kept between the parts of a table: targets and last times of the series, and which have values."""

    targets: dict[Any, Any] = field(default_factory=dict)
    last_time: dict[Any, float] = field(default_factory=dict)
    has_values: dict[Any, bool] = field(default_factory=dict)


def read_table(path: Path, columns: Reading, whole_series: bool) -> Iterator[Data]:
    """Yields the table in parts: long form if it has a column of series names, otherwise wide form.

    With ``whole_series``, parts of a long table end where a series ends, and the rows of a series must be consecutive.
    """
    chunks = _chunks(path, columns.id)
    first = next(chunks, None)
    if first is None or not len(first):
        raise CorruptData(f"{path}: expected a header and at least one row, got none")
    explicit_time = columns.time
    columns = _identify(path, columns, [str(c) for c in first.columns])
    chunks = itertools.chain([first], chunks)
    chunks = (chunk.drop(columns=columns.drop) for chunk in chunks)
    if columns.id is None:
        if explicit_time is not None:
            raise BadValue(f"--time: expected a table in long form, with a column of series (--id), got {path.name}")
        for chunk in chunks:
            yield _wide(path, chunk, columns.target)
        return
    if whole_series:
        chunks = _cut_between_series(path, chunks, columns.id)
    seen = _Seen()
    for chunk in chunks:
        yield _long(path, chunk, columns, seen)
    if empty := [name for name, has_values in seen.has_values.items() if not has_values]:
        raise CorruptData(f"{path}: expected finite values in series {empty[0]}, got none")


def _identify(path: Path, columns: Reading, names: list[str]) -> Reading:
    """Checks the named columns against the table's, and finds those that were not named."""
    if duplicates := {c for c in names if names.count(c) > 1}:
        raise CorruptData(f"{path}: expected each column once, got {min(duplicates)!r} more often")
    named = [("--target", columns.target), ("--id", columns.id), ("--time", columns.time)]
    for option, column in [*named, *(("--drop", column) for column in columns.drop)]:
        if column is not None and column not in names:
            known = ", ".join(names[:20])
            raise BadValue(f"{option}: expected a column of {path.name}, got {column!r}; there are {known}")
    used = columns.id, columns.time, columns.target
    drop = [c for c in names if c in columns.drop or (c in columns.ignored and c not in used)]
    left = [c for c in names if c not in drop]
    series = columns.id or next(filter(_names_series, left), None)
    time = columns.time or next((c for c in left if c.lower() in TIMES), None)
    return Reading(columns.target, series, time, drop)


def _names_series(column: str) -> bool:
    return column.lower() in IDS


def _cut_between_series(path: Path, chunks: Iterator[pd.DataFrame], column: str) -> Iterator[pd.DataFrame]:
    """The chunks, cut again so that each series is in one of them."""
    finished: set[Any] = set()

    def finish(part: pd.DataFrame) -> pd.DataFrame:
        names = set(pd.unique(part[column]))
        if again := names & finished:
            name = next(iter(again))
            line = _line(part, int(np.flatnonzero(part[column] == name)[0]))
            raise CorruptData(f"{path}, line {line}: expected the rows of series {name} together, got more of them")
        finished.update(names)
        return part

    rest = pd.DataFrame()
    for chunk in chunks:
        table = pd.concat([rest, chunk]) if len(rest) else chunk
        _check_complete(path, table, column)
        others = np.flatnonzero((table[column] != table[column].iloc[-1]).to_numpy())
        end = int(others[-1]) + 1 if len(others) else 0
        if end:
            yield finish(table.iloc[:end])
        rest = table.iloc[end:]
    yield finish(rest)


def _chunks(path: Path, id_column: str | None) -> Iterator[pd.DataFrame]:
    """The table in chunks of about ``CELLS`` cells, so that its text is never in memory as a whole."""
    if path.suffix.lower() == ".parquet":
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise ImportError(f"{path}: reading Parquet needs pyarrow: pip install 'unicornn[fit]'") from error
        try:
            file = pq.ParquetFile(path)
            for batch in file.iter_batches(_rows_at_once(len(file.schema_arrow))):
                yield batch.to_pandas()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorruptData(f"{path}: expected a Parquet file: {error}") from error
        return
    options: dict[str, Any] = {"skipinitialspace": True, "low_memory": False, "float_precision": "round_trip"}
    try:
        with opened(path) as file:
            columns = list(map(str, pd.read_csv(file, nrows=0, **options)))
        for separator, name in OTHER_SEPARATORS.items():
            if len(columns) == 1 and separator in columns[0]:
                raise CorruptData(f"{path}, line 1: expected columns separated by commas, got {name}")
        # As text: 01 is not 1, and a name must not be a number in one chunk and text in the next.
        options["dtype"] = {c: str for c in columns if c == id_column or _names_series(c)}
        with opened(path) as file, pd.read_csv(file, chunksize=_rows_at_once(len(columns)), **options) as chunks:
            for chunk in chunks:
                if not isinstance(chunk.index, pd.RangeIndex):  # pandas uses surplus cells as row names
                    raise CorruptData(f"{path}: expected {len(columns)} cells in a row, as in the header, got more")
                yield chunk
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, OverflowError) as error:
        if "out of memory" in str(error):
            raise MemoryError(f"{path}: {error}") from error
        raise CorruptData(f"{path}{_rephrase(str(error))}") from error


def _rows_at_once(columns: int) -> int:
    return max(1, CELLS // max(1, columns))


def _rephrase(error: str) -> str:
    """A parser error of pandas in the form of ours, with the line if it is known."""
    if match := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", error):
        return f", line {match[2]}: expected {match[1]} cells, as in the header, got {match[3]}"
    if match := re.search(r"EOF inside string starting at row (\d+)", error):
        return f", line {int(match[1]) + 1}: expected a closing quotation mark, got the end of the file"
    return f": expected a table: {error.removeprefix('Error tokenizing data. C error: ').strip()}"


def _numbers(path: Path, chunk: pd.DataFrame, columns: list[str], target: str | None) -> np.ndarray:
    """Columns as float64, with NaN for empty cells; errors name the line of a cell that is not a number."""
    table = chunk[columns]
    for column in columns:
        if table[column].dtype.kind in "mMc":
            raise CorruptData(f"{path}: expected numbers in column {column!r}, got {table[column].dtype}")
    try:
        numbers = table.apply(pd.to_numeric, errors="coerce").astype(np.float64)
    except OverflowError as error:
        raise CorruptData(f"{path}: expected numbers that fit into 64 bits: {error}") from error
    bad = numbers.isna().to_numpy() & table.notna().to_numpy()
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise CorruptData(
            f"{path}, line {_line(chunk, row)}: expected a number in column {columns[column]!r}, got "
            f"{table.iloc[row, column]!r}" + ("" if target else "; --target names the column to predict")
        )
    return numbers.to_numpy()


def _line(chunk: pd.DataFrame, row: int) -> int:
    return int(chunk.index[row]) + 2  # lines count from one, and the first is the header


def _check_complete(path: Path, chunk: pd.DataFrame, column: str) -> np.ndarray:
    """A column without missing values, as numbers or text."""
    missing = chunk[column].isna().to_numpy()
    if missing.any():
        raise CorruptData(f"{path}, line {_line(chunk, int(missing.argmax()))}: expected a value in column {column!r}")
    values = chunk[column].to_numpy()
    return values.astype(str) if values.dtype.kind not in "fiub" else values


def _wide(path: Path, chunk: pd.DataFrame, target: str | None) -> Data:
    steps = [c for c in map(str, chunk.columns) if c != target]
    if not steps:
        raise CorruptData(f"{path}: expected columns of values, got only {target!r}")
    series, ids = [], []
    for row, x in enumerate(_numbers(path, chunk, steps, target)):
        known = np.flatnonzero(~np.isnan(x))
        if not len(known):
            raise CorruptData(f"{path}, line {_line(chunk, row)}: expected values, got an empty row")
        series.append(x[: known[-1] + 1, None])  # shorter series end with empty cells
        ids.append(f"line {_line(chunk, row)}")
    targets = None if target is None else _check_complete(path, chunk, target)
    return Data("wide: one row per series, one column per step", series, ids, ["value"], targets)


def _long(path: Path, chunk: pd.DataFrame, columns: Reading, seen: _Seen) -> Data:
    channels = [c for c in map(str, chunk.columns) if c not in (columns.id, columns.time, columns.target)]
    if not channels:
        raise CorruptData(f"{path}: expected columns of values beside {columns.id!r}, got none")
    values = _numbers(path, chunk, channels, columns.target)
    labels = None if columns.target is None else _check_complete(path, chunk, columns.target)
    times = None if columns.time is None else _times(path, chunk, columns.time)
    codes, names = pd.factorize(_check_complete(path, chunk, str(columns.id)))
    ends = np.cumsum(np.bincount(codes))
    rows_of = dict(zip(names, np.split(np.argsort(codes, kind="stable"), ends[:-1]), strict=True))
    for name, rows in rows_of.items():
        seen.has_values[name] = seen.has_values.get(name, False) or not np.isnan(values[rows]).all()
        if labels is not None:
            different = np.flatnonzero(labels[rows] != seen.targets.setdefault(name, labels[rows[0]]))
            if len(different):
                line, got = _line(chunk, rows[different[0]]), labels[rows[different[0]]]
                expected = f"expected one target for series {name}, got {seen.targets[name]} and {got}"
                raise CorruptData(f"{path}, line {line}: {expected}")
        if times is not None:
            _check_ascending(path, chunk, name, rows, times, seen.last_time.get(name, -np.inf))
            seen.last_time[name] = float(times[rows[-1]])
    return Data(
        f"long: one row per step, series by {columns.id!r}" + (f", times by {columns.time!r}" if columns.time else ""),
        [values[rows] for rows in rows_of.values()],
        [str(name) for name in rows_of],
        channels,
        None if labels is None else np.array([seen.targets[name] for name in rows_of]),
        [] if times is None else [times[rows] for rows in rows_of.values()],
    )


def _times(path: Path, chunk: pd.DataFrame, column: str) -> np.ndarray:
    """Times as numbers; dates in seconds."""
    values = chunk[column]
    if values.dtype.kind in "fiu":
        return values.to_numpy(dtype=np.float64)
    form = "ISO8601" if values.dtype.kind in "OTU" else None
    dates = pd.to_datetime(values, errors="coerce", format=form, utc=True).dt.tz_localize(None)
    no_date, no_number = (v.isna().to_numpy() for v in (dates, pd.to_numeric(values, errors="coerce")))
    if no_date.any():
        bad = no_number if 0 < no_number.sum() < no_date.sum() else no_date  # the column has mostly numbers, or dates
        row = int(bad.argmax())
        got = f"expected a time in column {column!r}, got {values.iloc[row]!r}"
        raise CorruptData(f"{path}, line {_line(chunk, row)}: {got}")
    return dates.astype("datetime64[ns]").to_numpy().astype(np.int64) / 1e9


def _check_ascending(
    path: Path, chunk: pd.DataFrame, name: Any, rows: np.ndarray, times: np.ndarray, last: float
) -> None:
    """Raises an error unless the times of a series ascend, starting from the last one of the previous chunk."""
    series_times = times[rows]
    before = np.concatenate([[last], series_times[:-1]])
    bad = np.flatnonzero(~((series_times > before) & (series_times < np.inf)))
    if len(bad):
        line, time = _line(chunk, rows[bad[0]]), series_times[bad[0]]
        if not np.isfinite(time):
            raise CorruptData(f"{path}, line {line}: expected a time in series {name}, got {time}")
        got = "the same time twice" if time == before[bad[0]] else "an earlier time than in its previous row"
        raise CorruptData(f"{path}, line {line}: expected ascending times in series {name}, got {got}")
