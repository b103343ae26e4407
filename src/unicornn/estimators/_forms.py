"""Converts containers of other libraries to arrays, lists or pandas frames, without importing these libraries.

Containers that can't be converted without guessing are rejected with the line that converts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from unicornn.errors import BadType, BadValue

TIME_NAMES = ("time", "t", "step", "timepoint", "timepoints")
REJECTED = {  # attribute by which a container is recognised: line that converts it
    "popitem": "list(X.values())",
    "batch_sizes": "[x[:n] for x, n in zip(*torch.nn.utils.rnn.pad_packed_sequence(X, batch_first=True))]",
    "data_vars": "X.to_dataarray().transpose(…, 'time', 'variable')",
    "column_names features": "X['NAME OF THE COLUMN']",
    "collect": "X.collect()",
    "compute": "X.compute()",
}


def unwrap(X: Any, channels_first: bool = False) -> Any:
    """X as an array, a list of series or a pandas frame with numbers.

    Accepts tensors, xarray's DataArray (a dimension called "time" is moved to its place), polars and Arrow tables, a
    column of a Hugging Face dataset, and nested frames as in sktime, with one row per series and a series in each cell.
    """
    if isinstance(X, torch.Tensor):
        return X.detach().cpu().numpy()
    if hasattr(X, "dims") and not hasattr(X, "data_vars"):
        named = [i for i, name in enumerate(X.dims) if str(name).lower() in TIME_NAMES]
        array = np.asarray(X.values)
        return np.moveaxis(array, named[0], 2 if channels_first else 1) if array.ndim == 3 and named else array
    if hasattr(X, "toarray"):
        return X  # a sparse matrix, some of which look like a dict; scikit-learn names the conversion
    frame = hasattr(X, "columns") and hasattr(X, "iloc")
    if not frame:
        for attributes, line in REJECTED.items():
            if all(hasattr(X, name) for name in attributes.split()):
                raise BadType(f"X: expected arrays, a list of arrays or a table, got {_name(X)}; use {line}")
        if hasattr(X, "to_pandas"):
            X = X.to_pandas()
            frame = hasattr(X, "columns")
    if frame:
        return _unwrap_frame(X)
    if hasattr(X, "iloc") or (isinstance(X, Sequence) and not isinstance(X, (str, bytes, list, tuple))):
        return list(X)  # a column
    return X


def _unwrap_frame(X: Any) -> Any:
    if X.index.nlevels > 2:
        raise BadValue(
            f"X: expected an index of two levels, series and time, got {X.index.nlevels}; use X.droplevel(…)"
        )
    texts = [name for name, dtype in zip(X.columns, X.dtypes, strict=True) if not _holds_numbers(dtype)]
    if not texts or not len(X):
        return X
    if all(np.ndim(cell) or hasattr(cell, "__array__") for cell in X[texts].iloc[0]) and len(texts) == X.shape[1]:
        return [_nested(X, i) for i in range(len(X))]
    if X.index.nlevels == 1 and not any(_is_number(cell) for cell in X[texts].iloc[0]):
        line = f"X.set_index([{texts[0]!r}, 'NAME OF THE TIME COLUMN'])"
        raise BadType(
            f"X: expected columns of numbers, got {_name(X)} with {texts[0]!r}; if it names the series, use {line}"
        )
    return X


def _nested(X: Any, i: int) -> Any:
    """Row i of a nested frame, as an array (N, d) or as a frame with a column per channel."""
    cells = [np.asarray(cell) for cell in X.iloc[i]]
    if len(cells) == 1:
        return cells[0] if cells[0].dtype != object else np.stack(list(cells[0]))
    if len({len(cell) for cell in cells}) > 1:
        lengths = ", ".join(str(len(cell)) for cell in cells)
        raise BadValue(f"X[{i}]: expected channels of equal length, got lengths {lengths}")
    return type(X)(dict(zip(X.columns, cells, strict=True)))


def _holds_numbers(dtype: Any) -> bool:
    return getattr(dtype, "kind", "O") in "fiubMm"


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def _name(X: Any) -> str:
    return f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}"
