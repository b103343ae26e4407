"""The base class of the bank and of the estimators: reads series, checks their channels, sets the number of threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unicornn import _checks as checks
from unicornn.estimators._series import (
    Series,
    as_series,
    builtin_numbers,
    channel_names,
    check_channels,
    features_in,
    with_series_index,
)


# The fields of these data classes are scikit-learn's constructor arguments: __init__ stores them unchanged.
@dataclass(eq=False, repr=False, kw_only=True)
class SeriesTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer of time series; see ``OscillatorBank`` for the arguments."""

    layout: str = "channels_last"
    missing: str = "error"
    random_state: Any = None
    n_jobs: int | None = None

    def _features(self, series: Series) -> np.ndarray:
        """Features (n, k) of series that ``as_series`` has read."""
        raise NotImplementedError

    def transform(self, X: Any) -> Any:
        """Features of the series, (n, k) in float32; ``get_feature_names_out`` names them."""
        series = self._read_known(X)
        with self._threads():
            return with_series_index(self._features(series), X, self)

    def _settings(self) -> dict[str, Any]:
        return builtin_numbers(self.get_params(deep=False))

    def _read(self, X: Any) -> Series:
        return as_series(X, self.layout, self.missing)

    def _read_known(self, X: Any) -> Series:
        """Series with the channels of ``fit``."""
        check_is_fitted(self)
        series = as_series(X, self.layout, self.missing)
        check_channels(X, series, self.channel_names_, self.n_channels_, self.layout)
        return series

    def _learn_channels(self, X: Any, series: Series) -> None:
        self.n_features_in_, self.n_channels_ = features_in(X, series), series[0].shape[1]
        self.channel_names_ = channel_names(X, self.layout)

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
