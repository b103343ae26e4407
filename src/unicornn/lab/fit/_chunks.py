"""Rows of tables with columns as Arrow arrays, and their conversion to numbers, names and times."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from unicornn.errors import CorruptData
from unicornn.lab.data._ts import NUMBER

MISSING = pa.array(["", "NA", "N/A", "#N/A", "<NA>", "n/a", "None", "none", "NULL", "Null", "null", "NaT"])
PROBED_ROWS = 100  # decide whether a column holds text


class Chunk:
    """Consecutive rows of a table.

    Args:
        path: File, for errors.
        line: Line of the first row.
        index: Positions of the columns by name.
        columns: Columns.
        decimal: Decimal mark of numbers in text.
    """

    def __init__(
        self, path: Path, line: int, index: dict[str, int], columns: Sequence[Any], decimal: str = "."
    ) -> None:
        self.path, self.line, self.index, self.decimal = path, line, index, decimal
        self._columns = columns
        self.rows = len(columns[0]) if columns else 0

    def column(self, name: str) -> pa.Array:
        """A column with dictionaries and extension types replaced by plain values."""
        column = self._columns[self.index[name]]
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column

    def text_columns(self, names: Sequence[str]) -> list[str]:
        """Those of the columns that hold text without any number in the first rows."""
        return [name for name in names if _is_text(column := self.column(name)) and _holds_text(column)]

    def nested_columns(self, names: Sequence[str]) -> list[str]:
        """Those of the columns that hold lists."""
        return [name for name in names if pa.types.is_nested(self.column(name).type)]

    def numbers(self, names: list[str], hint: str = "") -> np.ndarray:
        """Columns in float64 (rows, columns), NaN where a value is missing."""
        numbers = np.empty((self.rows, len(names)))
        for i, name in enumerate(names):
            column = self.column(name)
            if not (_is_text(column) or _is_number(column)):
                raise CorruptData(f"{self.path}: expected numbers in column {name!r}, got {column.type}{hint}")
            numbers[:, i] = self._parse(column, [name], hint) if _is_text(column) else _floats(column)
        return numbers

    def _parse(self, cells: pa.Array, names: list[str], hint: str) -> np.ndarray:
        """Text (rows * columns,) as numbers; errors name the line and the column of a cell that is not a number."""
        numbers, bad = _parse_numbers(cells, self.decimal)
        if bad is not None:
            row, column = divmod(bad, len(names))
            cell = cells[bad].as_py()
            if self.decimal == "." and re.fullmatch(r"[+-]?\d+,\d+", cell.strip()):
                hint = "; --decimal , for decimal commas"
            place = f"line {self.line + row}: expected a number in column {names[column]!r}"
            raise CorruptData(f"{self.path}, {place}, got {cell!r:.60}{hint}")
        return numbers

    def names(self, name: str) -> tuple[np.ndarray, list[str]]:
        """A column of names: the index of each row's name, and the different names."""
        codes, names = self.labels(name)
        if len(missing := np.flatnonzero(codes < 0)):
            raise CorruptData(f"{self.path}, line {self.line + missing[0]}: expected a value in column {name!r}")
        return codes, list(map(str, names.tolist()))

    def labels(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """A column of names or numbers: the index of each row's value, -1 if missing, and the different values."""
        column = self.column(name)
        if not (_is_text(column) or _is_number(column) or pa.types.is_temporal(column.type)):
            raise CorruptData(f"{self.path}: expected names or numbers in column {name!r}, got {column.type}")
        if pa.types.is_decimal(column.type) or pa.types.is_null(column.type):
            column = column.cast(pa.float64())
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), None, column)
        if not _is_number(column):
            column = pc.utf8_trim_whitespace(column.cast(pa.string()))
            if len(bad := np.flatnonzero(pc.match_substring_regex(column, r"[\x00\r\n]").fill_null(False))):
                place = f"line {self.line + bad[0]}: expected a name without line breaks and NUL in column {name!r}"
                raise CorruptData(f"{self.path}, {place}, got {column[int(bad[0])].as_py()!r:.60}")
            column = pc.if_else(pc.equal(column, ""), None, column)
        encoded = column.dictionary_encode()
        values = encoded.dictionary.to_numpy(zero_copy_only=False)
        codes = encoded.indices.fill_null(-1).to_numpy()
        return codes, values if _is_number(column) else values.astype(str)

    def times(self, name: str) -> np.ndarray:
        """A column of times as numbers, dates in seconds."""
        column = self.column(name)
        if _is_number(column):
            return _floats(column)
        if _is_text(column):
            numbers, bad = _parse_numbers(column, self.decimal)
            if bad is None:
                return numbers
        if not (_is_text(column) or pa.types.is_temporal(column.type)):
            raise CorruptData(f"{self.path}: expected times in column {name!r}, got {column.type}")
        values = column.to_pandas()
        form = "ISO8601" if _is_text(column) else None
        try:
            dates = pd.to_datetime(values, errors="coerce", format=form, utc=True).dt.tz_localize(None)
        except TypeError as error:
            raise CorruptData(f"{self.path}: expected times in column {name!r}, got {column.type}") from error
        no_date, no_number = (v.isna().to_numpy() for v in (dates, pd.to_numeric(values, errors="coerce")))
        if no_date.any():
            bad_rows = no_number if 0 < no_number.sum() < no_date.sum() else no_date  # mostly numbers, or dates
            row = int(bad_rows.argmax())
            got = f"expected a time in column {name!r}, got {values.iloc[row]!r}"
            raise CorruptData(f"{self.path}, line {self.line + row}: {got}")
        return dates.astype("datetime64[ns]").to_numpy().astype(np.int64) / 1e9


class RowsOfText(Chunk):
    """Rows of a table with very many columns: its cells (rows * columns,) are one array, parsed at once."""

    def __init__(self, path: Path, line: int, index: dict[str, int], rows: list[list[str]], decimal: str) -> None:
        super().__init__(path, line, index, [], decimal)
        self.rows = len(rows)
        self._cells = pa.array(itertools.chain.from_iterable(rows), pa.string())

    def _take(self, names: Sequence[str], rows: int) -> pa.Array:
        columns = np.array(list(map(self.index.__getitem__, names)))
        return self._cells.take(pa.array((np.arange(rows)[:, None] * len(self.index) + columns).ravel()))

    def column(self, name: str) -> pa.Array:
        return self._take([name], self.rows)

    def text_columns(self, names: Sequence[str]) -> list[str]:
        rows = min(self.rows, PROBED_ROWS)
        cells = pc.utf8_trim_whitespace(self._take(names, rows))
        is_number, is_missing = (
            np.asarray(each).reshape(rows, -1)
            for each in (pc.match_substring_regex(cells, NUMBER), pc.is_in(cells, MISSING))
        )
        return [names[int(i)] for i in np.flatnonzero(~is_number.any(0) & ~is_missing.all(0))]

    def nested_columns(self, names: Sequence[str]) -> list[str]:
        return []

    def numbers(self, names: list[str], hint: str = "") -> np.ndarray:
        return self._parse(self._take(names, self.rows), names, hint).reshape(self.rows, -1)


def _is_text(column: pa.Array) -> bool:
    return any(is_(column.type) for is_ in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _is_number(column: pa.Array) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    return any(is_(column.type) for is_ in kinds)


def _floats(column: pa.Array) -> np.ndarray:
    return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def _holds_text(column: pa.Array) -> bool:
    cells = pc.utf8_trim_whitespace(column.slice(0, PROBED_ROWS).cast(pa.string()))
    present = cells.filter(pc.invert(pc.is_in(cells, MISSING))).drop_null()
    return len(present) > 0 and not pc.any(pc.match_substring_regex(present, NUMBER)).as_py()


def _parse_numbers(cells: pa.Array, decimal: str) -> tuple[np.ndarray, int | None]:
    """Text as float64, correctly rounded; and the index of the first cell that is not a number."""
    if decimal == ".":
        try:
            return _floats(cells), None
        except pa.ArrowInvalid:
            pass  # some cells are empty, padded, logical or wrong
    plain = pc.utf8_trim_whitespace(cells)
    plain = pc.if_else(pc.is_in(plain, MISSING), pa.scalar(None, plain.type), plain)
    if decimal != ".":
        plain = pc.replace_substring(pc.replace_substring(plain, ".", "_"), decimal, ".")
    for word, number in (("true", "1"), ("false", "0")):
        plain = pc.replace_substring_regex(plain, f"^(?i:{word})$", number)
    bad = np.flatnonzero(~np.asarray(pc.match_substring_regex(plain, NUMBER).fill_null(True)))
    return (np.empty(0), int(bad[0])) if len(bad) else (_floats(plain), None)
