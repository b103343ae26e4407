"""What users have, as a list of series (N_i, d): arrays, lists of arrays, data frames; and what is missing in them."""

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
SWAPPED = 4  # a warning is due when there are so many times more channels than steps

Series = list[np.ndarray]


@contextmanager
def naming(name: str) -> Iterator[None]:
    """What scikit-learn and numpy complain about within becomes one of our errors, which names the argument.

    Example:
        >>> from unicornn.estimators._series import naming
        >>> with naming("y"):
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
    """The series in X, each (N_i, d) of floating-point numbers, without missing values.

    Args:
        X: an array (n, N) or (n, N, d); a list of arrays or DataFrames (N_i,) or (N_i, d), or an array of objects that
            holds them; or a DataFrame whose index has two levels, series and time, and whose columns are the channels.
        layout: "channels_last", or "channels_first" for arrays (n, d, N) and lists of (d, N_i).
        missing: "error" raises an error that names the first missing value; "mask" fills gaps with the last value
            seen and adds, for each channel, one that is 1 where it is missing and one with the time since it was seen.

    Example:
        >>> import numpy as np
        >>> from unicornn.estimators._series import as_series
        >>> [x.shape for x in as_series([np.zeros(5), np.zeros(3)])]
        [(5, 1), (3, 1)]
    """
    checks.choice("layout", layout, LAYOUTS)
    checks.choice("missing", missing, MISSING)
    with naming("X"):
        series, swap = _split(X, layout == "channels_first")
    if swap:
        series = [x.T for x in series]
    _same_channels(series)
    _look_at_axes(series, layout)
    if missing == "error":
        _refuse_missing(series)
        return series
    _refuse_infinite(series)
    return [_with_mask(x) for x in series]


def _split(X: Any, channels_first: bool) -> tuple[Series, bool]:
    """The series as they lie in X, and whether their axes are still to be swapped."""
    if isinstance(X, (list, tuple)) and not X:
        raise BadValue("X: expected at least one series, got none")
    if _framed(X):
        return _from_frame(X), False
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1 and len(X) and all(map(np.ndim, X)):
        X = list(X)
    if isinstance(X, (list, tuple)) and _is_a_list_of_series(X):
        if not channels_first:
            _same_columns(X)
        return [_one(x, i) for i, x in enumerate(X)], channels_first and np.ndim(X[0]) == 2
    array = check_array(_unmasked(X), dtype="numeric", allow_nd=True, ensure_all_finite=False, input_name="X")
    if array.ndim > 3:
        raise BadValue(f"X: expected an array of shape (n, N) or (n, N, d), got {array.shape}")
    if array.ndim == 3 and 0 in array.shape:
        raise BadValue(f"X: expected at least one series, step and channel, got shape {array.shape}")
    array = _floating(array)
    return list(array[:, :, None] if array.ndim == 2 else array), channels_first and array.ndim == 3


def _is_a_list_of_series(X: Sequence[Any]) -> bool:
    """Not a list of rows of numbers, which is an array (n, N), unless the rows are of different lengths."""
    if all(hasattr(x, "shape") and len(x.shape) in (1, 2) for x in X):
        return True
    rows = [x for x in X if isinstance(x, (list, tuple))]
    return len(rows) == len(X) and len({len(x) for x in rows}) > 1


def _unmasked(x: Any) -> Any:
    """With NaN where numpy's mask says that there is nothing: what lies below the mask is not data."""
    return np.ma.filled(x.astype(np.float64), np.nan) if isinstance(x, np.ma.MaskedArray) else x


def _floating(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "fiub":
        raise BadType(f"X: expected an array of numbers, got {array.dtype}")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _one(x: Any, i: int) -> np.ndarray:
    array = np.asarray(_unmasked(x))
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


def _from_frame(X: Any) -> Series:
    """One series for each value of the first level of the index, in the order of appearance; times must ascend."""
    ids = X.index.get_level_values(0)
    times = X.index.get_level_values(1)
    if not len(X):
        raise BadValue("X: expected at least one series, got an empty DataFrame")
    codes, names = ids.factorize()
    if (codes < 0).any():
        raise BadValue("X: expected a name for every series in the index, got missing ones")
    values = X.to_numpy(dtype=np.float64, na_value=np.nan)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))
    series = []
    for name, rows in zip(names, np.split(order, ends[:-1]), strict=True):
        own = times[rows]
        if own.has_duplicates:
            raise BadValue(f"X: expected each time once, got {own[own.duplicated()][0]} twice in series {name!r}")
        if not own.is_monotonic_increasing:
            raise BadValue(f"X: expected ascending times, got others in series {name!r}; sort by the index first")
        series.append(values[rows])
    return series


def plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with NumPy's numbers, as a search draws them, as Python's own."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}


def channel_names(X: Any, layout: str = "channels_last") -> list[str] | None:
    """The columns of a DataFrame of series, or of a list of DataFrames where these are text; None of what has no
    names."""
    if _framed(X):
        return [str(column) for column in X.columns]
    listed = isinstance(X, (list, tuple, np.ndarray)) and len(X) and layout == "channels_last"
    return _columns(X[0]) if listed else None


def _columns(x: Any) -> list[str] | None:
    names = list(getattr(x, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def _same_columns(X: Sequence[Any]) -> None:
    first = _columns(X[0])
    for i, x in enumerate(X):
        if _columns(x) != first:
            raise BadValue(f"X[{i}]: expected columns {first} as in the first series, got {_columns(x)}")


def named(features: np.ndarray, X: Any, estimator: Any) -> Any:
    """What ``transform`` found in X, in a DataFrame with the names of the series where scikit-learn would take the
    index of X, which has a row for each step."""
    if not _framed(X) or _get_output_config("transform", estimator)["dense"] != "pandas":
        return features
    import pandas as pd

    return pd.DataFrame(features, index=X.index.get_level_values(0).unique())


def in_order(name: str, values: Any, X: Any) -> None:
    """Refuses what has the names of the series for its index, but in another order: pandas would put it in order, and
    without an index it would be right."""
    index: Any = getattr(values, "index", None)
    if not _framed(X) or not hasattr(index, "equals"):
        return
    names = X.index.get_level_values(0).unique()
    if not index.equals(names) and len(index) == len(names) and index.isin(names).all():
        first = int(np.argmax(index != names))
        raise BadValue(
            f"{name}: expected the order of the series in X, got {index[first]!r} for series {names[first]!r}; use "
            f"{name}.loc[X.index.get_level_values(0).unique()]"
        )


def _framed(X: Any) -> bool:
    return getattr(getattr(X, "index", None), "nlevels", 1) == 2


def same_channels(X: Any, series: Series, names: list[str] | None, d: int, layout: str) -> None:
    """Refuses series whose channels are not those of fit, by their names where both have them."""
    found = channel_names(X, layout)
    if names is not None and found is not None and found != names:
        raise BadValue(f"X: expected columns {names} as in fit, got {found}")
    if series[0].shape[1] != d:
        raise BadValue(f"X: expected {d} channels as in fit, got {series[0].shape[1]}")


def _same_channels(series: Series) -> None:
    d = series[0].shape[1]
    for i, x in enumerate(series):
        if x.shape[1] != d:
            raise BadValue(f"X[{i}]: expected {d} channels as in the first series, got {x.shape[1]}")


def _look_at_axes(series: Series, layout: str) -> None:
    longest, d = max(len(x) for x in series), series[0].shape[1]
    if d > SWAPPED * longest:
        other = "channels_last" if layout == "channels_first" else "channels_first"
        warnings.warn(
            f"X: {d} channels of at most {longest} steps look as if the axes were swapped; nothing was changed. If "
            f"they are, use layout={other!r}",
            stacklevel=5,
        )


def _refuse_missing(series: Series) -> None:
    for i, x in enumerate(series):
        if not np.isfinite(x).all():
            n, channel = np.argwhere(~np.isfinite(x))[0]
            what = "NaN" if np.isnan(x[n, channel]) else "inf (infinity)"
            hint = "; missing='mask' accepts missing values" if what == "NaN" else ""
            raise BadValue(f"X: expected finite numbers, got {what} in series {i} at step {n}, channel {channel}{hint}")


def _refuse_infinite(series: Series) -> None:
    for i, x in enumerate(series):
        if np.isinf(x).any():
            n, channel = np.argwhere(np.isinf(x))[0]
            raise BadValue(f"X: expected numbers or NaN, got inf in series {i} at step {n}, channel {channel}")


def _with_mask(x: np.ndarray) -> np.ndarray:
    """(N, d) to (N, 3d): the last value seen (the first one, before it; 0 if there is none), 1 where it is missing, and
    log(1 + steps since it was seen)."""
    N = len(x)
    gone = np.isnan(x)
    steps = np.arange(N)[:, None]
    seen = np.maximum.accumulate(np.where(gone, -1, steps), axis=0)
    first = np.where(gone.all(0), 0, (~gone).argmax(0))
    filled = np.take_along_axis(x, np.where(seen < 0, first, seen), axis=0)
    since = np.log1p(steps - np.where(seen < 0, -1, seen))
    return np.concatenate([np.nan_to_num(filled), gone.astype(x.dtype), since.astype(x.dtype)], axis=1)


class Scaling:
    """Channels standardised by the training set; a constant channel is 0.

    Example:
        >>> import numpy as np
        >>> from unicornn.estimators._series import Scaling
        >>> Scaling.of([np.array([[1.0], [3.0]])])(np.array([[5.0]]))
        array([[3.]], dtype=float32)
    """

    def __init__(self, mean: np.ndarray, deviation: np.ndarray) -> None:
        self.mean, self.deviation = mean, deviation

    @classmethod
    def of(cls, series: Series) -> Scaling:
        count = sum(len(x) for x in series)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = sum(x.sum(0, dtype=np.float64) for x in series) / count
            square = sum(((x - mean) ** 2).sum(0, dtype=np.float64) for x in series) / count
        if not np.isfinite(square).all():
            channel = int(np.isfinite(square).argmin())
            raise BadValue(f"X: expected numbers whose squares are finite, got larger ones in channel {channel}")
        deviation = np.sqrt(square)
        tiny = deviation <= 1e-12 * np.abs(mean)  # rounding; about a mean of 0, currents in ampere may be as small
        return cls(np.asarray(mean), np.where(tiny, 1.0, deviation))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(N, d) in float32. Numbers beyond its range are an error, for what is not finite would pass for a class."""
        with np.errstate(over="ignore", invalid="ignore"):
            u = ((x - self.mean) / self.deviation).astype(np.float32)
        if not np.isfinite(u).all():
            n, channel = np.argwhere(~np.isfinite(u))[0]
            value = f"{x[n, channel]:g} in channel {channel}"
            raise BadValue(f"X: expected numbers that float32 can hold when standardised, got {value}")
        return u
