"""Figures, times and settings as text."""

from __future__ import annotations

import math
from typing import Any

NONE = "–"


def _number(value: float) -> tuple[str, int]:
    """Three significant digits, and how many of them come after the point."""
    if value == 0:
        return "0.00", 2
    places = 2 - math.floor(math.log10(abs(float(f"{value:.2e}"))))
    return (f"{value:.{places}f}", places) if 0 <= places <= 6 else (f"{value:.3g}", max(places, 0))


def figure(metric: str, value: float | None, deviation: float | None = None) -> str:
    """A test or validation figure: accuracies in percent with one decimal, errors with three significant digits.

    Example:
        >>> figure("accuracy", 0.9684), figure("accuracy", 0.903, 0.03), figure("RMSE", 1.0, 0.0625)
        ('96.8 %', '90.3 ± 3.0 %', '1.00 ± 0.06')
    """
    if value is None or not math.isfinite(value):
        return NONE
    if metric == "accuracy":
        return f"{100 * value:.1f}" + (f" ± {100 * deviation:.1f}" if deviation is not None else "") + " %"
    text, places = _number(value)
    return text + (f" ± {deviation:.{places}f}" if deviation is not None else "")


def duration(seconds: float) -> str:
    """A time in the two largest units that it has.

    Example:
        >>> duration(4.56), duration(754), duration(3 * 3600 + 125)
        ('4.6 s', '12 min 34 s', '3 h 2 min')
    """
    if not math.isfinite(seconds):
        return NONE
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def several(values: list[Any]) -> str:
    """Whole numbers as one or as a range.

    Example:
        >>> several([20, 20]), several([18, 20]), several([])
        ('20', '18–20', '–')
    """
    if not values:
        return NONE
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low}–{high}"


def setting(value: Any) -> str:
    """A value of config.json or environment.json.

    Example:
        >>> setting(None), setting([0.1, 0.2]), setting(True)
        ('–', '0.1, 0.2', 'yes')
    """
    if value is None or value == {} or value == []:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(setting, value)) if isinstance(value, list) else str(value)
