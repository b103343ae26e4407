"""Arrays with one row per sequence, which grow as sequences arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Limits = Mapping[str, tuple[float, float]]
"""Smallest and largest valid values of arrays in a file, by name. Other arrays only have to be finite."""
COUNT = (0, 2**62)


class Rows(dict[str, Array]):
    """Arrays by name, all with the same number of rows."""

    def __init__(self, limits: Limits | None = None, **arrays: Array) -> None:
        super().__init__(arrays)
        self.limits = limits or {}

    def grow(self, rows: int) -> None:
        """Enlarges the arrays to at least this number of rows."""
        have = len(next(iter(self.values())))
        if rows > have:
            more = max(rows, 2 * have, 16) - have
            for name, array in self.items():
                self[name] = np.concatenate([array, np.zeros((more, *array.shape[1:]), array.dtype)])

    def reset(self, rows: Any) -> None:
        """Sets rows to zero: the state at rest, nothing counted."""
        for array in self.values():
            array[rows] = 0

    def taken(self, rows: Any) -> dict[str, Array]:
        """A copy of these rows."""
        return {name: array[rows].copy() for name, array in self.items()}

    def put(self, rows: Any, arrays: Mapping[str, Array]) -> None:
        for name, array in self.items():
            array[rows] = arrays[name]

    saved = taken
    restore = put
