"""The base class of the bank and of the estimators: reads series, checks their channels, sets the number of threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from unicornn import _checks as checks
from unicornn.errors import BadValue
from unicornn.estimators._series import Series, SeriesSet, read_series, scale_each


# The fields of these data classes are scikit-learn's constructor arguments: __init__ stores them unchanged.
@dataclass(eq=False, repr=False, kw_only=True)
class SeriesTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer of time series; see ``OscillatorBank`` for the arguments."""

    layout: str = "channels_last"
    missing: str = "error"
    random_state: Any = None
    n_jobs: int | None = None

    scale_ = "dataset"  # or "series": how series are scaled; without an annotation, so it is no argument

    def _features(self, series: Series) -> np.ndarray:
        """Features (n, k) of series that ``read_series`` has read."""
        raise NotImplementedError

    def transform(self, X: Any) -> Any:
        """Features of the series, (n, k) in float32; ``get_feature_names_out`` names them."""
        read = self._read_known(X)
        with self._threads():
            features = self._features(read.series)
        if read.names is None or _get_output_config("transform", self)["dense"] != "pandas":
            return features
        import pandas as pd

        return pd.DataFrame(features, index=read.names)  # scikit-learn would use the index of X, a row per step

    def _settings(self) -> dict[str, Any]:
        """The constructor arguments; NumPy scalars, which a search may draw, as Python numbers."""
        given = self.get_params(deep=False)
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}

    def _read(self, X: Any) -> SeriesSet:
        return read_series(X, self.layout, self.missing)

    def _read_known(self, X: Any) -> SeriesSet:
        """Series with the channels of ``fit``, scaled."""
        check_is_fitted(self)
        read = read_series(X, self.layout, self.missing)
        self._check_channels(read)
        return replace(read, series=self._scaled(read.series, self.scale_))

    def _scaled(self, series: Series, scale: str) -> Series:
        """Series, individually standardised with scale="series", except for the channels of missing="mask"."""
        d = series[0].shape[1]
        return series if scale == "dataset" else scale_each(series, d // 3 if self.missing == "mask" else d)

    def _check_channels(self, read: SeriesSet) -> None:
        """Raises an error if the channels differ from those of ``fit``, by name where both have names."""
        known = self.channel_names_
        if known is not None and read.channels is not None and read.channels != known:
            raise BadValue(f"X: expected columns {known} as in fit, got {read.channels}")
        if read.d != self.n_channels_:
            raise BadValue(f"X: expected {self.n_channels_} channels as in fit, got {read.d}")

    def _learn_channels(self, read: SeriesSet) -> None:
        self.n_channels_, self.channel_names_ = read.d, read.channels
        self.n_features_in_ = read.n_columns or read.d  # as scikit-learn counts them

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """Sets torch's number of threads to ``n_jobs`` within the block, at most one per processor."""
        n_jobs = self._settings()["n_jobs"]
        if n_jobs is None:
            yield
            return
        processors, before = os.cpu_count() or 1, torch.get_num_threads()
        every = type(n_jobs) is int and n_jobs == -1
        torch.set_num_threads(processors if every else min(checks.integer("n_jobs", n_jobs, 1), processors))
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing == "mask"
        tags.transformer_tags.preserves_dtype = []
        return tags
