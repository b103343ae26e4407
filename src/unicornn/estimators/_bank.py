"""OscillatorBank: features of time series from untrained oscillators; what Rocket is to convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue
from unicornn.estimators._oscillators import Oscillators, parts
from unicornn.estimators._pooling import names, pooled
from unicornn.estimators._series import Scaling, Series, as_series, channel_names, named, naming, plain, same_channels
from unicornn.estimators._summaries import NAMES, summaries

SAMPLE = 4096  # windows, from which the levels of an octave are taken
KINDS = ("oscillators", "pairs", "summaries")  # of features


class OscillatorBank(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Features of time series of any length, from untrained layers of oscillators over windows of all octaves.

    Each series is cut into overlapping windows of 8, 16, 32, … N steps. For each octave there are four layers, with
    time scales spread from the start, which run over every window from rest. They hear different things: the
    series as it is, what a window deviates from its mean, the increments, and the increments of the series standardised
    by itself. The first three hear long windows at a slow pace, as averages.

    The logarithms of the oscillators' energies (Eq. (4) without input) at the windows' ends are pooled over each
    series: mean, largest, smallest, deviation, the share above some quantiles of the training set, how often the
    median is crossed from one window to the next, and the trend along the series. Where the sign may matter, so are
    mean, largest and smallest y. Several channels have two more layers, of pairs of equal oscillators that hear one
    channel each: their angular momentum says which of the two channels leads. Thirteen plain numbers about every
    channel, such as its mean and its last value, come last. A linear model does the rest. No gradient is computed, and
    memory beyond the features does not grow with the length.

    Args:
        n_oscillators: m, of each of an octave's layers.
        smallest_window: of how many steps; each octave doubles it, up to the longest series of the training set.
        overlap: windows of W steps begin every W / overlap steps; those of few steps, half as often.
        quantiles: of the training set's values; the share of windows above each of them is a feature.
        layout: "channels_last", or "channels_first" for arrays (n, d, N).
        missing: "error", or "mask" to accept missing values, NaN.
        random_state: of the oscillators.

    Attributes:
        windows_: the windows' lengths.
        n_channels_: d, of the series.
        channel_names_: the columns, if X was a DataFrame with an index (series, time) or a list of them, else None.
        n_features_in_: N of a training array (n, N), or d. Series of other lengths are transformed all the same.

    Example:
        >>> import numpy as np
        >>> from unicornn.estimators import OscillatorBank
        >>> from sklearn.linear_model import RidgeClassifierCV
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> rng = np.random.default_rng(0)
        >>> pitch = np.repeat([0.2, 0.3], 20)
        >>> X = [np.sin(f * np.arange(rng.integers(60, 100)) + rng.uniform(0, 6)) for f in pitch]
        >>> model = make_pipeline(OscillatorBank(random_state=0), StandardScaler(), RidgeClassifierCV())
        >>> model.fit(X[::2], pitch[::2] > 0.25).score(X[1::2], pitch[1::2] > 0.25)
        1.0
    """

    def __init__(
        self,
        n_oscillators: int = 32,
        *,
        smallest_window: int = 8,
        overlap: int = 8,
        quantiles: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95),
        layout: str = "channels_last",
        missing: str = "error",
        random_state: Any = None,
    ) -> None:
        self.n_oscillators = n_oscillators
        self.smallest_window = smallest_window
        self.overlap = overlap
        self.quantiles = quantiles
        self.layout = layout
        self.missing = missing
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draws the oscillators, and takes scales and levels from X; see ``as_series`` for its forms. y is not used."""
        series = as_series(X, self.layout, self.missing)
        self._fit_series(series)
        self.n_features_in_, self.channel_names_ = features_in(X, series), channel_names(X, self.layout)
        return self

    def _fit_series(self, series: Series) -> Self:
        """The same for series that ``as_series`` has read."""
        given = plain(self.get_params(deep=False))
        m = checks.integer("n_oscillators", given["n_oscillators"], 1)
        least = checks.integer("smallest_window", given["smallest_window"], 1)
        overlap = checks.integer("overlap", given["overlap"], 1)
        if not isinstance(self.quantiles, (list, tuple, np.ndarray)):
            raise BadType(f"quantiles: expected a sequence of numbers, got {checks.describe(self.quantiles)}")
        with naming("quantiles"):
            quantiles = np.asarray(self.quantiles, dtype=np.float64)
        if quantiles.ndim != 1 or not ((quantiles > 0) & (quantiles < 1)).all():
            raise BadValue(f"quantiles: expected numbers between 0 and 1, got {self.quantiles!r}")
        with naming("random_state"):
            random = check_random_state(self.random_state)
        self.n_channels_, self.channel_names_ = series[0].shape[1], None
        self._scaling = Scaling.of(series)
        series = [self._scaling(x) for x in series]
        longest = max(len(x) for x in series)
        channels = np.flatnonzero([any(x[:, i].any() for x in series) for i in range(self.n_channels_)])  # not constant
        found = parts(longest, least, overlap, len(channels) > 1)
        self.windows_ = sorted({min(part.W * part.pace, longest) for part in found if part.hears == "own"})
        drawn = (
            Oscillators.draw_pairs(part, m, series, channels, random)
            if part.pairs
            else Oscillators.draw(part, m, series, random)
            for part in found
        )
        self._layers = [self._with_levels(layer, series, random) for layer in drawn]
        self._summaries = True
        return self

    def transform(self, X: Any) -> Any:
        """Features (n, len(windows_) · m · (30 + 4 q) + 13 d) in float32, with q quantiles; of several channels
        len(windows_) · 4 (m // 2) · (5 + q) more."""
        check_is_fitted(self)
        series = as_series(X, self.layout, self.missing)
        same_channels(X, series, self.channel_names_, self.n_channels_, self.layout)
        return named(self._transform_series(series), X, self)

    def _transform_series(self, series: Series) -> np.ndarray:
        """The same for series that ``as_series`` has read."""
        series = [self._scaling(x) for x in series]
        # A layer's work is many small steps, which torch's threads would not share: each thread takes whole layers.
        threads = torch.get_num_threads()
        try:
            with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as workers:
                found = list(workers.map(lambda layer: pooled(series, layer), self._layers))
        finally:
            torch.set_num_threads(threads)
        return np.concatenate(found + ([summaries(series)] if self._summaries else []), 1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names such as "w8_moves_logE0_mean": window, what is heard, quantity and oscillator, what is pooled; and
        "channel0_median" of the summaries."""
        check_is_fitted(self)
        quantiles = [float(q) for q in self.quantiles]
        found = [
            f"w{min(layer.part.W * layer.part.pace, self.windows_[-1])}_{layer.part.hears}_{name}"
            for layer in self._layers
            for name in names(layer, quantiles)
        ]
        if self._summaries:
            found += [f"channel{i}_{name}" for name in NAMES for i in range(self.n_channels_)]
        return np.asarray(found, dtype=object)

    def _kinds(self) -> np.ndarray:
        """The kind of each feature, as its place in KINDS: (p,)."""
        sizes = [(int(layer.part.pairs), len(names(layer, list(self.quantiles)))) for layer in self._layers]
        sizes.append((2, len(NAMES) * self.n_channels_ if self._summaries else 0))
        return np.repeat([kind for kind, _ in sizes], [size for _, size in sizes])

    def _with_levels(self, layer: Oscillators, series: Series, random: np.random.RandomState) -> Oscillators:
        """With quantiles (q, F) and median (F,), a little moved: a value that lies on one would be above it or not by
        its rounding."""
        states = layer.sampled(series, SAMPLE, random)
        quantiles = np.asarray([*self.quantiles, 0.5], dtype=np.float64)
        levels = (np.quantile(states, quantiles, axis=0) + 1e-4 * states.std(0)).astype(np.float32)
        return layer._replace(levels=levels[:-1], middle=levels[-1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing == "mask"
        tags.transformer_tags.preserves_dtype = []
        return tags


def features_in(X: Any, series: Series) -> int:
    """As scikit-learn counts them: the columns of a table, else the channels."""
    columns = getattr(X, "ndim", 0) == 2 and getattr(getattr(X, "index", None), "nlevels", 1) == 1
    return int(X.shape[1]) if columns else series[0].shape[1]
