"""Checks of arguments: each names the argument, what came and what was expected."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from unicornn.errors import BadType, BadValue


def number(name: str, value: Any, expected: str, ok: bool) -> float:
    """A finite real number for which ``ok`` holds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadType(f"{name}: expected {expected}, got {type(value).__name__} {value!r}")
    if not (math.isfinite(value) and ok):
        raise BadValue(f"{name}: expected {expected}, got {value!r}")
    return float(value)


def positive(name: str, value: Any) -> float:
    return number(name, value, "a finite number > 0", isinstance(value, (int, float)) and value > 0)


def not_negative(name: str, value: Any) -> float:
    return number(name, value, "a finite number >= 0", isinstance(value, (int, float)) and value >= 0)


def share(name: str, value: Any) -> float:
    """Of what is left out, so not all."""
    return number(name, value, "a number in [0, 1)", isinstance(value, (int, float)) and 0 <= value < 1)


def per_layer(name: str, value: Any, L: int) -> tuple[float, ...]:
    """A positive number, or one per layer, as one per layer."""
    if isinstance(value, (Sequence, Tensor)) and not isinstance(value, str):
        each = value.tolist() if isinstance(value, Tensor) else value
        if not isinstance(each, Sequence) or len(each) != L:
            raise BadValue(f"{name}: expected a number or one per layer ({L}), got {value!r}")
        return tuple(positive(f"{name}[{l}]", v) for l, v in enumerate(each))
    return (positive(name, value),) * L


def time_steps(dt: Any, L: int) -> tuple[float, ...]:
    """``dt`` as one number per layer."""
    return per_layer("dt", dt, L)


def horizon(value: Any, L: int) -> tuple[float, ...]:
    """``horizon`` as one number per layer, or none at all."""
    return () if value is None else per_layer("horizon", value, L)


def whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadType(f"{name}: expected a whole number >= {least}, got {type(value).__name__} {value!r}")
    if value < least:
        raise BadValue(f"{name}: expected a whole number >= {least}, got {value}")
    return value


def choice(name: str, value: Any, among: Iterable[str]) -> str:
    among = tuple(among)
    if not isinstance(value, str) or value not in among:
        raise BadValue(f"{name}: expected one of {', '.join(map(repr, among))}, got {value!r}")
    return value


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of an error about a wrong name, if one of the right ones is like it.

    Example:
        >>> did_you_mean("psmnst", ["psmnist", "imdb"])
        "; did you mean 'psmnist'?"
    """
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def tensor(name: str, value: Any, shape: tuple[int, ...], meaning: str, like: Tensor | None = None) -> Tensor:
    """A tensor of this shape and, with ``like``, of its dtype and device."""
    if not isinstance(value, Tensor):
        raise BadType(f"{name}: expected a tensor of shape {shape} {meaning}, got {type(value).__name__}")
    if tuple(value.shape) != tuple(shape):
        raise BadValue(f"{name}: expected shape {tuple(shape)} {meaning}, got {tuple(value.shape)}")
    if like is not None:
        same_kind(name, value, like, "the parameters'")
    return value


def same_kind(name: str, value: Tensor, like: Tensor, whose: str) -> None:
    if value.dtype != like.dtype:
        raise BadType(f"{name}: expected {whose} dtype {like.dtype}, got {value.dtype}")
    if value.device != like.device:
        raise BadValue(f"{name}: expected {whose} device {like.device}, got {value.device}")


def indices(name: str, value: Any, device: torch.device) -> Tensor:
    """Whole numbers as an int64 tensor."""
    if not isinstance(value, Tensor):
        try:
            value = torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise BadType(f"{name}: expected whole numbers, got {type(value).__name__}") from error
    if value.dtype.is_floating_point or value.dtype.is_complex or value.dtype == torch.bool:
        raise BadType(f"{name}: expected whole numbers (int64), got {value.dtype}")
    return value.to(device=device, dtype=torch.int64)
