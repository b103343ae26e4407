"""Times, ranges and settings as text."""

from __future__ import annotations

import math
from typing import Any

NONE = "–"


def duration(seconds: float) -> str:
    """Formats a time in its two largest units: 4.6 s, 12 min 34 s, 3 h 2 min."""
    if not math.isfinite(seconds):
        return NONE
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def several(values: list[Any]) -> str:
    """Formats integers as one number or as a range: 18–20."""
    if not values:
        return NONE
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low}–{high}"


def setting(value: Any) -> str:
    """Formats a value of config.json or environment.json."""
    if value is None or value == {} or value == []:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(setting, value)) if isinstance(value, list) else str(value)
