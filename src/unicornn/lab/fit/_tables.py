"""CSV and Parquet: series in long form (one row per step) or in wide form (one row per series)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from unicornn.errors import BadValue, CorruptData
from unicornn.lab.data._archives import opened
from unicornn.lab.fit._data import Data

IDS = ("series", "series_id", "id", "case", "case_id")
OTHER_MARKS = {";": "semicolons", "\t": "tabs", "|": "bars"}
TIMES = ("time", "timestamp", "t", "step")
CELLS = 1 << 18  # read at a time, which takes some 60 MB


def read_table(path: Path, target: str | None, id_column: str | None = None, time_column: str | None = None) -> Data:
    """A table, in long form if it has a column of names of series (``id_column``, else one of IDS), else in wide."""
    columns, first, rest = _opened(path, target, id_column, time_column)
    if columns.series is None:
        return _wide(path, _all(first, rest), target, time_column)
    return _long(path, _all(first, rest), target, columns, _Known())


def stream_table(
    path: Path,
    target: str | None,
    id_column: str | None = None,
    time_column: str | None = None,
    ignored: str | None = None,
) -> Iterator[Data]:
    """The same, some whole series at a time, for tables larger than memory; in long form, the rows of each series have
    to follow one another. A column called ``ignored`` is left out, if there is one."""
    columns, first, rest = _opened(path, target, id_column, time_column, ignored)
    if columns.series is None:
        for chunk in _all(first, rest):
            yield _wide(path, [chunk], target, time_column)
        return
    finished: set[Any] = set()
    for part in _whole_series(path, _all(first, rest), columns.series):
        names = set(pd.unique(part[columns.series]))
        if again := names & finished:
            name = next(iter(again))
            line = _line(part, int(np.flatnonzero(part[columns.series] == name)[0]))
            raise CorruptData(f"{path}, line {line}: expected the rows of series {name} together, got more of them")
        finished |= names
        yield _long(path, [part], target, columns, _Known())


def scan_table(
    path: Path, target: str | None, id_column: str | None = None, time_column: str | None = None
) -> Iterator[Data]:
    """The same for a description: in long form a series may come in several parts, wherever its rows are."""
    columns, first, rest = _opened(path, target, id_column, time_column)
    if columns.series is None:
        for chunk in _all(first, rest):
            yield _wide(path, [chunk], target, time_column)
        return
    known, empty = _Known(), dict[str, bool]()
    for chunk in _all(first, rest):
        part = _long(path, [chunk], target, columns, known)
        empty |= {
            name: empty.get(name, True) and bool(np.isnan(x).all())
            for name, x in zip(part.ids, part.series, strict=True)
        }
        yield part
    if any(empty.values()):
        name = next(name for name, nothing in empty.items() if nothing)
        raise CorruptData(f"{path}: expected finite values in series {name}, got none")


def _whole_series(path: Path, chunks: Iterator[pd.DataFrame], own: str) -> Iterator[pd.DataFrame]:
    """Parts of a table that end where a series does."""
    held = None
    for chunk in chunks:
        table = chunk if held is None else pd.concat([held, chunk])
        _whole_column(path, table, own)
        last = (
            int(np.flatnonzero((table[own] != table[own].iloc[-1]).to_numpy())[-1]) + 1
            if table[own].nunique() > 1
            else 0
        )
        if last:
            yield table.iloc[:last]
        held = table.iloc[last:]
    if held is not None:
        yield held


class _Columns(NamedTuple):
    """Which columns have the names of the series and the times; None for none."""

    series: str | None
    time: str | None


@dataclass
class _Known:
    """What later parts of a series are held against: its target, and the time of its last row."""

    targets: dict[Any, Any] = field(default_factory=dict)
    last: dict[Any, float] = field(default_factory=dict)


def _opened(
    path: Path, target: str | None, id_column: str | None, time_column: str | None, ignored: str | None = None
) -> tuple[_Columns, pd.DataFrame, Iterator[pd.DataFrame]]:
    """The columns, and the table in parts: the first, and the others."""
    chunks = _chunks(path, id_column)
    first = next(chunks, None)
    if first is None or not len(first):
        raise CorruptData(f"{path}: expected a header and at least one row, got none")
    columns = [str(c) for c in first.columns]
    if twice := {c for c in columns if columns.count(c) > 1}:
        raise CorruptData(f"{path}: expected each column once, got {min(twice)!r} more often")
    for name, column in (("--target", target), ("--id", id_column), ("--time", time_column)):
        if column is not None and column not in columns:
            known = ", ".join(columns[:20])
            raise BadValue(f"{name}: expected a column of {path.name}, got {column!r}; there are {known}")
    own = id_column or next(filter(_names_series, columns), None)
    time = time_column or next((c for c in columns if c.lower() in TIMES), None)
    if ignored in columns and ignored not in (own, time, target):
        first, chunks = first.drop(columns=ignored), (chunk.drop(columns=ignored) for chunk in chunks)
    return _Columns(own, time), first, chunks


def _names_series(column: str) -> bool:
    return column.lower() in IDS


def _chunks(path: Path, id_column: str | None) -> Iterator[pd.DataFrame]:
    """The table a part at a time, so that text is never held as a whole."""
    if path.suffix.lower() == ".parquet":
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise ImportError(f"{path}: reading Parquet needs pyarrow: pip install 'unicornn[fit]'") from error
        try:
            file = pq.ParquetFile(path)
            for batch in file.iter_batches(_rows(len(file.schema_arrow))):
                yield batch.to_pandas()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorruptData(f"{path}: expected a Parquet file: {error}") from error
        return
    options: dict[str, Any] = {"skipinitialspace": True, "low_memory": False}
    try:
        with opened(path) as file:
            columns = list(map(str, pd.read_csv(file, nrows=0, **options)))
        other = next((name for mark, name in OTHER_MARKS.items() if len(columns) == 1 and mark in columns[0]), None)
        if other:
            raise CorruptData(f"{path}, line 1: expected columns separated by commas, got {other}")
        # As text, for 01 is not 1, and a name must not be a number in one part of the file and text in the next.
        options["dtype"] = {c: str for c in columns if c == id_column or _names_series(c)}
        with opened(path) as file, pd.read_csv(file, chunksize=_rows(len(columns)), **options) as chunks:
            for chunk in chunks:
                if not isinstance(chunk.index, pd.RangeIndex):  # pandas takes the cells in excess for names of rows
                    raise CorruptData(f"{path}: expected {len(columns)} cells in a row, as in the header, got more")
                yield chunk
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, OverflowError) as error:
        if "out of memory" in str(error):
            raise MemoryError(f"{path}: {error}") from error
        raise CorruptData(f"{path}{_in_our_words(str(error))}") from error


def _rows(columns: int) -> int:
    return max(1, CELLS // max(1, columns))


def _in_our_words(error: str) -> str:
    """What pandas says about a table, with the line where it says one."""
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", error):
        return f", line {found[2]}: expected {found[1]} cells, as in the header, got {found[3]}"
    if found := re.search(r"EOF inside string starting at row (\d+)", error):
        return f", line {int(found[1]) + 1}: expected the end of a text in quotation marks, got that of the file"
    return f": expected a table: {error.removeprefix('Error tokenizing data. C error: ').strip()}"


def _numbers(path: Path, chunk: pd.DataFrame, columns: list[str], target: str | None) -> np.ndarray:
    """Columns as float64, empty cells as NaN; a cell that is no number is named with its line."""
    table = chunk[columns]
    for column in columns:
        if table[column].dtype.kind in "mMc":
            raise CorruptData(f"{path}: expected numbers in column {column!r}, got {table[column].dtype}")
    try:
        found = table.apply(pd.to_numeric, errors="coerce").astype(np.float64)
    except OverflowError as error:
        raise CorruptData(f"{path}: expected numbers that fit into 64 bits, got others: {error}") from error
    bad = found.isna().to_numpy() & table.notna().to_numpy()
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise CorruptData(
            f"{path}, line {_line(chunk, row)}: expected a number in column {columns[column]!r}, got "
            f"{table.iloc[row, column]!r}" + ("" if target else "; --target names what is to be predicted")
        )
    return found.to_numpy()


def _line(chunk: pd.DataFrame, row: int) -> int:
    return int(chunk.index[row]) + 2  # lines count from one, and the first is the header


def _wide(path: Path, chunks: Iterable[pd.DataFrame], target: str | None, time: Any) -> Data:
    if time is not None:
        raise BadValue(
            f"--time: expected a table in long form, with a column of series (--id), got {path.name} in wide form"
        )
    series, targets, ids = [], [], []
    for chunk in chunks:
        steps = [c for c in map(str, chunk.columns) if c != target]
        if not steps:
            raise CorruptData(f"{path}: expected columns of values, got {target!r} alone")
        values = _numbers(path, chunk, steps, target)
        for row, x in enumerate(values):
            seen = np.flatnonzero(~np.isnan(x))
            if not len(seen):
                raise CorruptData(f"{path}, line {_line(chunk, row)}: expected values, got an empty row")
            series.append(x[: seen[-1] + 1, None])  # a shorter series ends with empty cells
            ids.append(f"line {_line(chunk, row)}")
        if target is not None:
            targets.append(_whole_column(path, chunk, target))
    found = None if target is None else np.concatenate(targets)
    return Data("wide: one row per series, one column per step", series, ids, ["value"], found)


def _whole_column(path: Path, chunk: pd.DataFrame, column: str) -> np.ndarray:
    missing = chunk[column].isna().to_numpy()
    if missing.any():
        raise CorruptData(f"{path}, line {_line(chunk, int(missing.argmax()))}: expected a value in column {column!r}")
    values = chunk[column].to_numpy()
    return values.astype(str) if values.dtype.kind not in "fiub" else values


def _all(first: pd.DataFrame, rest: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    yield first
    yield from rest


def _long(path: Path, chunks: Iterable[pd.DataFrame], target: str | None, columns: _Columns, known: _Known) -> Data:
    own, time = str(columns.series), columns.time
    parts: dict[Any, list[np.ndarray]] = {}
    times: dict[Any, list[np.ndarray]] = {}
    for chunk in chunks:
        channels = [c for c in map(str, chunk.columns) if c not in (own, time, target)]
        if not channels:
            raise CorruptData(f"{path}: expected columns of values beside {own!r}, got none")
        values, names = _numbers(path, chunk, channels, target), _whole_column(path, chunk, own)
        labels = None if target is None else _whole_column(path, chunk, target)
        clock = None if time is None else _times(path, chunk, time)
        codes, present = pd.factorize(names)
        ends = np.cumsum(np.bincount(codes))
        for name, rows in zip(present, np.split(np.argsort(codes, kind="stable"), ends[:-1]), strict=True):
            parts.setdefault(name, []).append(values[rows].astype(np.float32))
            if labels is not None:
                different = np.flatnonzero(labels[rows] != known.targets.setdefault(name, labels[rows[0]]))
                if len(different):
                    row = rows[different[0]]
                    raise CorruptData(
                        f"{path}, line {_line(chunk, row)}: expected one target for series {name}, got "
                        f"{known.targets[name]} and {labels[row]}"
                    )
            if clock is not None:
                before = [known.last[name]] if name in known.last else []
                _check_times(path, chunk, name, rows, clock, before)
                times.setdefault(name, [np.array(before)]).append(clock[rows])
                known.last[name] = float(clock[rows[-1]])
    found = None if target is None else np.array([known.targets[name] for name in parts])
    form = f"long: one row per step, series by {own!r}" + (f", times by {time!r}" if time else "")
    series = [np.concatenate(own_parts) for own_parts in parts.values()]
    clocks = [np.concatenate(own_times) for own_times in times.values()]
    return Data(form, series, [str(name) for name in parts], channels, found, clocks)


def _times(path: Path, chunk: pd.DataFrame, column: str) -> np.ndarray:
    """Times as numbers; of dates, in seconds."""
    values = chunk[column]
    if values.dtype.kind not in "fiu":
        form = "ISO8601" if values.dtype.kind in "OTU" else None
        dates = pd.to_datetime(values, errors="coerce", format=form, utc=True).dt.tz_localize(None)
        no_date, no_number = (v.isna().to_numpy() for v in (dates, pd.to_numeric(values, errors="coerce")))
        if no_date.any():
            slips = no_number if 0 < no_number.sum() < no_date.sum() else no_date  # of a column of numbers, or of dates
            row = int(slips.argmax())
            raise CorruptData(
                f"{path}, line {_line(chunk, row)}: expected a time in column {column!r}, got {values.iloc[row]!r}"
            )
        return dates.astype("datetime64[ns]").to_numpy().astype(np.int64) / 1e9
    return values.to_numpy(dtype=np.float64)


def _check_times(
    path: Path, chunk: pd.DataFrame, name: Any, rows: np.ndarray, clock: np.ndarray, last: list[float]
) -> None:
    """Refuses times that do not ascend, from the last one before these rows on, if there is one."""
    own = clock[rows]
    before = np.concatenate([last or [-np.inf], own[:-1]])
    bad = np.flatnonzero(~((own > before) & (own < np.inf)))
    if len(bad):
        row = rows[bad[0]]
        if not np.isfinite(own[bad[0]]):
            raise CorruptData(f"{path}, line {_line(chunk, row)}: expected a time in series {name}, got {own[bad[0]]}")
        what = "the same time twice" if own[bad[0]] == before[bad[0]] else "a time before that of the row above it"
        raise CorruptData(f"{path}, line {_line(chunk, row)}: expected ascending times in series {name}, got {what}")
