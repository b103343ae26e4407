"""The .ts format of the UEA and TSR archives: channels separated by colons, values by commas, the target last."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unicornn.errors import CorruptData
from unicornn.lab.data._archives import opened

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:inf|infinity|nan)$"
"""Numbers in text, for ``re`` and RE2. Python's ``float`` also accepts 1_0."""


class TsSeries(NamedTuple):
    """A series (N, d) in float64, NaN where a value is missing, its line in the file, and its target as text."""

    line: int
    values: np.ndarray
    target: str | None


def iterate_ts(path: Path) -> Iterator[TsSeries]:
    """Reads the series of a .ts file one at a time; they may have different lengths and missing values.

    Series with time stamps, which may not be evenly spaced, raise an error.
    """
    in_data = has_target = False
    d = 0
    with opened(path) as file:
        for number, raw in enumerate(file, 1):
            line = raw.decode("latin-1").strip()
            if not line or line.startswith("#"):
                continue
            check_text(path, number, line)
            if not in_data:
                keyword, _, value = line.lower().partition(" ")
                if not keyword.startswith("@"):
                    raise CorruptData(
                        f"{path}, line {number}: expected a header line that starts with @, got {line[:40]!r}"
                    )
                if keyword == "@timestamps" and value.strip() == "true":
                    raise CorruptData(f"{path}, line {number}: expected series without time stamps, got {line!r:.40}")
                if keyword in ("@classlabel", "@targetlabel"):
                    has_target = value.strip().startswith("true")
                in_data = keyword == "@data"
                continue
            channels = line.split(":")
            target = channels.pop().strip() if has_target else None
            parsed = [parse_values(path, number, channel.split(",")) for channel in channels]
            d = d or len(parsed)
            if len(parsed) != d or len({len(channel) for channel in parsed}) > 1 or not d:
                got = f"{len(parsed)} of {', '.join(str(len(channel)) for channel in parsed)} values"
                raise CorruptData(f"{path}, line {number}: expected {d} channels of one length, got {got}")
            yield TsSeries(number, np.stack(parsed, 1), target)
    if not d:
        raise CorruptData(f"{path}: expected a line @data followed by series, got none")


def check_text(path: Path, number: int, line: str) -> None:
    """Raises CorruptData if a line has NUL bytes, at which NumPy would cut names off."""
    if "\0" in line:
        raise CorruptData(f"{path}, line {number}: expected text, got NUL")


def parse_values(path: Path, line: int, cells: list[str]) -> np.ndarray:
    """Numbers of a line; "?", "NaN" and empty cells are missing values."""
    numbers = np.empty(len(cells))
    for i, cell in enumerate(map(str.strip, cells)):
        try:
            numbers[i] = np.nan if cell in ("?", "") else float(cell.replace("_", "?"))
        except ValueError:
            raise CorruptData(f"{path}, line {line}: expected a number as value {i + 1}, got {cell!r:.40}") from None
    return numbers


def parse_targets(targets: list[str]) -> np.ndarray:
    """Targets as numbers if all of them are numbers without leading zeros, otherwise as text: 01 is not 1."""
    if any(re.match(r"[+-]?0[0-9]", target) or not re.match(NUMBER, target) for target in targets):
        return np.array(targets)
    numbers = np.array(targets, float)
    integers = np.isfinite(numbers).all() and (numbers == np.round(numbers)).all()
    return numbers.astype(np.int64) if integers else numbers


def read_ts(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Series (n, N, d) in float32 and their targets (n,): text for classes, or numbers.

    Raises ``CorruptData`` for series of different lengths or with missing values.
    """
    series = list(iterate_ts(path))
    if len({len(each.values) for each in series}) > 1:
        raise CorruptData(f"{path}: expected series of equal length")
    u = np.stack([each.values for each in series]).astype(np.float32)
    if not np.isfinite(u).all():
        raise CorruptData(f"{path}: expected series without missing values")
    if any(each.target is None for each in series):
        raise CorruptData(f"{path}: expected targets (@classLabel or @targetLabel true)")
    return u, parse_targets([str(each.target) for each in series])
