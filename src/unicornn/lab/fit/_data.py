"""What was read from a file of time series, and what is to be said about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from unicornn.errors import BadValue, CorruptData

NUMBERS, TEXT = "fiub", "US"  # numpy's kinds
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

    def check(self, path: Path) -> Self:
        """The same, if all series are numbers (N, d) with N, d >= 1 and every target is there; errors name the file."""
        if not self.series:
            raise CorruptData(f"{path}: expected at least one series, got none")
        for name, x in zip(self.ids, self.series, strict=True):
            if x.dtype.kind not in NUMBERS or x.ndim != 2 or 0 in x.shape:
                raise CorruptData(f"{path}: expected numbers (N, d) as series {name}, got {x.dtype} {x.shape}")
            if np.isnan(x).all() or np.isinf(x).any():
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
        if self.target is None or self.target.dtype.kind not in "fiu":
            return False
        different = len(np.unique(self.target))
        whole = bool((self.target == np.round(self.target)).all())
        return different > max(MANY, len(self.target) // 10) or (not whole and different > len(self.target) // 2)

    def described(self) -> list[tuple[str, str]]:
        """What was understood, as names and values."""
        lengths = np.array([len(x) for x in self.series])
        same = lengths.min() == lengths.max()
        rows = [
            ("form", self.form),
            ("series", f"{len(self.series):,}"),
            ("steps", f"{lengths[0]:,}" if same else f"{lengths.min():,} to {lengths.max():,}"),
            ("channels", f"{len(self.channels)}: {_few(self.channels)}"),
        ]
        if self.target is not None and self.regression:
            numbers = self.target.astype(float)
            rows.append(("target", f"a quantity, {numbers.min():g} to {numbers.max():g}: regression"))
        elif self.target is not None:
            names, counts = np.unique(self.target, return_counts=True)
            each = [f"{name} ({count})" for name, count in zip(names, counts, strict=True)]
            rows.append(("target", f"{len(names)} classes, {_few(each)}: classification"))
        gaps = [i for i, x in enumerate(self.series) if np.isnan(x).any()]
        missing = sum(int(np.isnan(x).sum()) for x in self.series)
        rows.append(
            ("gaps", f"{missing:,} values in {len(gaps):,} series, first in {self.ids[gaps[0]]}" if gaps else "none")
        )
        if self.times:
            rows.append(("sampling", self._sampling()))
        return rows

    def _sampling(self) -> str:
        uneven = []
        for name, own in zip(self.ids, self.times, strict=True):
            steps = np.diff(own)
            if len(steps) and not np.allclose(steps, np.median(steps), rtol=0.01):
                uneven.append(name)
        if not uneven:
            return "regular"
        return f"irregular in {len(uneven):,} series ({_few(uneven)}); steps are taken as they come"

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


def _few(names: list[str], most: int = 8) -> str:
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"
