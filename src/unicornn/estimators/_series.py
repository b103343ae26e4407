"""Converts the accepted forms of X (arrays, lists of arrays, data frames) to a list of series (N_i, d)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils._set_output import _get_output_config

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue, UnicornnError

LAYOUTS = ("channels_last", "channels_first")
MISSING = ("error", "mask")
SUSPICIOUS_RATIO = 4  # of channels to steps, above which the axes look swapped

Series = list[np.ndarray]


@contextmanager
def naming_errors(name: str) -> Iterator[None]:
    """Converts errors of scikit-learn and NumPy to ours, which name the argument.

    Example:
        >>> from unicornn.estimators._series import naming_errors
        >>> with naming_errors("y"):
        ...     float("x")
        Traceback (most recent call last):
            ...
        unicornn.errors.BadValue: y: could not convert string to float: 'x'
    """
    try:
        yield
    except UnicornnError:
        raise
    except TypeError as error:
        raise BadType(f"{name}: {error}") from error
    except (ValueError, OverflowError, LookupError, RuntimeError) as error:
        raise BadValue(f"{name}: {error}") from error


def as_series(X: Any, layout: str = "channels_last", missing: str = "error") -> Series:
    """Returns the series in X, each (N_i, d) of floating-point numbers without missing values.

    Args:
        X: Array (n, N) or (n, N, d); list (or array of objects) of arrays or DataFrames (N_i,) or (N_i, d); or
            DataFrame whose index has two levels, series and time, and whose columns are the channels.
        layout: "channels_last", or "channels_first" for arrays (n, d, N) and lists of (d, N_i).
        missing: "error" raises an error that names the first missing value. "mask" repeats the last observed value and
            adds two channels per channel: 1 where it is missing, and the time since it was last observed.

    Example:
        >>> import numpy as np
        >>> from unicornn.estimators._series import as_series
        >>> [x.shape for x in as_series([np.zeros(5), np.zeros(3)])]
        [(5, 1), (3, 1)]
    """
    checks.choice("layout", layout, LAYOUTS)
    checks.choice("missing", missing, MISSING)
    with naming_errors("X"):
        series = _split(X, layout == "channels_first")
    d = series[0].shape[1]
    for i, x in enumerate(series):
        if x.shape[1] != d:
            raise BadValue(f"X[{i}]: expected {d} channels as in the first series, got {x.shape[1]}")
    _warn_if_axes_look_swapped(series, layout)
    _check_finite(series, nan_allowed=missing == "mask")
    return [_with_mask(x) for x in series] if missing == "mask" else series


def _split(X: Any, channels_first: bool) -> Series:
    if isinstance(X, (list, tuple)) and not X:
        raise BadValue("X: expected at least one series, got none")
    if _is_long_frame(X):
        return _from_long_frame(X)
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1 and len(X) and all(map(np.ndim, X)):
        X = list(X)
    if isinstance(X, (list, tuple)) and _is_list_of_series(X):
        if not channels_first:
            _check_same_columns(X)
        series = [_one_series(x, i) for i, x in enumerate(X)]
        return [x.T for x in series] if channels_first and np.ndim(X[0]) == 2 else series
    array = check_array(_fill_masked(X), dtype="numeric", allow_nd=True, ensure_all_finite=False, input_name="X")
    if array.ndim > 3:
        raise BadValue(f"X: expected an array of shape (n, N) or (n, N, d), got {array.shape}")
    if array.ndim == 3 and 0 in array.shape:
        raise BadValue(f"X: expected at least one series, step and channel, got shape {array.shape}")
    array = _floating(array)
    if array.ndim == 2:
        return list(array[:, :, None])
    return list(array.swapaxes(1, 2) if channels_first else array)


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
    array = np.asarray(_fill_masked(x))
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


def _is_long_frame(X: Any) -> bool:
    """Whether X is a DataFrame with an index (series, time)."""
    return getattr(getattr(X, "index", None), "nlevels", 1) == 2


def _from_long_frame(X: Any) -> Series:
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
    return series


def builtin_numbers(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with NumPy scalars, which a hyper-parameter search may draw, converted to Python numbers."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}


def features_in(X: Any, series: Series) -> int:
    """The number of features as scikit-learn counts them: the columns of a table, otherwise the channels."""
    is_table = getattr(X, "ndim", 0) == 2 and not _is_long_frame(X)
    return int(X.shape[1]) if is_table else series[0].shape[1]


def channel_names(X: Any, layout: str = "channels_last") -> list[str] | None:
    """The columns of a long DataFrame, or of a list of DataFrames if they are strings; None without names."""
    if _is_long_frame(X):
        return [str(column) for column in X.columns]
    listed = isinstance(X, (list, tuple, np.ndarray)) and len(X) and layout == "channels_last"
    return _string_columns(X[0]) if listed else None


def _string_columns(x: Any) -> list[str] | None:
    names = list(getattr(x, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def _check_same_columns(X: Sequence[Any]) -> None:
    first = _string_columns(X[0])
    for i, x in enumerate(X):
        if _string_columns(x) != first:
            raise BadValue(f"X[{i}]: expected columns {first} as in the first series, got {_string_columns(x)}")


def check_channels(X: Any, series: Series, names: list[str] | None, d: int, layout: str) -> None:
    """Raises an error if the channels differ from those of ``fit``, by name where both have names."""
    got = channel_names(X, layout)
    if names is not None and got is not None and got != names:
        raise BadValue(f"X: expected columns {names} as in fit, got {got}")
    if series[0].shape[1] != d:
        raise BadValue(f"X: expected {d} channels as in fit, got {series[0].shape[1]}")


def check_series_order(name: str, values: Any, X: Any) -> None:
    """Raises an error if ``values`` is indexed by the series of a long DataFrame, but in a different order.

    pandas would align the two; we use positions, so a different order would silently pair the wrong rows.
    """
    index: Any = getattr(values, "index", None)
    if not _is_long_frame(X) or not hasattr(index, "equals"):
        return
    names = X.index.get_level_values(0).unique()
    if not index.equals(names) and len(index) == len(names) and index.isin(names).all():
        first = int(np.argmax(index != names))
        raise BadValue(
            f"{name}: expected the order of the series in X, got {index[first]!r} for series {names[first]!r}; use "
            f"{name}.loc[X.index.get_level_values(0).unique()]"
        )


def with_series_index(features: np.ndarray, X: Any, estimator: Any) -> Any:
    """Features of a long DataFrame X, indexed by series if pandas output is configured.

    scikit-learn itself would use the index of X, which has one row per step.
    """
    if not _is_long_frame(X) or _get_output_config("transform", estimator)["dense"] != "pandas":
        return features
    import pandas as pd

    return pd.DataFrame(features, index=X.index.get_level_values(0).unique())


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


class Scaling:
    """Standardises channels by the mean and deviation (d,) of the training set; a constant channel becomes 0.

    Example:
        >>> import numpy as np
        >>> from unicornn.estimators._series import Scaling
        >>> Scaling.fit([np.array([[1.0], [3.0]])])(np.array([[5.0]]))
        array([[3.]], dtype=float32)
    """

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
