"""Fits of the bank, predictions and features on pandas, Dask, Ray and Spark frames, chosen by the type of the frame.

Frames are long: a row per step, with columns for the series, optionally the time, the target and the groups; all other
columns are channels. The engine moves the rows of a series together, each worker loads the model once, and partial sums
are merged as a tree. Predictions are the same on every engine, to the bit. Needs the extra ``fit``, and ``dask``,
``ray`` or ``spark``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import is_classifier

from unicornn import _checks as checks
from unicornn._engines import Pandas, column_names, engine_of
from unicornn.errors import BadType, BadValue
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor
from unicornn.estimators._parts import SAMPLE, Part, Sample
from unicornn.estimators._series import Series
from unicornn.estimators._sums import Basis, Sums

__all__ = ["features", "fit", "predict"]

MALFORMED = ("raise", "report")


def fit(
    estimator: Any,
    frame: Any,
    target: str,
    *,
    series: str = "series",
    time: str | None = None,
    groups: str | None = None,
    malformed: str = "raise",
    shuffle: bool = True,
    sample: int = SAMPLE,
    max_features: int | None = None,
) -> Any:
    """Fits an estimator to the series in a frame, as ``fit_parts`` does for data larger than the sample; returns it.

    Args:
        estimator: ``UnICORNNClassifier`` or ``UnICORNNRegressor`` with model="bank".
        frame: Long frame of pandas, Dask, Ray Data or Spark.
        target: Column of the targets, constant within a series.
        series: Column of the names of the series.
        time: Column of times, by which the rows of a series are sorted; by default they are in order.
        groups: Column of the groups that folds don't divide.
        malformed: "raise" an error that names the first malformed series, or "report" the malformed series in
            ``about_["malformed"]``, a dictionary of errors by name, and fit the others.
        shuffle: Whether to move the rows of a series to one partition; False if they are there already.
        sample, max_features: As for ``fit_parts``.

    Example:
        >>> import numpy as np, pandas as pd
        >>> from unicornn import distributed
        >>> from unicornn.estimators import UnICORNNRegressor
        >>> x = np.random.default_rng(0).normal(size=(40, 10))
        >>> frame = pd.DataFrame({"series": np.repeat(np.arange(40), 10), "x": x.ravel(), "y": np.repeat(x[:, 0], 10)})
        >>> model = distributed.fit(UnICORNNRegressor(random_state=0), frame, "y", max_features=50)
        >>> list(distributed.predict(model, frame.drop(columns="y")).columns)
        ['series', 'prediction']
    """
    if not isinstance(estimator, (UnICORNNClassifier, UnICORNNRegressor)):
        raise BadType(f"estimator: expected a UnICORNNClassifier or UnICORNNRegressor, got {type(estimator).__name__}")
    estimator._check_settings()
    estimator._check_summable()
    checks.choice("malformed", malformed, MALFORMED)
    most = checks.integer("sample", sample, 2)
    columns = _Columns.from_frame(frame, series, time, target, groups)
    engine = engine_of(frame)
    parts = _together(frame, columns) if shuffle else frame
    reader = _Reader(_reading(estimator), columns, malformed)
    drawn = engine.gather(parts, series, _Draw(reader, most), Sample.merge)
    estimator._fit_sample(drawn.part(), max_features, whole=False)
    empty, estimator.sums_ = estimator.sums_, None
    reader = _Reader(_reading(estimator), columns, malformed)
    added = engine.gather(parts, series, _Add(reader, empty.basis, estimator._outputs(), len(empty.low)), _Added.merge)
    estimator.sums_ = added.sums
    estimator._learn_lengths(added.shortest, added.longest)
    estimator.about_["malformed"] = added.malformed
    estimator._learn_sums()
    return estimator


def predict(
    model: Any,
    frame: Any,
    *,
    series: str = "series",
    time: str | None = None,
    malformed: str = "raise",
    shuffle: bool = True,
) -> Any:
    """A frame of the same engine with a row per series: series, prediction, and p(class) of each class.

    Args:
        model: Fitted estimator.
        frame, series, time, shuffle: As for ``fit``; columns that the model doesn't know are ignored if it knows names.
        malformed: "raise" an error that names a malformed series, or "report" it in a column ``error``, which is empty
            for the others.

    Example:
        >>> import numpy as np, pandas as pd
        >>> from unicornn import distributed
        >>> from unicornn.estimators import UnICORNNRegressor
        >>> x = np.random.default_rng(0).normal(size=(40, 10))
        >>> model = UnICORNNRegressor(random_state=0).fit(x, x[:, 0])
        >>> frame = pd.DataFrame({"series": np.repeat(np.arange(40), 10), "x": x.ravel()})
        >>> distributed.predict(model, frame).shape
        (40, 2)
    """
    schema = {"series": "str", "prediction": "float64"}
    if is_classifier(model):
        kinds = {"i": "int64", "u": "int64", "f": "float64", "b": "bool"}
        schema["prediction"] = kinds.get(model.classes_.dtype.kind, "str")
        schema |= {f"p({name})": "float64" for name in model.classes_}
    return _apply(model, frame, _Columns.known(model, frame, series, time), malformed, shuffle, schema, _predictions)


def features(
    model: Any,
    frame: Any,
    *,
    series: str = "series",
    time: str | None = None,
    malformed: str = "raise",
    shuffle: bool = True,
) -> Any:
    """A frame of the same engine with a row per series: series, and features as a list of numbers.

    Args:
        model: Fitted estimator; ``get_feature_names_out`` names the features.
        frame, series, time, malformed, shuffle: As for ``predict``.

    Example:
        >>> import numpy as np, pandas as pd
        >>> from unicornn import distributed
        >>> from unicornn.estimators import UnICORNNRegressor
        >>> x = np.random.default_rng(0).normal(size=(40, 10))
        >>> model = UnICORNNRegressor(random_state=0).fit(x, x[:, 0])
        >>> frame = pd.DataFrame({"series": np.repeat(np.arange(40), 10), "x": x.ravel()})
        >>> len(distributed.features(model, frame)["features"][0]) == len(model.get_feature_names_out())
        True
    """
    schema = {"series": "str", "features": "list"}
    return _apply(model, frame, _Columns.known(model, frame, series, time), malformed, shuffle, schema, _features)


def _apply(
    model: Any, frame: Any, columns: _Columns, malformed: str, shuffle: bool, schema: dict[str, str], make: Any
) -> Any:
    checks.choice("malformed", malformed, MALFORMED)
    schema |= {"error": "str"} if malformed == "report" else {}
    parts = _together(frame, columns) if shuffle else frame
    work = _Map(_Reader(_reading(model), columns, malformed), schema, make)
    return engine_of(frame).map(parts, columns.series, work, schema)


def _reading(estimator: Any) -> Any:
    """A copy for workers, which reads series (N, d), and whose ridge regression is solved."""
    own = copy.copy(estimator)
    if own.sums_ is not None:
        own._ridge = estimator._ridge
    own.sums_, own.layout, own.verbose = None, "channels_last", False
    return own


def _together(frame: Any, columns: _Columns) -> Any:
    """The frame with all rows of a series in one partition."""
    engine = engine_of(frame)
    if columns.time is None and not isinstance(engine, Pandas):
        raise BadValue("time: expected the column by which rows are sorted after they were moved, got None")
    return engine.together(frame, columns.series)


# What workers do with frames of whole series


@dataclass
class _Columns:
    """Names of a frame's columns by role."""

    series: str
    time: str | None
    channels: list[str]
    target: str | None = None
    groups: str | None = None

    @classmethod
    def from_frame(cls, frame: Any, series: str, time: str | None, target: str | None, groups: str | None) -> _Columns:
        there = column_names(frame)
        roles = {"series": series, "time": time, "target": target, "groups": groups}
        for role, name in roles.items():
            if name is not None and name not in there:
                raise BadValue(f"{role}: expected a column of the frame, one of {', '.join(there)}, got {name!r}")
        channels = [name for name in there if name not in roles.values()]
        if not channels:
            raise BadValue("frame: expected columns of channels besides series, time and target, got none")
        return cls(series, time, channels, target, groups)

    @classmethod
    def known(cls, model: Any, frame: Any, series: str, time: str | None) -> _Columns:
        """The columns that a model was fitted to."""
        found = cls.from_frame(frame, series, time, None, None)
        names = model.channel_names_
        if names is None:
            return found
        if missing := [name for name in names if name not in found.channels]:
            raise BadValue(f"frame: expected columns {names} as in fit, got none named {missing[0]!r}")
        return cls(series, time, names)


@dataclass
class _Reader:
    """Reads the series in a pandas frame."""

    estimator: Any
    columns: _Columns
    malformed: str

    def read(self, frame: pd.DataFrame) -> tuple[dict[str, np.ndarray], list[tuple[Any, Any]], dict[str, str]]:
        """The valid series in order of their names, their targets and groups, and the errors of malformed series."""
        series, labels, errors = {}, [], {}
        if frame[self.columns.series].isna().any():
            raise BadValue(f"series: expected a name in every row of column {self.columns.series!r}, got none")
        codes, different = pd.factorize(frame[self.columns.series].astype(str), sort=True)
        order, ends = np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes, minlength=len(different)))
        for name, end, count in zip(map(str, different), ends, np.diff(ends, prepend=0), strict=True):
            try:
                x, label = self._one(frame.iloc[order[end - count : end]])
            except (BadValue, BadType) as error:
                if self.malformed == "raise":
                    raise BadValue(f"frame: series {name!r}: {error}") from error
                errors[name] = str(error)
                continue
            series[name] = x
            labels.append(label)
        return series, labels, errors

    def part(self, frame: pd.DataFrame) -> tuple[list[str], Part | None, dict[str, str]]:
        """Names of the valid series, the series with targets, and the errors of malformed series."""
        series, labels, errors = self.read(frame)
        if not series:
            return [], None, errors
        read = replace(self.estimator._read(list(series.values())), channels=self.columns.channels)
        y, groups = (np.array(each) for each in zip(*labels, strict=True))
        return list(series), Part(read, y, groups if self.columns.groups else None), errors

    def _one(self, rows: pd.DataFrame) -> tuple[np.ndarray, tuple[Any, Any]]:
        """A series (N, d), and its target and group."""
        if self.columns.time is not None:
            rows = rows.sort_values(self.columns.time, kind="stable")
            times = rows[self.columns.time]
            if times.isna().any() or times.duplicated().any():
                raise BadValue("time: expected each time once, got one twice or missing")
        try:
            x = rows[self.columns.channels].to_numpy(np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise BadValue(f"X: expected numbers: {error}") from error
        self.estimator._read([x])
        labels = [self._label(rows[name]) if name else None for name in (self.columns.target, self.columns.groups)]
        if labels[0] is not None:
            self.estimator._check_y([labels[0]])
        return x, (labels[0], labels[1])

    def _label(self, values: pd.Series) -> Any:
        first = values.iloc[0]
        if pd.isna(first) or not (values == first).all():
            raise BadValue(f"{values.name}: expected one value for all rows, got several or none")
        return first


@dataclass
class _Draw:
    """The sample of a partition."""

    reader: _Reader
    most: int

    def __call__(self, frames: Iterable[pd.DataFrame]) -> Sample:
        sample = Sample(self.most, is_classifier(self.reader.estimator))
        for frame in frames:
            names, part, _ = self.reader.part(frame)
            if part is not None:
                sample.add(part, names)
        return sample


class _Added(NamedTuple):
    """The sums of some partitions, the lengths of their series, and the malformed ones."""

    sums: Sums
    shortest: int
    longest: int
    malformed: dict[str, str]

    def merge(self, other: _Added) -> _Added:
        """Over the series of both."""
        shortest, longest = min(self.shortest, other.shortest), max(self.longest, other.longest)
        return _Added(self.sums + other.sums, shortest, longest, self.malformed | other.malformed)


@dataclass
class _Add:
    """What a partition adds."""

    reader: _Reader
    basis: Basis
    k: int
    folds: int

    def __call__(self, frames: Iterable[pd.DataFrame]) -> _Added:
        estimator = copy.copy(self.reader.estimator)
        estimator.sums_ = Sums.empty(self.basis, self.k, self.folds)
        estimator.about_ = {"shortest": 1 << 62, "longest": 0}
        malformed: dict[str, str] = {}
        for frame in frames:
            _, part, errors = self.reader.part(frame)
            malformed |= errors
            if part is not None:
                estimator._add_part(part)
        return _Added(estimator.sums_, **estimator.about_, malformed=malformed)


@dataclass
class _Map:
    """A table with a row per series of each frame, with the columns of a schema."""

    reader: _Reader
    schema: dict[str, str]
    make: Callable[[Any, Series], dict[str, Any]]

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        series, _, errors = self.reader.read(frame)
        found = pd.DataFrame({"series": list(series)})
        if series:
            for name, values in self.make(self.reader.estimator, list(series.values())).items():
                found[name] = values
        if errors:
            rejected = pd.DataFrame({"series": list(errors), "error": list(errors.values())})
            found = pd.concat([found, rejected], ignore_index=True)
        return _typed(found.reindex(columns=list(self.schema)), self.schema)


def _predictions(model: Any, series: Series) -> dict[str, Any]:
    if not is_classifier(model):
        return {"prediction": model.predict(series)}
    probabilities = model.predict_proba(series)
    columns = {f"p({name})": column for name, column in zip(model.classes_, probabilities.T, strict=True)}
    return {"prediction": model.classes_[probabilities.argmax(1)], **columns}


def _features(model: Any, series: Series) -> dict[str, Any]:
    return {"features": list(model.transform(series))}


def _typed(table: pd.DataFrame, schema: dict[str, str]) -> pd.DataFrame:
    """With the column types of a schema; integers and logical values with gaps stay as they are."""
    kinds = {"str": "object", "list": "object"}
    for name, kind in schema.items():
        if kind == "str":
            table[name] = table[name].astype(object).where(table[name].notna(), None)
        elif not table[name].isna().any():
            table[name] = table[name].astype(kinds.get(kind, kind))
    return table
