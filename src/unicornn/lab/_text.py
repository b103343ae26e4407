"""Numbers, times and settings as text."""

from __future__ import annotations

import math
from typing import Any

NONE = "–"


def percent(value: float, deviation: float | None = None) -> str:
    """A share in percent with one decimal.

    Example:
        >>> percent(0.9684), percent(0.903, 0.03)
        ('96.8 %', '90.3 ± 3.0 %')
    """
    return f"{100 * value:.1f}" + (f" ± {100 * deviation:.1f}" if deviation is not None else "") + " %"


def number(value: float, deviation: float | None = None) -> str:
    """Three significant digits, and as many places of the deviation.

    Example:
        >>> number(1.0, 0.0625), number(0.0123456), number(1e6)
        ('1.00 ± 0.06', '0.0123', '1e+06')
    """
    places = 2 if value == 0 else 2 - math.floor(math.log10(abs(float(f"{value:.2e}"))))
    text = f"{value:.{places}f}" if 0 <= places <= 6 else f"{value:.3g}"
    return text + (f" ± {deviation:.{max(places, 0)}f}" if deviation is not None else "")


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
