"""Series read from a file, with their names and targets, and their description."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from unicornn.errors import BadValue, CorruptData
from unicornn.lab.data._ts import parse_targets

TABLES = (".csv", ".csv.gz", ".txt", ".parquet", ".feather", ".arrow", ".jsonl", ".ndjson", ".xlsx")
SOUNDS = (".wav", ".flac")
LABELS = ("target", "groups")
NUMBERS, TEXT = "fiub", "US"  # NumPy's kinds
REGULAR = 1.02  # maximum ratio of the longest to the shortest time step if sampling is regular
MAX_STEPS = 10_000_000  # of a resampled series
MAX_CLASSES = 20  # numeric targets with more values than this, and than a tenth of the series, are quantities


@dataclass(frozen=True)
class Reading:
    """Options for reading a file.

    Attributes:
        target: Column or array of the targets.
        groups: Column or array of the groups to leave out together.
        id: Column of series names, in a table.
        time: Column of times, in a long table.
        drop: Columns of a table to leave out.
        ignored: Columns of a table to leave out if they exist.
        form: "long" for one row per step, "wide" for one row per series; None to decide by the columns.
        separator, decimal, encoding: Dialect of a .csv file; None to detect it.
        resample: Period of a regular grid onto which series with times are brought.
        like: ``Data.reading`` of another table: options to use where none is given.
    """

    target: str | None = None
    groups: str | None = None
    id: str | None = None
    time: str | None = None
    drop: Sequence[str] = ()
    ignored: Sequence[str] = ()
    form: str | None = None
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    resample: str | None = None
    like: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.form not in (None, "long", "wide"):
            raise BadValue(f"--form: expected long or wide, got {self.form!r}")

    def complete(self) -> Self:
        """With the options of ``like`` where none is given."""
        stored = {name: value for name, value in self.like.items() if not getattr(self, name)}
        return replace(self, **{name: value for name, value in stored.items() if value not in self.drop}, like={})


@dataclass
class Data:
    """Series (N_i, d) with their names, channels and targets.

    Attributes:
        form: How the file was interpreted, in words.
        series: Arrays (N_i, d).
        ids: Names of the series.
        channels: Names of the d channels.
        target: Text or numbers (n,), or None.
        times: Times of each series, or empty.
        groups: Text or numbers (n,), or None.
        notes: Remarks on how the file was read.
        reading: Options with which another file is read in the same way.
    """

    form: str
    series: list[np.ndarray]
    ids: list[str]
    channels: list[str]
    target: np.ndarray | None = None
    times: list[np.ndarray] = field(default_factory=list)
    groups: np.ndarray | None = None
    notes: list[str] = field(default_factory=list)
    reading: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def join(cls, parts: Iterable[Self]) -> Self:
        """Joins the parts of a file; a series may be in several parts, in order."""
        values: dict[str, list[np.ndarray]] = {}
        times: dict[str, list[np.ndarray]] = {}
        labels: dict[str, dict[str, Any]] = {kind: {} for kind in LABELS}
        for part in parts:
            for name, x in zip(part.ids, part.series, strict=True):
                values.setdefault(name, []).append(x)
            for name, t in zip(part.ids, part.times, strict=False):
                times.setdefault(name, []).append(t)
            for kind, known in labels.items():
                if (given := getattr(part, kind)) is not None:
                    known |= dict(zip(part.ids, given.tolist(), strict=True))
        joined: dict[str, Any] = {kind: np.array(list(known.values())) for kind, known in labels.items() if known}
        return replace(
            part,
            series=[each[0] if len(each) == 1 else np.concatenate(each) for each in values.values()],
            ids=list(values),
            times=[np.concatenate(each) for each in times.values()],
            **joined,
        )

    def select(self, indices: Sequence[int] | np.ndarray) -> Self:
        """The series with these indices."""
        pick: dict[str, Any] = {kind: None if (y := getattr(self, kind)) is None else y[indices] for kind in LABELS}
        for kind in ("series", "ids", "times"):
            pick[kind] = [getattr(self, kind)[i] for i in indices] if getattr(self, kind) else []
        return replace(self, **pick)

    def resample(self, period: str) -> Self:
        """Series on a regular grid: means of the rows next to each point, and between them linear interpolation."""
        step = _seconds(period)
        if not self.times:
            raise BadValue("--resample: expected series with times; --time names their column")
        series, times = [], []
        for name, x, t in zip(self.ids, self.series, self.times, strict=True):
            if (t.max() - t.min()) / step > MAX_STEPS:
                expected = f"expected a period that gives at most {MAX_STEPS:,} steps"
                raise BadValue(f"--resample: {expected}, got {period} for {t.max() - t.min():g} in series {name}")
            point = np.rint((t - t.min()) / step).astype(int)
            grid = np.full((point.max() + 1, x.shape[1]), np.nan)
            for c, values in enumerate(x.T):
                known = ~np.isnan(values)
                counts, sums = (np.bincount(point[known], w, len(grid)) for w in (None, values[known]))
                at = np.flatnonzero(counts)
                if len(at):
                    inside = np.arange(at[0], at[-1] + 1)
                    grid[inside, c] = np.interp(inside, at, sums[at] / counts[at])
            series.append(grid)
            times.append(t.min() + step * np.arange(len(grid)))
        return replace(self, series=series, times=times)

    def check(self, path: Path, complete: bool = True) -> Self:
        """Returns itself if all series are numbers (N, d) with N, d >= 1 and no target is missing.

        Errors name the file. Unless the series are ``complete``, they may consist of missing values only.
        """
        if not self.series:
            raise CorruptData(f"{path}: expected at least one series, got none")
        for name, x in zip(self.ids, self.series, strict=True):
            if x.dtype.kind not in NUMBERS or x.ndim != 2 or 0 in x.shape:
                raise CorruptData(f"{path}: expected numbers (N, d) as series {name}, got {x.dtype} {x.shape}")
            if (complete and np.isnan(x).all()) or np.isinf(x).any():
                got = "infinity" if np.isinf(x).any() else "none"
                raise CorruptData(f"{path}: expected finite values in series {name}, got {got}")
        if self.target is None:
            return self
        kind = self.target.dtype.kind
        if kind not in NUMBERS + TEXT or self.target.shape != (len(self.series),):
            raise CorruptData(f"{path}: expected a number or a name as every target, got {self.target.dtype}")
        text = kind in TEXT
        labelled = np.char.strip(self.target).astype(bool) if text else np.isfinite(self.target)
        if not labelled.all():
            name = self.ids[int(labelled.argmin())]
            raise CorruptData(f"{path}: expected a finite number or a name as the target of series {name}, got none")
        return self

    @property
    def regression(self) -> bool:
        """Whether the target is a quantity rather than a class: numbers, most of them different."""
        return self.target is not None and _is_quantity(self.target)

    def described(self) -> list[tuple[str, str]]:
        """Rows of ``describe`` for these series."""
        return describe([self])

    def first_with_gaps(self) -> str | None:
        """Name of the first series with a missing value."""
        return next((name for name, x in zip(self.ids, self.series, strict=True) if np.isnan(x).any()), None)

    def check_channels(self, expected: list[str]) -> None:
        """Raises an error that names the channels which are missing or unknown to a model."""
        if self.channels == expected:
            return
        missing = [name for name in expected if name not in self.channels]
        unknown = [name for name in self.channels if name not in expected]
        if not missing and not unknown:
            raise BadValue(f"channels: expected the order {_shorten(expected)}, got {_shorten(self.channels)}")
        raise BadValue(
            f"channels: expected {_shorten(expected)} as the model was fitted with"
            + (f"; {_shorten(missing)} missing" if missing else "")
            + (f"; {_shorten(unknown)} unknown" if unknown else "")
        )


def _seconds(period: str) -> float:
    """A period as a number: in the unit of the times, or a duration in seconds."""
    try:
        step = float(period)
    except ValueError:
        try:
            step = pd.Timedelta(period).total_seconds()
        except ValueError:
            step = np.nan
    if not 0 < step < np.inf:
        raise BadValue(f"--resample: expected a positive number or a duration such as 10ms, got {period!r}")
    return step


def _is_quantity(target: np.ndarray) -> bool:
    if target.dtype.kind not in "fiu":
        return False
    different = len(np.unique(target))
    integers = bool((target == np.round(target)).all())
    return different > max(MAX_CLASSES, len(target) // 10) or (not integers and different > len(target) // 2)


def describe(parts: Iterable[Data]) -> list[tuple[str, str]]:
    """Describes a file that is read in parts, as rows (name, value). A series may be in several parts.

    Example:
        >>> import numpy as np
        >>> from unicornn.lab.fit._data import Data, describe
        >>> first, second = (Data("npz", [np.zeros((5, 1))], [name], ["x"], np.array(["Ann"])) for name in "ab")
        >>> describe([first, second, second])[1:3]
        [('series', '2'), ('steps', '5 to 10')]
    """
    steps: Counter[str] = Counter()
    gaps: Counter[str] = Counter()
    targets: dict[str, Any] = {}
    last_time: dict[str, float] = {}
    time_steps: dict[str, tuple[float, float]] = {}  # shortest and longest
    for part in parts:
        for name, x in zip(part.ids, part.series, strict=True):
            steps[name] += len(x)
            gaps[name] += int(np.isnan(x).sum())
        targets |= {} if part.target is None else dict(zip(part.ids, part.target.tolist(), strict=True))
        for name, times in zip(part.ids, part.times, strict=False):
            between = np.diff(times, prepend=last_time.get(name, np.array([])))
            low, high = time_steps.get(name, (np.inf, 0.0))
            time_steps[name] = min(low, between.min(initial=np.inf)), max(high, between.max(initial=0.0))
            last_time[name] = times[-1]
    shortest, longest = min(steps.values()), max(steps.values())
    rows = [
        ("form", part.form),
        ("series", f"{len(steps):,}"),
        ("steps", f"{longest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"),
        ("channels", f"{len(part.channels)}: {_shorten(part.channels)}"),
    ]
    if targets:
        target = np.array(list(targets.values()))
        target = parse_targets(target.tolist()) if target.dtype.kind in TEXT else target
        rows.append(("target", _describe_targets(target)))
    with_gaps = [name for name, count in gaps.items() if count]
    count = f"{gaps.total():,} value{'s' if gaps.total() > 1 else ''}"
    rows.append(("gaps", f"{count} in {len(with_gaps):,} series, first in {with_gaps[0]}" if with_gaps else "none"))
    if time_steps:
        uneven = [name for name, (low, high) in time_steps.items() if high > REGULAR * low]
        irregular = (
            f"irregular in {len(uneven):,} series ({_shorten(uneven)}); time differences are ignored without --resample"
        )
        rows.append(("sampling", irregular if uneven else "regular"))
    return [*rows, *(("note", note) for note in part.notes)]


def _describe_targets(target: np.ndarray) -> str:
    if _is_quantity(target):
        numbers = target.astype(float)
        return f"a quantity, {numbers.min():g} to {numbers.max():g}: regression"
    names, counts = np.unique(target, return_counts=True)
    classes = [f"{name} ({count})" for name, count in zip(names, counts, strict=True)]
    return f"{len(names)} classes, {_shorten(classes)}: classification"


def _shorten(names: list[str], most: int = 8) -> str:
    text = ", ".join(map(str, names[:most]))
    return text if len(names) <= most else f"{text}, … ({len(names)} in all)"
