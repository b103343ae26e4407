"""Which columns of a table are names, times, targets and values, and whether it is long, wide or nested."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unicornn.errors import BadValue, CorruptData
from unicornn.lab.fit._chunks import Chunk
from unicornn.lab.fit._data import Reading
from unicornn.lab.fit._sources import Table

IDS = ("series", "series_id", "id", "case", "case_id")
TIMES = ("time", "timestamp", "datetime", "date", "t", "step")
INDEX = re.compile(r"Unnamed: \d+|__index_level_\d+__|index|level_0")
RANGE_ROWS = 5  # a column that counts at least this many rows is an index


@dataclass
class Layout:
    """Roles of a table's columns.

    Attributes:
        form: "long" (one row per step), "wide" (one row per series), "nested" (one row per series, lists in its cells)
            or "single" (all rows are one series).
        values: Columns of values; of a wide table, the steps of the first channel, then those of the second, ...
        channels: Names of the channels.
        id, time, target, groups: Columns, or None.
        dropped: Columns that were left out.
        about: Description.
        notes: Remarks.
    """

    form: str
    values: list[str]
    channels: list[str]
    id: str | None
    time: str | None
    target: str | None
    groups: str | None
    dropped: list[str]
    about: str = ""
    notes: list[str] = field(default_factory=list)

    def reading(self) -> dict[str, Any]:
        """Options with which another table is read in the same way."""
        unused = [*self.dropped, *(c for c in (self.target, self.groups) if c is not None)]
        form = "wide" if self.form == "wide" else "long"
        return {"form": form, "id": self.id, "time": self.time, "ignored": unused}


def identify(path: Path, table: Table, first: Chunk, reading: Reading, single: bool = False) -> Layout:
    """The layout of a table, from the options, the names of its columns and its first rows."""
    _check_columns(path, table.names, reading)
    used = {c for c in (reading.target, reading.groups, reading.id, reading.time) if c is not None}
    left_out = {*reading.drop, *(set(reading.ignored) - used)}
    dropped = [c for c in table.names if c in left_out]
    free = [c for c in table.names if c not in used | left_out]
    text, notes = first.text_columns(free), list(table.notes)
    for c in text:
        if str(first.column(c)[0]).lstrip().startswith("["):
            line = f"frame[{c!r}] = frame[{c!r}].map(json.loads); frame.to_parquet('series.parquet')"
            raise CorruptData(f"{path}: expected numbers in column {c!r}, got lists in text; convert them: {line}")
    index = _index_columns(first, free, text)
    if index and len(free) > len(index):
        notes.append(f"{_listed(index)} left out: index or unnamed column")
        dropped += index
        free = [c for c in free if c not in index]
    layout = Layout("", free, [], reading.id, reading.time, reading.target, reading.groups, dropped, notes=notes)
    layout.id = layout.id if layout.id in first.index else next((c for c in free if c.lower() in IDS), None)
    nested = first.nested_columns(free)
    layout.form = "single" if single else "nested" if nested else reading.form or ""
    if layout.form not in ("wide", "nested") and layout.time is None:
        layout.time = next((c for c in free if c.lower() in TIMES and c != layout.id), None)
    if not layout.form:
        layout.form = _decide(path, first, layout, text)
    if layout.form == "long" and layout.id is None:
        _infer_id(path, first, layout, text)
    if layout.time is not None and layout.form in ("wide", "nested"):
        raise BadValue(f"--time: expected a table with one row per step, got {path.name} with one row per series")
    layout.values = nested or [c for c in free if c not in (layout.id, layout.time)]
    if not layout.values:
        raise CorruptData(f"{path}: expected columns of values, got only {_listed(table.names)}")
    layout.channels = layout.values
    if layout.form == "wide":
        _find_steps(path, layout, sure=reading.form is not None)
    names = f", names by {layout.id!r}" if layout.id else ""
    layout.about = {
        "single": "one series per file, one row per step",
        "nested": f"nested: one row per series, lists in its cells{names}",
        "long": f"long: one row per step, series by {layout.id!r}",
        "wide": f"wide: one row per series, steps {layout.values[0]!r} to {layout.values[-1]!r}{names}",
    }[layout.form] + (f", times by {layout.time!r}" if layout.time else "")
    return layout


def _listed(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(map(repr, names[:most])) + (", …" if len(names) > most else "")


def _check_columns(path: Path, names: list[str], reading: Reading) -> None:
    if twice := [c for c, count in Counter(names).items() if count > 1]:
        raise CorruptData(f"{path}: expected each column once, got {twice[0]!r} more often")
    options = {"--target": reading.target, "--groups": reading.groups, "--time": reading.time}
    if reading.form != "wide":  # where the names of series are optional
        options["--id"] = reading.id
    known = set(names)
    for option, column in [*options.items(), *(("--drop", column) for column in reading.drop)]:
        if column is not None and column not in known:
            there = ", ".join(names[:20])
            raise BadValue(f"{option}: expected a column of {path.name}, got {column!r}; there are {there}")


def _index_columns(first: Chunk, free: list[str], text: list[str]) -> list[str]:
    """Columns without a name, or that count rows: ``frame.to_csv()`` writes one, which leaks the order of the rows."""
    index = [c for c in free if INDEX.fullmatch(c) and c not in text]
    candidate = next(iter(first.index))
    if candidate in free and candidate not in [*index, *text] and candidate.lower() not in TIMES + IDS:
        with contextlib.suppress(CorruptData):  # reported where the column is used
            values = first.numbers([candidate])[:, 0]
            if len(values) >= RANGE_ROWS and values[0] == np.round(values[0]) and (np.diff(values) == 1).all():
                index.insert(0, candidate)
    return index


def _decide(path: Path, first: Chunk, layout: Layout, text: list[str]) -> str:
    """Whether a table is long or wide. Finds the names of the series of a wide table."""
    steps = [c for c in layout.values if c not in (*text, layout.id, layout.time)]
    numbered = len(steps) > 2 and None not in _sequences(steps)
    if layout.time is not None:
        return "long"
    if layout.id is not None:
        once = len(first.names(layout.id)[1]) == first.rows
        return "wide" if once and (first.rows > 1 or numbered) else "long"
    repeated = [c for c in text if _repeats(first, c)]
    if repeated and numbered:
        c = repeated[0]
        raise BadValue(
            f"{path}: expected one way to read the table, got two: wide, one row per series, with steps "
            f"{steps[0]!r} to {steps[-1]!r} (--target {c}, or --drop {c}); or long, one row per step, "
            f"with series by {c!r} (--id {c})"
        )
    if text and not repeated:
        layout.id = text[0]
        layout.notes.append(f"names of series in {layout.id!r}, where no text occurs twice (--id)")
    return "long" if repeated else "wide"


def _repeats(chunk: Chunk, name: str) -> bool:
    return len(np.unique(chunk.labels(name)[0])) < chunk.rows


def _infer_id(path: Path, first: Chunk, layout: Layout, text: list[str]) -> None:
    """Finds the names of the series of a long table: text that repeats, with one target each."""

    def fits(name: str) -> bool:
        codes = first.labels(name)[0]
        target = codes if layout.target is None else first.labels(layout.target)[0]
        return len(np.unique(np.stack([codes, target]), axis=1).T) == len(np.unique(codes)) < first.rows

    candidates = [c for c in text if c != layout.time and fits(c)]
    if len(candidates) != 1:
        others = [c for c in layout.values[:50] if c not in (layout.time, *first.nested_columns([c])) and fits(c)]
        which = candidates or others
        suggestion = " or ".join(f"--id {c}" for c in which[:4]) or "there is no column with repeated values"
        raise BadValue(
            f"--id: expected the column of {path.name} with the names of the series, one row per step; {suggestion}; "
            "--form wide if each row is a series"
        )
    layout.id = candidates[0]
    layout.notes.append(f"series by {layout.id!r}, the only column of repeated text (--id)")


def _sequences(names: list[str]) -> dict[str | None, list[str]]:
    """Columns by the text in front of their number; dates and times of day have none, names without a number None."""
    sequences: dict[str | None, list[str]] = {}
    for name in names:
        prefix = name.rstrip("0123456789.")
        sequences.setdefault(None if prefix == name else prefix, []).append(name)
    numbers = [prefix for prefix in sequences if prefix and not re.search(r"[^\W\d_]", prefix)]
    if len(numbers) > 1 or (numbers and "" in sequences):
        joined = {*numbers, ""}
        first = [name for prefix, group in sequences.items() if prefix in joined for name in group]
        sequences = {"": first, **{prefix: group for prefix, group in sequences.items() if prefix not in joined}}
    return sequences


def _find_steps(path: Path, layout: Layout, sure: bool) -> None:
    """Finds the channels of a wide table, whose columns are numbered steps: t0, t1, ... or x0, x1, ..., y0, y1, ..."""
    sequences = _sequences(layout.values)
    layout.channels = ["value"]
    longest = max(sequences.values(), key=len)
    numbers = [[c.removeprefix(prefix or "") for c in names] for prefix, names in sequences.items()]
    if len(sequences) > 1 and None not in sequences and len(longest) > 2 and all(n == numbers[0] for n in numbers):
        layout.channels = [str(prefix).rstrip("_-. ") or "value" for prefix in sequences]
        layout.values = [c for names in sequences.values() for c in names]
        return
    if sure or (len(sequences) == 1 and (layout.id is not None or (None not in sequences and len(layout.values) > 1))):
        return
    others = [c for c in layout.values if c not in set(longest)]
    if others and sequences.get(None) is not longest and len(longest) > 2:
        options = " ".join(f"--drop {c}" for c in others[:3])
        raise BadValue(
            f"{path}: expected one column per step, got {_listed(others)} beside {longest[0]!r} to {longest[-1]!r}; "
            f"{options} leaves them out, --form wide reads every column as a step"
        )
    if layout.id is None:
        raise BadValue(
            f"{path}: expected one way to read the table, got two: wide, one row per series, with steps "
            f"{layout.values[0]!r} to {layout.values[-1]!r} (--form wide); or long, one row per step, with channels "
            f"{_listed(layout.values)} (--id names the column of series)"
        )
