"""Converts the accepted forms of X (arrays, lists of arrays, data frames) to a list of series (N_i, d)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_array

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue, UnicornnError
from unicornn.estimators._forms import unwrap

LAYOUTS = ("channels_last", "channels_first")
MISSING = ("error", "mask")
SCALES = ("dataset", "series")
SUSPICIOUS_RATIO = 4  # of channels to steps, above which the axes look swapped

Series = list[np.ndarray]


@dataclass(frozen=True)
class SeriesSet:
    """Series (N_i, d), and the names that X gives to channels and series."""

    series: Series
    channels: list[str] | None = None
    names: Any = None  # pandas index of the series
    n_columns: int | None = None  # of a table with one row per series

    @property
    def d(self) -> int:
        return int(self.series[0].shape[1])

    def __len__(self) -> int:
        return len(self.series)

    def check_order(self, name: str, values: Any) -> None:
        """Raises an error if ``values`` is indexed by the names of the series, but in a different order.

        pandas would align the two; we use positions, so a different order would silently pair the wrong rows.
        """
        index: Any = getattr(values, "index", None)
        if self.names is None or not hasattr(index, "equals") or index.equals(self.names):
            return
        if len(index) == len(self) and index.isin(self.names).all():
            first = int(np.argmax(index != self.names))
            raise BadValue(
                f"{name}: expected the order of the series in X, got {index[first]!r} for series "
                f"{self.names[first]!r}; use {name}.loc[X.index.get_level_values(0).unique()]"
            )


@contextmanager
def naming_errors(name: str) -> Iterator[None]:
    """Converts errors of scikit-learn and NumPy to ours, which name the argument."""
    try:
        yield
    except UnicornnError:
        raise
    except TypeError as error:
        raise BadType(f"{name}: {error}") from error
    except (ValueError, OverflowError, LookupError, RuntimeError) as error:
        raise BadValue(f"{name}: {error}") from error


def read_series(X: Any, layout: str = "channels_last", missing: str = "error") -> SeriesSet:
    """Returns the series in X, each (N_i, d) of floating-point numbers without missing values.

    Args:
        X: Array (n, N) or (n, N, d); list (or array of objects) of arrays or DataFrames (N_i,) or (N_i, d); or
            DataFrame whose index has two levels, series and time, and whose columns are the channels. ``unwrap`` lists
            the containers of other libraries.
        layout: "channels_last", or "channels_first" for arrays (n, d, N) and lists of (d, N_i).
        missing: "error" raises an error that names the first missing value. "mask" repeats the last observed value and
            adds two channels per channel: 1 where it is missing, and the time since it was last observed.
    """
    checks.choice("layout", layout, LAYOUTS)
    checks.choice("missing", missing, MISSING)
    with naming_errors("X"):
        found = _split(unwrap(X, layout == "channels_first"), layout == "channels_first")
    for i, x in enumerate(found.series):
        if x.shape[1] != found.d:
            swapped = layout == "channels_last" and len({len(x) for x in found.series}) == 1
            hint = "; for series (d, N), set layout='channels_first'" if swapped else ""
            raise BadValue(f"X[{i}]: expected {found.d} channels as in the first series, got {x.shape[1]}{hint}")
    _warn_if_axes_look_swapped(found.series, layout)
    _check_finite(found.series, nan_allowed=missing == "mask")
    return replace(found, series=[_with_mask(x) for x in found.series]) if missing == "mask" else found


def _split(X: Any, channels_first: bool) -> SeriesSet:
    if isinstance(X, (list, tuple)) and not X:
        raise BadValue("X: expected at least one series, got none")
    if getattr(getattr(X, "index", None), "nlevels", 1) == 2:
        return _from_long_frame(X)
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1 and len(X) and all(map(np.ndim, X)):
        X = list(X)
    if isinstance(X, (list, tuple)) and _is_list_of_series(X):
        series = [_one_series(x, i) for i, x in enumerate(X)]
        if channels_first:
            return SeriesSet([x.T for x in series] if np.ndim(X[0]) == 2 else series)
        columns = [_string_columns(x) for x in X]
        for i, own in enumerate(columns):
            if own != columns[0]:
                raise BadValue(f"X[{i}]: expected columns {columns[0]} as in the first series, got {own}")
        return SeriesSet(series, columns[0])
    array = check_array(_fill_masked(X), dtype="numeric", allow_nd=True, ensure_all_finite=False, input_name="X")
    if array.ndim > 3:
        raise BadValue(f"X: expected an array of shape (n, N) or (n, N, d), got {array.shape}")
    if array.ndim == 3 and 0 in array.shape:
        raise BadValue(f"X: expected at least one series, step and channel, got shape {array.shape}")
    array = _floating(array)
    if array.ndim == 2:
        return SeriesSet(list(array[:, :, None]), n_columns=array.shape[1])
    return SeriesSet(list(array.swapaxes(1, 2) if channels_first else array))


def _is_list_of_series(X: Sequence[Any]) -> bool:
    """Whether X is a list of arrays. Rows of numbers of equal length are one array (n, N) instead."""
    if all(hasattr(x, "shape") and len(x.shape) in (1, 2) for x in X):
        return True
    return all(isinstance(x, (list, tuple)) for x in X) and len({len(x) for x in X}) > 1


def _fill_masked(x: Any) -> Any:
    """Masked elements of a NumPy masked array as NaN."""
    return np.ma.filled(x.astype(np.float64), np.nan) if isinstance(x, np.ma.MaskedArray) else x


def _floating(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "fiub":
        raise BadType(f"X: expected an array of numbers, got {array.dtype}")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _one_series(x: Any, i: int) -> np.ndarray:
    array = np.asarray(_fill_masked(x.detach().cpu() if isinstance(x, torch.Tensor) else x))
    if array.dtype.kind not in "fiub":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise BadType(f"X[{i}]: expected an array of numbers (N, d), got {array.dtype}: {error}") from error
    array = _floating(array)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or 0 in array.shape:
        raise BadValue(f"X[{i}]: expected an array of shape (N,) or (N, d) with N, d >= 1, got {array.shape}")
    return array


def _from_long_frame(X: Any) -> SeriesSet:
    """One series per value of the first index level, in order of appearance; times must ascend."""
    if not len(X):
        raise BadValue("X: expected at least one series, got an empty DataFrame")
    codes, names = X.index.get_level_values(0).factorize()
    if (codes < 0).any():
        raise BadValue("X: expected a name for every series in the index, got missing ones")
    values = X.to_numpy(dtype=np.float64, na_value=np.nan)
    all_times = X.index.get_level_values(1)
    ends = np.cumsum(np.bincount(codes))
    series = []
    for name, rows in zip(names, np.split(np.argsort(codes, kind="stable"), ends[:-1]), strict=True):
        times = all_times[rows]
        if times.has_duplicates:
            raise BadValue(f"X: expected each time once, got {times[times.duplicated()][0]} twice in series {name!r}")
        if not times.is_monotonic_increasing:
            raise BadValue(f"X: expected ascending times in series {name!r}; sort by the index first")
        series.append(values[rows])
    return SeriesSet(series, [str(column) for column in X.columns], names)


def _string_columns(x: Any) -> list[str] | None:
    names = list(getattr(x, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def _warn_if_axes_look_swapped(series: Series, layout: str) -> None:
    longest, d = max(len(x) for x in series), series[0].shape[1]
    if d > SUSPICIOUS_RATIO * longest:
        other = "channels_last" if layout == "channels_first" else "channels_first"
        warnings.warn(
            f"X: {d} channels of at most {longest} steps: the axes look swapped. They are used as given; if they are "
            f"swapped, set layout={other!r}",
            stacklevel=5,
        )


def _check_finite(series: Series, nan_allowed: bool) -> None:
    for i, x in enumerate(series):
        bad = np.isinf(x) if nan_allowed else ~np.isfinite(x)
        if bad.any():
            n, channel = np.argwhere(bad)[0]
            nan = np.isnan(x[n, channel])
            expected, got = "numbers or NaN" if nan_allowed else "finite numbers", "NaN" if nan else "inf (infinity)"
            hint = "; missing='mask' accepts missing values" if nan else ""
            raise BadValue(f"X: expected {expected}, got {got} in series {i} at step {n}, channel {channel}{hint}")


def _with_mask(x: np.ndarray) -> np.ndarray:
    """(N, d) to (N, 3d): values with gaps filled, 1 where missing, log(1 + steps since the last observed value).

    Gaps repeat the last observed value, or the first one at the start; a channel without any value is 0.
    """
    missing = np.isnan(x)
    steps = np.arange(len(x))[:, None]
    last_seen = np.maximum.accumulate(np.where(missing, -1, steps), axis=0)
    first_seen = np.where(missing.all(0), 0, (~missing).argmax(0))
    filled = np.take_along_axis(x, np.where(last_seen < 0, first_seen, last_seen), axis=0)
    since = np.log1p(steps - last_seen)
    return np.concatenate([np.nan_to_num(filled), missing.astype(x.dtype), since.astype(x.dtype)], axis=1)


def scale_each(series: Series, d: int) -> Series:
    """Standardises the first d channels of every series by its own mean and deviation."""
    return [np.concatenate([Scaling.fit([x[:, :d]])(x[:, :d]), x[:, d:]], 1, dtype=np.float32) for x in series]


class Scaling:
    """Standardises channels by the mean and deviation (d,) of the training set; a constant channel becomes 0."""

    def __init__(self, mean: np.ndarray, deviation: np.ndarray) -> None:
        self.mean, self.deviation = mean, deviation

    @classmethod
    def fit(cls, series: Series) -> Scaling:
        count = sum(len(x) for x in series)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = sum(x.sum(0, dtype=np.float64) for x in series) / count
            variance = sum(((x - mean) ** 2).sum(0, dtype=np.float64) for x in series) / count
        if not np.isfinite(variance).all():
            channel = int(np.isfinite(variance).argmin())
            raise BadValue(f"X: expected numbers whose squares are finite, got larger ones in channel {channel}")
        deviation = np.sqrt(variance)
        constant = deviation <= 1e-12 * np.abs(mean)  # relative to the mean: 1e-13 may be a signal in tesla
        return cls(np.asarray(mean), np.where(constant, 1.0, deviation))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(N, d) in float32. Values that overflow are an error, because NaN would be classified like any other."""
        with np.errstate(over="ignore", invalid="ignore"):
            u = ((x - self.mean) / self.deviation).astype(np.float32)
        if not np.isfinite(u).all():
            n, channel = np.argwhere(~np.isfinite(u))[0]
            value = f"{x[n, channel]:g} in channel {channel}"
            raise BadValue(f"X: expected numbers that float32 can hold when standardised, got {value}")
        return u
