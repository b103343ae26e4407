"""Samples as they come, checked, and as one array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue

Array = np.ndarray[Any, Any]


def arrays(samples: Any, d: int, number: Any, gaps: bool = False) -> tuple[list[Any], Array, Array]:
    """The keys; all samples, (total, d), one key's after another's; and how many each has.

    Args:
        samples: (d,) or (k, d) for each key; with d = 0 words, () or (k,), which come back as (total, 1).
        number: the dtype of the result, but for words.
        gaps: whether NaN is a sample.
    """
    if not isinstance(samples, Mapping):
        raise BadType(f"samples: expected a mapping from keys to samples, got {checks.describe(samples)}")
    if not samples:
        raise BadValue("samples: expected at least one key, got none")
    keys, values = list(samples), list(samples.values())
    try:
        together: Array | None = np.array(values) if all(type(v) is np.ndarray for v in values) else None
    except ValueError:  # of different lengths
        together = None
    if together is not None and together.dtype.kind in "fiu" and d and together.shape[1:] == (d,):
        u, count = together.astype(number), np.ones(len(keys), np.int64)
    else:
        each = [_one(key, value, d, number) for key, value in samples.items()]
        u, count = np.concatenate(each), np.array([len(x) for x in each])
    fine = np.isfinite(u) | (gaps & np.isnan(u)) if d else np.ones(1, bool)
    if not fine.all():
        first = int(np.flatnonzero(~fine.all(1))[0])
        key = keys[int(np.searchsorted(np.cumsum(count), first, side="right"))]
        raise BadValue(f"samples[{checks.describe(key, (int, str))}]: expected finite numbers, got {u[first].tolist()}")
    return keys, u, count


def _one(key: Any, value: Any, d: int, number: Any) -> Array:
    name = f"samples[{checks.describe(key, (int, str))}]"
    form = f"numbers of shape ({d},) or (k, {d})" if d else "words, an integer or (k,) of them"
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy() if not value.is_meta and not value.is_sparse else None
    try:
        x = np.asarray(value)
    except ValueError as error:
        raise BadValue(f"{name}: expected {form}, got rows of different lengths") from error
    if x.dtype.kind not in ("fiu" if d else "iu"):
        raise BadType(f"{name}: expected {form}, got {checks.describe(value)}")
    rows = x.reshape(1, -1) if x.ndim == (1 if d else 0) else x if d else x[:, None]
    if rows.ndim != 2 or rows.shape[1] != (d or 1) or not len(rows):
        raise BadValue(f"{name}: expected {form}, k >= 1, got shape {x.shape}")
    return rows.astype(number if d else np.int64)
