"""What was read from a file of time series, and what is to be said about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from unicornn.errors import BadValue, CorruptData

NUMBERS, TEXT = "fiub", "US"  # numpy's kinds
EVEN = 1.02  # times the shortest step between two times is the longest, at most, if sampling is regular
MANY = 20  # a target of numbers with more values than this, and than a tenth of the series, is a quantity


@dataclass
class Data:
    """Series (N_i, d) with their names, channels and targets.

    Attributes:
        form: how the file was understood, in words.
        ids: the series' names.
        channels: d names.
        target: (n,) text or numbers, or None.
        times: each series' times, where there are any.
    """

    form: str
    series: list[np.ndarray]
    ids: list[str]
    channels: list[str]
    target: np.ndarray | None = None
    times: list[np.ndarray] = field(default_factory=list)

    def check(self, path: Path, whole: bool = True) -> Self:
        """The same, if all series are numbers (N, d) with N, d >= 1 and every target is there; errors name the file.
        A part of a series that is not ``whole`` may have no values."""
        if not self.series:
            raise CorruptData(f"{path}: expected at least one series, got none")
        for name, x in zip(self.ids, self.series, strict=True):
            if x.dtype.kind not in NUMBERS or x.ndim != 2 or 0 in x.shape:
                raise CorruptData(f"{path}: expected numbers (N, d) as series {name}, got {x.dtype} {x.shape}")
            if (whole and np.isnan(x).all()) or np.isinf(x).any():
                got = "infinity" if np.isinf(x).any() else "none"
                raise CorruptData(f"{path}: expected finite values in series {name}, got {got}")
        if self.target is None:
            return self
        kind = self.target.dtype.kind
        if kind not in NUMBERS + TEXT or self.target.shape != (len(self.series),):
            raise CorruptData(f"{path}: expected a number or a name as every target, got {self.target.dtype}")
        there = np.char.strip(self.target).astype(bool) if kind in TEXT else np.isfinite(self.target)
        if not there.all():
            name = self.ids[int(there.argmin())]
            raise CorruptData(f"{path}: expected a finite number or a name as the target of series {name}, got none")
        return self

    @property
    def regression(self) -> bool:
        """Whether the target is a quantity rather than a class: numbers, most of them different."""
        return self.target is not None and _is_quantity(self.target)

    def described(self) -> list[tuple[str, str]]:
        """What was understood, as names and values."""
        return described([self])

    def check_channels(self, expected: list[str]) -> None:
        """Raises an error that names the channels which a model does not know, or misses."""
        if self.channels == expected:
            return
        absent = [name for name in expected if name not in self.channels]
        other = [name for name in self.channels if name not in expected]
        if not absent and not other:
            raise BadValue(f"channels: expected the order {_few(expected)}, got {_few(self.channels)}")
        raise BadValue(
            f"channels: expected {_few(expected)} as the model was fitted with"
            + (f"; {_few(absent)} missing" if absent else "")
            + (f"; {_few(other)} unknown" if other else "")
        )


def _is_quantity(target: np.ndarray) -> bool:
    if target.dtype.kind not in "fiu":
        return False
    different = len(np.unique(target))
    whole = bool((target == np.round(target)).all())
    return different > max(MANY, len(target) // 10) or (not whole and different > len(target) // 2)


def described(parts: Iterable[Data]) -> list[tuple[str, str]]:
    """What was understood of a file that comes in parts, as names and values. A series may be in several parts, with
    the last time of the part before, if there are times.

    Example:
        >>> import numpy as np
        >>> from unicornn.lab.fit._data import Data, described
        >>> first, second = (Data("npz", [np.zeros((5, 1))], [name], ["x"], np.array(["Ann"])) for name in "ab")
        >>> described([first, second, second])[1:3]
        [('series', '2'), ('steps', '5 to 10')]
    """
    steps: Counter[str] = Counter()
    gaps: Counter[str] = Counter()
    targets: dict[str, Any] = {}
    paces: dict[str, tuple[float, float]] = {}
    timed = False
    for part in parts:
        form, channels = part.form, part.channels
        for name, x in zip(part.ids, part.series, strict=True):
            steps[name] += len(x)
            gaps[name] += int(np.isnan(x).sum())
        targets |= {} if part.target is None else dict(zip(part.ids, part.target, strict=True))
        timed = timed or bool(part.times)
        for name, own in zip(part.ids, part.times, strict=False):
            low, high = paces.get(name, (np.inf, 0.0))
            pace = np.diff(own)
            paces[name] = min(low, pace.min(initial=np.inf)), max(high, pace.max(initial=0.0))
    lengths, missing = list(steps.values()), gaps.total()
    uneven = [name for name, (low, high) in paces.items() if high > EVEN * low]
    with_gaps = [name for name, count in gaps.items() if count]
    shortest, longest = min(lengths), max(lengths)
    rows = [
        ("form", form),
        ("series", f"{len(lengths):,}"),
        ("steps", f"{longest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"),
        ("channels", f"{len(channels)}: {_few(channels)}"),
    ]
    if targets:
        rows.append(("target", _targets(np.array(list(targets.values())))))
    count = f"{missing:,} value{'s' if missing > 1 else ''}"
    rows.append(("gaps", f"{count} in {len(with_gaps):,} series, first in {with_gaps[0]}" if missing else "none"))
    if timed:
        irregular = f"irregular in {len(uneven):,} series ({_few(uneven)}); steps are taken as they come"
        rows.append(("sampling", irregular if uneven else "regular"))
    return rows


def _targets(target: np.ndarray) -> str:
    if _is_quantity(target):
        numbers = target.astype(float)
        return f"a quantity, {numbers.min():g} to {numbers.max():g}: regression"
    names, counts = np.unique(target, return_counts=True)
    each = [f"{name} ({count})" for name, count in zip(names, counts, strict=True)]
    return f"{len(names)} classes, {_few(each)}: classification"


def _few(names: list[str], most: int = 8) -> str:
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"
