"""OscillatorBank: features of time series from untrained oscillators; what Rocket is to convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue
from unicornn.estimators._oscillators import POOLS, Oscillators, pooled, sampled
from unicornn.estimators._series import Scaling, Series, as_series, naming, plain

SAMPLE = 4096  # windows, from which the levels of an octave are taken


class OscillatorBank(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Features of time series of any length, from untrained layers of oscillators over windows of all octaves.

    Each series is cut into overlapping windows of 8, 16, 32, … N steps. A layer of its own for each octave, with time
    scales spread from the start, runs over every window from rest. Its y and z and the logarithms of its energies
    (eq:hamil without input) at the windows' ends are pooled over each series: mean, largest, smallest, deviation, and
    the share above some quantiles of the training set. A linear model does the rest. No gradient is computed, and
    memory beyond the features does not grow with the length.

    Args:
        n_oscillators: m, in each octave.
        smallest_window: of how many steps; each octave doubles it, up to the longest series of the training set.
        overlap: windows begin every W / overlap steps.
        quantiles: of the training set's values; the share of windows above each of them is a feature.
        differences: the steps of each channel, u_n - u_{n-1}, as further channels.
        layout: "channels_last", or "channels_first" for arrays (n, d, N).
        missing: "refuse", or "mask" to accept missing values, NaN.
        random_state: of the oscillators.

    Attributes:
        windows_: the windows' lengths.
        n_channels_: d, of the series.
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
        n_oscillators: int = 96,
        *,
        smallest_window: int = 8,
        overlap: int = 2,
        quantiles: Sequence[float] = (0.1, 0.5, 0.9),
        differences: bool = True,
        layout: str = "channels_last",
        missing: str = "refuse",
        random_state: Any = None,
    ) -> None:
        self.n_oscillators = n_oscillators
        self.smallest_window = smallest_window
        self.overlap = overlap
        self.quantiles = quantiles
        self.differences = differences
        self.layout = layout
        self.missing = missing
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draws the oscillators, and takes scales and levels from X; see ``as_series`` for its forms. y is not used."""
        given = plain(self.get_params(deep=False))
        m = checks.whole("n_oscillators", given["n_oscillators"], 1)
        least = checks.whole("smallest_window", given["smallest_window"], 1)
        checks.whole("overlap", given["overlap"], 1)
        checks.flag("differences", given["differences"])
        if not isinstance(self.quantiles, (list, tuple, np.ndarray)):
            raise BadType(f"quantiles: expected a sequence of numbers, got {checks.shown(self.quantiles)}")
        with naming("quantiles"):
            quantiles = np.asarray(self.quantiles, dtype=np.float64)
        if quantiles.ndim != 1 or not ((quantiles > 0) & (quantiles < 1)).all():
            raise BadValue(f"quantiles: expected numbers between 0 and 1, got {self.quantiles!r}")
        with naming("random_state"):
            random = check_random_state(self.random_state)
        series = as_series(X, self.layout, self.missing)
        self.n_features_in_ = features_in(X, series)
        self.n_channels_ = series[0].shape[1]
        self._scaling = Scaling.of(series)
        self._moves = Scaling.of([np.diff(self._scaling(x), axis=0, prepend=np.float32(0)) for x in series])
        series = [self._prepare(x) for x in series]
        longest = max(len(x) for x in series)
        octaves = least * 2 ** np.arange(64.0)
        self.windows_ = [int(W) for W in octaves[octaves < longest]] + [longest]
        self._layers = [Oscillators.draw(W, m, series[0].shape[1], random) for W in self.windows_]
        self._levels = [self._level(sampled(series, l, self._hop(l.W), SAMPLE, random)) for l in self._layers]
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Features (n, len(windows_) · 3 m · (4 + len(quantiles))) in float32."""
        check_is_fitted(self)
        series = as_series(X, self.layout, self.missing)
        if series[0].shape[1] != self.n_channels_:
            raise BadValue(f"X: expected {self.n_channels_} channels as in fit, got {series[0].shape[1]}")
        series = [self._prepare(x) for x in series]
        octaves = zip(self._layers, self._levels, strict=True)
        return np.concatenate([pooled(series, layer, self._hop(layer.W), levels) for layer, levels in octaves], 1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names such as "w8_y0_mean": window, quantity and oscillator, what is pooled."""
        check_is_fitted(self)
        pools = [*POOLS, *(f"above{q:g}" for q in self.quantiles)]
        m = len(self._layers[0].w)
        names = [
            f"w{W}_{what}{i}_{pool}"
            for W in self.windows_
            for pool in pools
            for what in ("y", "z", "logE")
            for i in range(m)
        ]
        return np.asarray(names, dtype=object)

    def _hop(self, W: int) -> int:
        return max(1, W // self.overlap)

    def _level(self, states: np.ndarray) -> np.ndarray:
        """Quantiles (q, 3m), a little moved: a value that lies on one would be above it or not by its rounding."""
        quantiles = np.asarray(list(self.quantiles), dtype=np.float64)
        return (np.quantile(states, quantiles, axis=0) + 1e-4 * states.std(0)).astype(np.float32)

    def _prepare(self, x: np.ndarray) -> np.ndarray:
        u = self._scaling(x)
        if not self.differences:
            return u
        moves = np.diff(u, axis=0, prepend=u[:1])
        return np.concatenate([u, moves / self._moves.deviation.astype(np.float32)], 1)

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
