"""Tables in chunks of rows: .csv, .parquet, .feather, .jsonl and .xlsx files."""

from __future__ import annotations

import codecs
import csv
import importlib.util
import io
import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from unicornn.errors import BadValue, CorruptData
from unicornn.lab.data._archives import opened
from unicornn.lab.data._ts import NUMBER
from unicornn.lab.fit._chunks import Chunk, RowsOfText
from unicornn.lab.fit._data import Reading

CELLS = 1 << 18  # read at a time, which needs about 60 MB
MANY_COLUMNS = 1000  # from here on, Arrow's reader spends most of its time on columns
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass
class Table:
    """A table that is read in chunks: names of its columns, remarks on how it is read, and the chunks."""

    names: list[str]
    chunks: Iterator[Chunk]
    notes: list[str] = field(default_factory=list)


def _chunks(
    path: Path, names: list[str], batches: Callable[[int], Iterator[Any]], kind: str, decimal: str = "."
) -> Iterator[Chunk]:
    """Record batches, which are asked for with a number of rows, as chunks of at most this number."""
    index, rows = {name: i for i, name in enumerate(names)}, max(1, CELLS // max(1, len(names)))
    line = 2  # lines count from one, and the first is the header
    with _errors_as_corrupt_data(path, kind):
        for batch in batches(rows):
            for start in range(0, batch.num_rows, rows):
                part = batch.slice(start, rows)
                yield Chunk(path, line, index, part.columns, decimal)
                line += part.num_rows


@contextmanager
def _errors_as_corrupt_data(path: Path, kind: str) -> Iterator[None]:
    """Turns the libraries' errors for damaged files into CorruptData, which names the file."""
    try:
        yield
    except CorruptData:
        raise
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError, csv.Error) as error:
        raise CorruptData(f"{path}{_rephrase(str(error), kind)}") from error


def _rephrase(error: str, kind: str) -> str:
    """An error of Arrow in the form of ours, with the line if it is known."""
    if match := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", error):
        return f", line {match[1]}: expected {match[2]} cells, as in the header, got {match[3]}" + (
            "; is there a quotation mark without its second?" if error.count('"') % 2 else ""
        )
    if "UTF8" in error or "codec can't decode" in error:
        row = re.search(r"Row #(\d+)", error)
        line = f", line {row[1]}" if row else ""
        return f"{line}: expected text in the encoding of the first lines; --encoding latin-1 for old files"
    return f": expected {kind}: {error.splitlines()[0] if error else 'damaged'}"


def _parquet(path: Path, reading: Reading) -> Table:
    import pyarrow.parquet as pq

    kind = "a Parquet file"
    with _errors_as_corrupt_data(path, kind):
        file = pq.ParquetFile(path)
        names, groups = file.schema_arrow.names, [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        bytes_per_row = sum(group.total_byte_size for group in groups) // max(1, file.metadata.num_rows)
        most = max(1, 8 * CELLS // max(1, bytes_per_row))  # lists in cells make rows long
        return Table(names, _chunks(path, names, lambda rows: file.iter_batches(min(rows, most)), kind))


def _feather(path: Path, reading: Reading) -> Table:
    kind = "a Feather file (version 2)"
    with _errors_as_corrupt_data(path, kind):
        file = pa.ipc.open_file(pa.memory_map(str(path)))
        batches = (file.get_batch(i) for i in range(file.num_record_batches))
        return Table(file.schema.names, _chunks(path, file.schema.names, lambda _: batches, kind))


def _json_lines(path: Path, reading: Reading) -> Table:
    import pyarrow.json as pj

    kind = "a JSON object with the same fields in every line"

    def batches(_: int) -> Iterator[Any]:
        with opened(path) as file:
            yield from pj.open_json(file, read_options=pj.ReadOptions(use_threads=False, block_size=1 << 24))

    with _errors_as_corrupt_data(path, kind):
        first = next(iter(batches(0)), None)
        names = [] if first is None else first.schema.names
        return Table(names, _chunks(path, names, batches, kind))


def _excel(path: Path, reading: Reading) -> Table:
    if importlib.util.find_spec("openpyxl") is None:
        line = f"pandas.read_excel({path.name!r}).to_parquet({path.stem + '.parquet'!r})"
        raise ImportError(f"{path}: reading Excel needs openpyxl; or convert the file where it is installed: {line}")
    try:
        frame = pd.read_excel(path, dtype=str, keep_default_na=False)
    except Exception as error:  # zipfile, openpyxl and pandas raise a dozen kinds for damaged files
        raise CorruptData(f"{path}: expected an Excel file: {error}") from error
    names = check_header(path, [str(name) for name in frame.columns])
    batch = pa.record_batch([pa.array(frame.iloc[:, i].astype(str), pa.string()) for i in range(len(names))], names)
    return Table(names, _chunks(path, names, lambda _: iter([batch]), "an Excel file"))


@dataclass
class _Dialect:
    """How the text of a .csv file is read, and its header."""

    separator: str
    decimal: str
    encoding: str
    header: list[str]
    notes: list[str]


def _detect(path: Path, reading: Reading) -> _Dialect:
    """The dialect of a .csv file from its first lines, except for what is given."""
    notes = []
    with opened(path) as file:
        start = file.read(1 << 20)
    encoding = reading.encoding or _detect_encoding(start)
    if encoding not in ("utf-8", reading.encoding):
        notes.append(f"text is read as {encoding}, because it is not UTF-8 (--encoding)")
    try:
        with _errors_as_corrupt_data(path, "a table"), opened(path) as file:
            text = io.TextIOWrapper(file, encoding, newline="")
            lines = [line.removeprefix("\ufeff") for line in itertools.islice(text, 20)]
    except LookupError as error:
        raise BadValue(
            f"--encoding: expected an encoding known to Python, such as latin-1, got {encoding!r}"
        ) from error
    if not lines:
        raise CorruptData(f"{path}: expected a header and at least one row, got none")
    separator = {"tab": "\t", "\\t": "\t"}.get(reading.separator or "", reading.separator)
    if separator is None:
        separator = max(SEPARATORS, key=lines[0].count)
        if separator != ",":
            notes.append(f"columns are separated by {SEPARATORS[separator]} (--separator)")
    if len(separator) != 1 or (not separator.isprintable() and separator != "\t"):
        raise BadValue(f"--separator: expected one character, or tab, got {separator!r}")
    with _errors_as_corrupt_data(path, "a table"):
        header, *rows = list(csv.reader(lines, delimiter=separator)) or [[]]
    cells = " ".join(itertools.chain.from_iterable(rows))
    decimal = reading.decimal or "."
    comma, point = (rf"(?<![\d.,])\d*{mark}\d+(?![\d.,])" for mark in (",", r"\."))
    if not reading.decimal and separator != "," and re.search(comma, cells) and not re.search(point, cells):
        decimal = ","
        notes.append("numbers have decimal commas (--decimal)")
    if decimal not in (".", ","):
        raise BadValue(f"--decimal: expected . or , got {decimal!r}")
    return _Dialect(separator, decimal, encoding, header, notes)


def _detect_encoding(start: bytes) -> str:
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)  # which may end within a character
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def check_header(path: Path, header: list[str]) -> list[str]:
    """Names of the columns; an error if the header is missing."""
    names = [name.strip() or f"Unnamed: {i}" for i, name in enumerate(header)]
    if "\0" in "".join(names):
        raise CorruptData(f"{path}, line 1: expected text, got NUL; --encoding utf-16 if the file has it")
    numbers = [name for name in names if name[0] in "0123456789+-." and re.match(NUMBER, name)]
    steps = np.diff(np.array(numbers, float))
    numbered = len(numbers) > 2 and steps[0] > 0 and np.allclose(steps, steps[0], rtol=1e-3)
    if numbers and not numbered and numbers not in (["0"], ["1"], ["0", "1"], ["1", "2"]):
        got = ", ".join(numbers[:5])
        raise CorruptData(
            f"{path}, line 1: expected the names of the columns, got numbers ({got}); add a line such as "
            "label,t0,t1,t2 or series,time,x"
        )
    return names


def _csv(path: Path, reading: Reading) -> Table:
    dialect = _detect(path, reading)
    names = check_header(path, dialect.header)
    if len(names) > MANY_COLUMNS:
        return Table(names, _rows_of_text(path, dialect, names), dialect.notes)
    chunks = _chunks(path, names, lambda _: _csv_batches(path, dialect, len(names)), "a table", dialect.decimal)
    return Table(names, chunks, dialect.notes)


def _rows_of_text(path: Path, dialect: _Dialect, names: list[str]) -> Iterator[Chunk]:
    index, rows = {name: i for i, name in enumerate(names)}, max(1, CELLS // len(names))
    with _errors_as_corrupt_data(path, "a table"), opened(path) as file:
        text = io.TextIOWrapper(file, dialect.encoding, newline="")
        reader = csv.reader(text, delimiter=dialect.separator, strict=True)
        next(reader)
        line = reader.line_num + 1
        while cells := [row for row in itertools.islice(reader, rows) if row]:
            for i, row in enumerate(cells):
                if len(row) != len(names):
                    expected = f"expected {len(names)} cells, as in the header, got {len(row)}"
                    raise CorruptData(f"{path}, line {line + i}: {expected}")
            yield RowsOfText(path, line, index, cells, dialect.decimal)
            line = reader.line_num + 1


def _csv_batches(path: Path, dialect: _Dialect, columns: int) -> Iterator[Any]:
    """All cells as text: 01 is not 1, and a name must not be a number in one chunk and text in the next.

    Arrow reads 32 blocks ahead.
    """
    import pyarrow.csv as pcsv

    numbered = [str(i) for i in range(columns)]
    with opened(path) as file:
        yield from pcsv.open_csv(
            file,
            pcsv.ReadOptions(
                use_threads=False, block_size=1 << 19, skip_rows=1, column_names=numbered, encoding=dialect.encoding
            ),
            pcsv.ParseOptions(delimiter=dialect.separator, newlines_in_values=True),
            pcsv.ConvertOptions(column_types=dict.fromkeys(numbered, pa.string()), strings_can_be_null=False),
        )


READERS: dict[str, Callable[[Path, Reading], Table]] = {
    ".csv": _csv,
    ".csv.gz": _csv,
    ".txt": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
    ".feather": _feather,
    ".arrow": _feather,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".xlsx": _excel,
}


def open_table(path: Path, reading: Reading) -> Table:
    """The table in a file, read by the reader of its suffix."""
    suffix = ".csv.gz" if path.name.lower().endswith(".csv.gz") else path.suffix.lower()
    return READERS[suffix](path, reading)
