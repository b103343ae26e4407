"""Series in tables: long (one row per step), wide (one row per series) or nested (lists in cells)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from unicornn.errors import CorruptData
from unicornn.lab.fit._chunks import Chunk
from unicornn.lab.fit._data import Data, Reading
from unicornn.lab.fit._layout import Layout, identify
from unicornn.lab.fit._sources import open_table


@dataclass
class _Seen:
    """State kept between the chunks of a table."""

    labels: dict[str, dict[str, object]] = field(default_factory=lambda: {"target": {}, "groups": {}})
    last_time: dict[str, float] = field(default_factory=dict)
    has_values: dict[str, bool] = field(default_factory=dict)
    last_name: str = ""


def read_table(path: Path, reading: Reading, whole_series: bool, name: str | None = None) -> Iterator[Data]:
    """Yields the series of a table in parts.

    Args:
        path: File.
        reading: Options.
        whole_series: Whether each series is yielded in one part, so that its rows must be consecutive.
        name: Name of the single series in the table, if it is one.
    """
    table = open_table(path, reading)
    first = next(table.chunks, None)
    if first is None or not first.rows:
        raise CorruptData(f"{path}: expected a header and at least one row, got none")
    layout = identify(path, table, first, reading, single=name is not None)
    assemble, seen = _Assembler(path, layout, reading, name), _Seen()
    parts = (assemble(chunk, seen, whole_series) for chunk in itertools.chain([first], table.chunks))
    yield from _join_cut_series(parts) if whole_series and layout.form in ("long", "single") else parts
    if empty := [name for name, has_values in seen.has_values.items() if not has_values]:
        raise CorruptData(f"{path}: expected finite values in series {empty[0]}, got none")


def _join_cut_series(parts: Iterator[Data]) -> Iterator[Data]:
    """Holds back the last series of each part, which may continue in the next."""
    rest = None
    for part in parts:
        joined = part if rest is None else Data.join([rest, part])
        if len(joined.ids) > 1:
            yield joined.select(range(len(joined.ids) - 1))
        rest = joined.select([len(joined.ids) - 1])
    if rest is not None:
        yield rest


@dataclass
class _Assembler:
    """Makes series of the rows of a table."""

    path: Path
    layout: Layout
    reading: Reading
    name: str | None

    def __call__(self, chunk: Chunk, seen: _Seen, whole_series: bool) -> Data:
        layout = self.layout
        if layout.form == "nested":
            series = self._lists(chunk)
        else:
            hint = "" if layout.target else "--target names the column to predict, "
            values = chunk.numbers(layout.values, f"; {hint}--drop leaves a column out")
            series = self._rows_as_series(chunk, values) if layout.form == "wide" else []
        if layout.form in ("wide", "nested"):
            codes = np.arange(chunk.rows)
            firsts, names = codes, self._row_names(chunk, seen)
        else:
            codes, names = (np.zeros(chunk.rows, int), [str(self.name)]) if self.name else chunk.names(str(layout.id))
            order = np.argsort(codes, kind="stable")
            starts = np.searchsorted(codes[order], np.arange(len(names)))
            firsts, series = order[starts], np.split(values[order], starts[1:])
            if whole_series:
                self._check_together(chunk, codes, names, seen)
        for name, x in zip(names, series, strict=True):
            seen.has_values[name] = seen.has_values.get(name, False) or not np.isnan(x).all()
        times: list[np.ndarray] = []
        if layout.time is not None:
            t = chunk.times(layout.time)
            self._check_times(chunk, t, codes, order, names, seen)
            times = np.split(t[order], starts[1:])
        labels: dict[str, Any] = {
            kind: self._labels(chunk, column, codes, firsts, names, seen.labels[kind], kind)
            for kind, column in (("target", layout.target), ("groups", layout.groups))
            if column is not None
        }
        data = Data(layout.about, series, names, layout.channels, times=times, **labels)
        data.notes, data.reading = layout.notes, layout.reading()
        return data

    def _row_names(self, chunk: Chunk, seen: _Seen) -> list[str]:
        """Names of the series of a wide table, each of which has one row."""
        if self.layout.id is None:
            return [f"line {chunk.line + row}" for row in range(chunk.rows)]
        codes, different = chunk.names(self.layout.id)
        names = [different[code] for code in codes]
        again = np.array([name in seen.has_values for name in names]) | pd.Series(codes).duplicated().to_numpy()
        if again.any():
            row = int(again.argmax())
            expected = f"expected one row for series {names[row]}, got another; --form long for one row per step"
            raise CorruptData(f"{self.path}, line {chunk.line + row}: {expected}")
        return names

    def _rows_as_series(self, chunk: Chunk, values: np.ndarray) -> list[np.ndarray]:
        """Rows (channels * steps,) as series (N, channels); shorter ones end with missing values."""
        steps = values.reshape(chunk.rows, len(self.layout.channels), -1).transpose(0, 2, 1)
        known = ~np.isnan(steps).all(2)
        if len(empty := np.flatnonzero(~known.any(1))):
            raise CorruptData(f"{self.path}, line {chunk.line + empty[0]}: expected values, got an empty row")
        ends = known.shape[1] - known[:, ::-1].argmax(1)
        return [x[:end] for x, end in zip(steps, ends, strict=True)]

    def _lists(self, chunk: Chunk) -> list[np.ndarray]:
        """Series (N, channels) from columns of lists."""
        channels, expected = [], np.zeros(0, int)
        for name in self.layout.values:
            column = chunk.column(name)
            kinds = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
            if not any(is_(column.type) for is_ in kinds):
                raise CorruptData(f"{self.path}: expected lists of numbers in column {name!r}, got {column.type}")
            lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(int)
            expected = expected if len(expected) else lengths
            if len(bad := np.flatnonzero((lengths == 0) | (lengths != expected))):
                got = f"{lengths[bad[0]]} in column {name!r}"
                wanted = f"expected lists of one length >= 1 in line {chunk.line + bad[0]}"
                raise CorruptData(f"{self.path}: {wanted}, got {got}")
            flat = Chunk(self.path, chunk.line, {name: 0}, [column.flatten()])
            channels.append(flat.numbers([name], "; lists of numbers are supported"))
        return np.split(np.concatenate(channels, 1), np.cumsum(expected)[:-1])

    def _labels(
        self, chunk: Chunk, column: str, codes: np.ndarray, firsts: np.ndarray, names: list[str],
        known: dict[str, object], kind: str,
    ) -> np.ndarray:  # fmt: skip
        """The target or group of each series (n,); an error if it differs between rows."""
        label, values = chunk.labels(column)
        if (label < 0).any():  # [-1] is the value of a missing label
            values = np.append(values, "") if values.dtype.kind == "U" else np.append(values.astype(float), np.nan)
        of_series = label[firsts]
        for i, name in enumerate(names):
            known.setdefault(name, values[of_series[i]])
        earlier = np.array([known[name] for name in names])
        different = (label != of_series[codes]) | (earlier != values[of_series])[codes] & (label >= 0)
        if different.any():
            row = int(different.argmax())
            name = names[codes[row]]
            expected = f"expected one {kind.rstrip('s')} for series {name}, got {known[name]} and {values[label[row]]}"
            raise CorruptData(f"{self.path}, line {chunk.line + row}: {expected}")
        return values[of_series]

    def _check_together(self, chunk: Chunk, codes: np.ndarray, names: list[str], seen: _Seen) -> None:
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        begun: set[str] = set()
        for row in starts:
            name = names[codes[row]]
            if name in begun or (name in seen.has_values and (row or name != seen.last_name)):
                expected = f"expected the rows of series {name} together, got more of them"
                raise CorruptData(f"{self.path}, line {chunk.line + row}: {expected}")
            begun.add(name)
        seen.last_name = names[codes[-1]]

    def _check_times(
        self, chunk: Chunk, t: np.ndarray, codes: np.ndarray, order: np.ndarray, names: list[str], seen: _Seen
    ) -> None:
        """Raises an error unless the times of each series ascend, starting from the last one of the previous chunk."""
        sorted_t, sorted_codes = t[order], codes[order]
        last = np.array([seen.last_time.get(name, -np.inf) for name in names])
        before = np.where(np.diff(sorted_codes, prepend=-1) > 0, last[sorted_codes], np.roll(sorted_t, 1))
        ascending = (sorted_t > before) | (self.reading.resample is not None)
        bad = np.flatnonzero(~(ascending & np.isfinite(sorted_t)))
        if len(bad):
            row, time, name = order[bad[0]], sorted_t[bad[0]], names[sorted_codes[bad[0]]]
            place = f"{self.path}, line {chunk.line + row}: expected"
            if not np.isfinite(time):
                raise CorruptData(f"{place} a time in series {name}, got {time}")
            got = "the same time twice" if time == before[bad[0]] else "an earlier time than in its previous row"
            remedy = f"--resample PERIOD sorts and averages, --drop {self.layout.time} keeps the order of the rows"
            raise CorruptData(f"{place} ascending times in series {name}, got {got}; {remedy}")
        ends = np.flatnonzero(np.diff(sorted_codes, append=len(names)))
        seen.last_time |= {names[sorted_codes[end]]: float(sorted_t[end]) for end in ends}
