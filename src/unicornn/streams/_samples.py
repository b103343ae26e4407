"""Checks the samples of a push and joins them to one array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue
from unicornn.streams._engine import Array


def joined(samples: Any, d: int, dtype: Any, gaps: bool = False) -> tuple[list[Any], Array, Array]:
    """The keys; the samples of all keys (total, d), key by key; and the number of samples of each key.

    Args:
        samples: Samples (d,) or (k, d) by key; for d = 0 words, () or (k,), which are returned as (total, 1).
        d: Number of channels, or 0 for words.
        dtype: Dtype of the result, except for words.
        gaps: Whether NaN is a valid sample.
    """
    if not isinstance(samples, Mapping):
        raise BadType(f"samples: expected a mapping from keys to samples, got {checks.describe(samples)}")
    if not samples:
        raise BadValue("samples: expected at least one key, got none")
    keys, values = list(samples), list(samples.values())
    try:
        together: Array | None = np.array(values) if all(type(v) is np.ndarray for v in values) else None
    except ValueError:  # different lengths
        together = None
    if together is not None and together.dtype.kind in "fiu" and d and together.shape[1:] == (d,):
        u, count = together.astype(dtype), np.ones(len(keys), np.int64)
    else:
        each = [_of_one_key(key, value, d, dtype) for key, value in samples.items()]
        u, count = np.concatenate(each), np.array([len(x) for x in each])
    valid = np.isfinite(u) | (gaps & np.isnan(u)) if d else np.ones(1, bool)
    if not valid.all():
        first = int(np.flatnonzero(~valid.all(1))[0])
        key = keys[int(np.searchsorted(np.cumsum(count), first, side="right"))]
        raise BadValue(f"samples[{checks.describe(key, (int, str))}]: expected finite numbers, got {u[first].tolist()}")
    return keys, u, count


def _of_one_key(key: Any, value: Any, d: int, dtype: Any) -> Array:
    name = f"samples[{checks.describe(key, (int, str))}]"
    form = f"numbers of shape ({d},) or (k, {d})" if d else "words, an integer or (k,) of them"
    if isinstance(value, Tensor):
        if not checks.is_dense(value):
            raise BadType(f"{name}: expected {form}, got {checks.describe(value)}")
        value = value.detach().cpu()
        value = value.float() if value.dtype == torch.bfloat16 else value  # numpy has no bfloat16
    try:
        x = np.asarray(value)
    except ValueError as error:
        raise BadValue(f"{name}: expected {form}, got rows of different lengths") from error
    if x.dtype.kind not in ("fiu" if d else "iu"):
        raise BadType(f"{name}: expected {form}, got {checks.describe(value)}")
    rows = x.reshape(1, -1) if x.ndim == (1 if d else 0) else x if d else x[:, None]
    if rows.ndim != 2 or rows.shape[1] != (d or 1) or not len(rows):
        raise BadValue(f"{name}: expected {form}, k >= 1, got shape {x.shape}")
    return rows.astype(dtype if d else np.int64)
