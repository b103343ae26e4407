"""Checks of arguments; each error names the argument, the expectation and the value."""

from __future__ import annotations

import difflib
import logging
import math
import reprlib
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from unicornn.errors import BadType, BadValue

SIZE = 2**24
"""Largest size of a dimension; more would exhaust the memory of most machines before anything is computed."""
UNUSUAL_SCALE = 100.0
"""Factor between the root mean square of an input and 1 beyond which a message is logged."""
FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def describe(value: Any, plain: tuple[type, ...] = (int, float)) -> str:
    """A value in an error message, shortened, with its type unless that is in ``plain``."""
    kind = type(value)
    if kind is int and value.bit_length() > 200:
        return f"a number of {value.bit_length()} bits"
    if kind in plain:
        return repr(value)
    if value is None:
        return "NoneType None"
    if isinstance(value, Tensor) and value.is_nested:
        return "a nested tensor"
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and {value.dtype}"
    return f"{kind.__name__} {reprlib.repr(value)}"


def is_dense(value: Any) -> bool:
    """Whether a value is a tensor with ordinary memory: not sparse, nested, quantised or without data."""
    if not isinstance(value, Tensor) or value.layout != torch.strided:
        return False
    return not (value.is_meta or value.is_nested or value.is_quantized)


def log_unusual_scale(u: Tensor) -> None:
    """Logs a message if the first steps of u (N, b, d) are far from unit scale."""
    scale = float(u.detach()[:1000].double().square().mean().sqrt()) if is_dense(u) else 1.0
    if math.isfinite(scale) and scale and not 1 / UNUSUAL_SCALE <= scale <= UNUSUAL_SCALE:
        logging.getLogger("unicornn").warning(
            "unicornn: the input has a root mean square of %.1e; layers learn best from inputs near 1: scale it", scale
        )


def number(name: str, value: Any, expected: str, ok: Callable[[float], bool] = math.isfinite) -> float:
    """A finite real number for which ``ok`` holds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadType(f"{name}: expected {expected}, got {describe(value)}")
    try:
        real = float(value)
    except OverflowError:
        real = math.inf
    if not (math.isfinite(real) and ok(real)):
        raise BadValue(f"{name}: expected {expected}, got {describe(value)}")
    return real


def positive(name: str, value: Any) -> float:
    return number(name, value, "a finite number > 0", lambda x: x > 0)


def not_negative(name: str, value: Any) -> float:
    return number(name, value, "a finite number >= 0", lambda x: x >= 0)


def fraction(name: str, value: Any) -> float:
    """A share of dropped values, below 1."""
    return number(name, value, "a number in [0, 1)", lambda x: 0 <= x < 1)


def per_layer(name: str, value: Any, L: int) -> tuple[float, ...]:
    """One positive number per layer, from one number or one per layer."""
    if isinstance(value, (list, tuple, Tensor)):
        if isinstance(value, Tensor):
            dense(name, value, meta=False)
        each = value.tolist() if isinstance(value, Tensor) else value
        if not isinstance(each, (list, tuple)) or len(each) != L:
            raise BadValue(f"{name}: expected a number or one per layer ({L}), got {describe(value)}")
        return tuple(positive(f"{name}[{l}]", v) for l, v in enumerate(each))
    return (positive(name, value),) * L


def time_steps(dt: Any, L: int) -> tuple[float, ...]:
    """One ``dt`` per layer."""
    if isinstance(dt, str):
        hint = "unicornn.suggest_dt(length, input=...) suggests one for your sequences"
        raise BadType(f"dt: expected a number or one per layer ({L}), got {describe(dt)}; {hint}")
    return per_layer("dt", dt, L)


def horizon(value: Any, L: int) -> tuple[float, ...]:
    """One ``horizon`` per layer; empty if it is None."""
    return () if value is None else per_layer("horizon", value, L)


def integer(name: str, value: Any, least: int, most: int = 2**63 - 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadType(f"{name}: expected an integer >= {least}, got {describe(value, (int,))}")
    if not least <= value <= most:
        limit = "" if value < least else f" and <= {most:,}"
        raise BadValue(f"{name}: expected an integer >= {least}{limit}, got {describe(value)}")
    return value


def sizes(input_size: Any, hidden_size: Any, num_layers: Any = 1) -> tuple[int, int, int]:
    """The sizes of a stack of layers, limited to 4 GiB of weights in float32: to fill more would take minutes."""
    given = {"input_size": input_size, "hidden_size": hidden_size}
    d, m = (integer(name, value, 1, SIZE) for name, value in given.items())
    L = integer("num_layers", num_layers, 1, 10_000)
    if L * m * (d + m) > 2**30:
        name = max(given, key=lambda name: given[name])
        raise BadValue(f"{name}: expected at most 2**30 weights in all layers, got {given[name]}")
    return d, m, L


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadType(f"{name}: expected True or False, got {describe(value)}")
    return value


def choice(name: str, value: Any, among: Iterable[str]) -> str:
    among = tuple(among)
    if not isinstance(value, str) or value not in among:
        got = repr(value) if isinstance(value, str) else describe(value)
        raise BadValue(f"{name}: expected one of {', '.join(map(repr, among))}, got {got}")
    return value


def factory_options(dtype: Any, device: Any) -> dict[str, Any]:
    """Keyword arguments of torch.empty for parameters; None is torch's default."""
    return {
        "dtype": floating_dtype("dtype", dtype),
        "device": None if device is None else existing_device("device", device),
    }


def floating_dtype(name: str, dtype: Any) -> Any:
    """A floating-point dtype of torch, or None."""
    if not (dtype is None or any(dtype is each for each in FLOATING)):
        expected = ", ".join(str(each).removeprefix("torch.") for each in FLOATING)
        raise BadType(f"{name}: expected None or one of torch's {expected}, got {describe(dtype)}")
    return dtype


def existing_device(name: str, device: Any) -> torch.device:
    """A device that is available."""
    try:
        existing = torch.device(device)
        torch.empty(0, device=existing)
    except (RuntimeError, TypeError, ValueError, OverflowError, AssertionError) as error:
        raise BadValue(f"{name}: expected an available device, got {describe(device)}") from error
    return existing


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of an error message about an unknown name, if a similar name exists."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def dense(name: str, value: Tensor, meta: bool = True) -> None:
    """Checks that a tensor is neither nested nor sparse nor quantised nor, unless ``meta``, without data."""
    if is_dense(value):
        return
    for wrong, kind, remedy in (
        (value.is_nested, "a nested one", "pad it (torch.nested.to_padded_tensor) and pass lengths"),
        (value.is_quantized, "a quantised one", "call dequantize()"),
        (not value.is_nested and value.layout != torch.strided, str(value.layout), "call to_dense()"),
        (value.is_meta and not meta, "one on the device 'meta'", "move it to a device with data"),
    ):
        if wrong:
            raise BadType(f"{name}: expected a dense tensor, got {kind}; {remedy}")


def array(name: str, value: Any, dims: tuple[int, ...], form: str) -> Tensor:
    """A dense, non-empty tensor with one of these numbers of dimensions; ``form`` is its shape in words."""
    if not isinstance(value, Tensor):
        raise BadType(f"{name}: expected a tensor of shape {form}, got {describe(value)}")
    dense(name, value)
    if value.dim() not in dims or 0 in value.shape:
        raise BadValue(f"{name}: expected a tensor of shape {form}, no size 0, got {describe(value)}")
    return value


def tensor(name: str, value: Any, shape: tuple[int, ...], meaning: str, like: Tensor | None = None) -> Tensor:
    """A tensor of this shape and, if ``like`` is given, of its dtype and device."""
    if not isinstance(value, Tensor):
        raise BadType(f"{name}: expected a tensor of shape {shape} {meaning}, got {type(value).__name__}")
    dense(name, value)
    if tuple(value.shape) != tuple(shape):
        raise BadValue(f"{name}: expected shape {tuple(shape)} {meaning}, got {tuple(value.shape)}")
    if like is not None:
        same_kind(name, value, like, "the parameters'")
    return value


def same_kind(name: str, value: Tensor, like: Tensor, whose: str) -> None:
    dense(name, value)
    if value.dtype != like.dtype:
        raise BadType(f"{name}: expected {whose} dtype {like.dtype}, got {value.dtype}")
    if value.device != like.device:
        raise BadValue(f"{name}: expected {whose} device {like.device}, got {value.device}")


def indices(name: str, value: Any, device: torch.device) -> Tensor:
    """Integers as an int64 tensor."""
    if not isinstance(value, Tensor):
        try:
            value = torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise BadType(f"{name}: expected integers, got {type(value).__name__}") from error
    dense(name, value, meta=False)
    if value.dtype.is_floating_point or value.dtype.is_complex or value.dtype == torch.bool:
        raise BadType(f"{name}: expected integers (int64), got {value.dtype}")
    return value.to(device=device, dtype=torch.int64)
