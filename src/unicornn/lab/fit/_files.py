"""Files of time series by the ends of their names: .csv, .parquet, .ts, .tsv, .npz, and folders of .wav."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from unicornn.errors import BadValue, CorruptData, MissingData
from unicornn.lab.data._archives import opened, ordinary
from unicornn.lab.data._formats import read_npz
from unicornn.lab.fit._data import Data
from unicornn.lab.fit._tables import CELLS, read_table, scan_table, stream_table

TABLES = (".csv", ".csv.gz", ".parquet")


def read(path: Path, target: str | None = None, id_column: str | None = None, time_column: str | None = None) -> Data:
    """The series in a file, and their targets where ``target`` names a column or an array, or the format has them.

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
    if path.exists() and ordinary(path).is_file() and path.name.lower().endswith(TABLES):
        return read_table(path, target, id_column, time_column).check(path)
    return _joined(path, _others(path, target, id_column, time_column)).check(path)


def stream(
    path: Path,
    target: str | None = None,
    id_column: str | None = None,
    time_column: str | None = None,
    ignored: str | None = None,
) -> Iterator[Data]:
    """As ``read``, but some series at a time, so that the file may be larger than memory; .npz alone comes whole.

    A column of a table that is called ``ignored`` is left out, if there is one.

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
    if path.is_file() and path.name.lower().endswith(TABLES):
        for data in stream_table(path, target, id_column, time_column, ignored):
            yield data.check(path)
        return
    held: list[Data] = []
    cells = 0
    for data in _others(path, target, id_column, time_column):
        held.append(data)
        cells += sum(x.size for x in data.series)
        if cells >= CELLS:
            yield _joined(path, held).check(path)
            held, cells = [], 0
    if held:
        yield _joined(path, held).check(path)


def scan(
    path: Path, target: str | None = None, id_column: str | None = None, time_column: str | None = None
) -> Iterator[Data]:
    """As ``stream``, for ``described``: the rows of a series in a table may be anywhere, and it comes in parts.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from unicornn.lab.fit import scan
        >>> from unicornn.lab.fit._data import described
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "walks.csv"
        ...     _ = path.write_text("series,x\\na,1\\nb,2\\na,3\\n")
        ...     described(scan(path))[1:3]
        [('series', '2'), ('steps', '1 to 2')]
    """
    if path.is_file() and path.name.lower().endswith(TABLES):
        for data in scan_table(path, target, id_column, time_column):
            yield data.check(path, whole=False)
        return
    yield from stream(path, target, id_column, time_column)


def _others(path: Path, target: str | None, id_column: str | None, time_column: str | None) -> Iterator[Data]:
    """The series of what is not a table, one at a time where the format allows."""
    if not path.exists():
        raise MissingData(f"{path}: expected a file of time series, or a folder of .wav files, found nothing there")
    ordinary(path)
    if path.is_dir():
        from unicornn.lab.fit._wav import read_folder

        return read_folder(path, target)
    readers: dict[str, Callable[[Path, str | None], Iterator[Data]]] = {".ts": _ts, ".tsv": _tsv, ".npz": _npz}
    if path.suffix.lower() not in readers:
        known = ", ".join([*TABLES, *readers])
        raise BadValue(f"FILE: expected a name that ends in {known}, or a folder of .wav files, got {path.name}")
    if id_column or time_column:
        raise BadValue(f"--id, --time: expected with tables ({', '.join(TABLES)}) only, got {path.name}")
    return readers[path.suffix.lower()](path, target)


def _joined(path: Path, parts: Iterable[Data]) -> Data:
    """All of them as one."""
    parts = list(parts)
    targets = [part.target for part in parts if part.target is not None]
    target = np.concatenate(targets) if targets else None
    if target is not None and path.suffix.lower() in (".ts", ".tsv"):
        target = _labels(target.tolist())
    series, ids = [x for part in parts for x in part.series], [name for part in parts for name in part.ids]
    return Data(parts[0].form, series, ids, parts[0].channels, target)


def _values(path: Path, line: int, cells: list[str]) -> np.ndarray:
    numbers = np.empty(len(cells))
    for i, cell in enumerate(cells):
        cell = cell.strip()
        try:
            numbers[i] = np.nan if cell in ("?", "") else float(cell)
        except ValueError:
            raise CorruptData(f"{path}, line {line}: expected a number as value {i + 1}, got {cell!r}") from None
    return numbers


def _labels(labels: list[str]) -> np.ndarray:
    """As numbers where all are."""
    try:
        numbers = np.array([float(label) for label in labels])
    except ValueError:
        return np.array(labels)
    if not np.isfinite(numbers).all():
        return numbers  # which is refused with the name of the series
    return numbers.astype(np.int64) if (numbers == np.round(numbers)).all() else numbers


def _ts(path: Path, target: str | None) -> Iterator[Data]:
    """The UEA and TSR archives' format: channels separated by colons, values by commas, the class or number last."""
    data = labelled = False
    d = 0
    with opened(path) as file:
        for number, raw in enumerate(file, 1):
            line = raw.decode("latin-1").strip()
            if not line or line.startswith("#"):
                continue
            if not data:
                word, _, value = line.partition(" ")
                if word.lower() in ("@classlabel", "@targetlabel"):
                    labelled = value.strip().lower().startswith("true")
                if word.lower() == "@timestamps" and value.strip().lower() == "true":
                    raise CorruptData(f"{path}, line {number}: expected series without time stamps, got some with them")
                if not line.startswith("@"):
                    raise CorruptData(
                        f"{path}, line {number}: expected a header line that begins with @, got {line[:40]!r}"
                    )
                data = word.lower() == "@data"
                if data and target is not None and not labelled:
                    expected = "a .ts file with @classLabel true or @targetlabel true"
                    raise BadValue(f"--target: expected {expected}, got {path.name} without")
                continue
            parts = line.split(":")
            label = np.array([parts.pop().strip()]) if labelled else None
            channels = [_values(path, number, part.split(",")) for part in parts]
            d = d or len(channels)
            if len(channels) != d or len({len(c) for c in channels}) > 1 or not d:
                got = f"{len(channels)} of {', '.join(str(len(c)) for c in channels)} values"
                raise CorruptData(f"{path}, line {number}: expected {d} channels of one length, got {got}")
            yield Data("ts", [np.stack(channels, 1)], [f"line {number}"], [f"channel{i}" for i in range(d)], label)
    if not d:
        raise CorruptData(f"{path}: expected a line @data and series after it, got none")


def _tsv(path: Path, target: str | None) -> Iterator[Data]:
    """The UCR archive's format: one series a line, its class first; missing values at the end fill up a shorter one."""
    none = True
    with opened(path) as file:
        for number, raw in enumerate(file, 1):
            cells = raw.decode("latin-1").strip("\r\n").split("\t")
            if cells == [""]:
                continue
            if len(cells) < 2:
                raise CorruptData(
                    f"{path}, line {number}: expected a class and values separated by tabs, got {cells[0][:40]!r}"
                )
            x = _values(path, number, [cell if cell.lower() != "nan" else "?" for cell in cells[1:]])
            seen = np.flatnonzero(~np.isnan(x))
            if not len(seen):
                raise CorruptData(f"{path}, line {number}: expected values, got none")
            none = False
            x, label = x[: seen[-1] + 1, None], np.array([cells[0].strip()])
            yield Data("tsv of the UCR archive: class first", [x], [f"line {number}"], ["value"], label)
    if none:
        raise CorruptData(f"{path}: expected one series a line, got none")


def _npz(path: Path, target: str | None) -> Iterator[Data]:
    """Arrays X (n, N) or (n, N, d), or values (steps of all, d) with lengths (n,); and the targets by their name."""
    arrays = read_npz(path)
    if "X" in arrays and arrays["X"].ndim in (2, 3):
        X = arrays["X"]
        series = list(X[:, :, None] if X.ndim == 2 else X)
        form = f"npz: X of shape {X.shape}"
    elif {"values", "lengths"} <= arrays.keys():
        values, lengths = arrays["values"], arrays["lengths"]
        if values.ndim not in (1, 2) or lengths.ndim != 1 or lengths.dtype.kind not in "iu" or not len(lengths):
            got = f"values {values.shape} and lengths {lengths.shape} of {lengths.dtype}"
            raise CorruptData(f"{path}: expected values (steps of all, d) and integers as lengths (n,), got {got}")
        if sum(lengths.tolist()) != len(values) or lengths.min() < 1:
            raise CorruptData(f"{path}: expected lengths >= 1 that add up to {len(values)} values, got others")
        values = values[:, None] if values.ndim == 1 else values
        series = np.split(values, np.cumsum(lengths)[:-1])
        form = "npz: values and lengths"
    else:
        raise CorruptData(f"{path}: expected X (n, N) or (n, N, d), or values and lengths, got {', '.join(arrays)}")
    found = None
    if target is not None:
        if target not in arrays or arrays[target].shape != (len(series),):
            raise BadValue(
                f"--target: expected an array ({len(series)},) in {path.name}, got {target!r} of {', '.join(arrays)}"
            )
        found = arrays[target]
    channels = [f"channel{i}" for i in range(series[0].shape[1] if series else 0)]
    yield Data(form, series, [str(i) for i in range(len(series))], channels, found)
