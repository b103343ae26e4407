"""OscillatorBank: features of time series from untrained oscillators, as Rocket does with convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue
from unicornn.estimators._oscillators import Joined, Oscillators, views
from unicornn.estimators._pooling import LIVE_NAMES, NAMES, pooled, pooled_names, summaries
from unicornn.estimators._series import Scaling, Series, SeriesSet, naming_errors
from unicornn.estimators._transformer import SeriesTransformer

LEVEL_WINDOWS = 4096  # windows from which the levels of a layer are estimated
FREE = ("_deviation", "_crossings")  # pools
SERIES_AT_ONCE = 128  # of which a thread runs one layer
Tell = Callable[[float], None]


def _nobody(fraction: float) -> None:
    """Ignores the progress."""


@dataclass(eq=False, repr=False)
class OscillatorBank(SeriesTransformer):
    """Features of time series of any length, from untrained layers of oscillators over windows of all octaves.

    Each series is cut into overlapping windows of 8, 16, 32, … N steps. Each octave has four layers of oscillators,
    with time scales spread from half a period per window upwards. They start from rest in every window and differ in
    their input: the series itself, the deviation from the window's mean, the increments, and the increments of the
    series standardised by its own deviation. The first three average long windows down to at most 64 samples.

    The logarithms of the oscillators' energies (Eq. (4) without input) at the ends of the windows are pooled over each
    series: mean, maximum, minimum, deviation, the fraction above quantiles of the training set, the fraction of
    consecutive windows that cross the median, and the trend along the series. In each window oscillators compete with
    their neighbours in frequency, as kernels do in Hydra: the fractions of windows in which the standardised energy is
    the largest and the smallest, and the mean of the winning values, are features as well. Where the sign of a series
    may matter, so are the mean, maximum and minimum of y. Series of several channels have two more layers, of pairs of
    equal oscillators that receive one channel each: their angular momentum tells which of the two channels leads. The
    last features are thirteen summary statistics of every channel, such as its mean and its last value. The features
    are meant for a linear model. No gradient is computed, and memory beyond the features does not grow with the length.

    Args:
        n_oscillators: Number of oscillators per layer (m).
        smallest_window: Length of the shortest windows in steps; each octave doubles it, up to the longest series of
            the training set.
        overlap: Number of windows that cover a step: windows of W steps start every W / overlap steps, and half as
            often if W is at most 64.
        quantiles: Quantiles of the training set; the fraction of windows above each of them is a feature.
        live: Whether to use only features that can be updated sample by sample, for ``Stream`` without a window: no
            series standardised by its own deviation, no quartiles.
        layout: "channels_last", or "channels_first" for arrays (n, d, N).
        missing: "error", or "mask" to accept missing values (NaN).
        random_state: Seed of the oscillators.
        n_jobs: Number of threads, at most one per processor, which -1 stands for; None for torch's number of threads.
            The features do not depend on it.

    Attributes:
        windows_: Lengths of the windows.
        n_channels_: Number of channels of the series (d).
        channel_names_: Columns, if X was a DataFrame with an index (series, time) or a list of DataFrames, else None.
        n_features_in_: N of a training array (n, N), otherwise d. Series of other lengths are accepted all the same.

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

    n_oscillators: int = 32
    _: KW_ONLY
    smallest_window: int = 8
    overlap: int = 8
    quantiles: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)
    live: bool = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draws the oscillators and estimates scales and levels from X; y is ignored. See ``read_series`` for X."""
        read = self._read(X)
        with self._threads():
            self._fit_series(read.series)
        self._learn_channels(read)
        return self

    def _fit_series(self, series: Series, tell: Tell = _nobody) -> Self:
        """As ``fit``, for series that ``read_series`` has read. ``tell`` receives the fraction done."""
        settings = self._settings()
        m, smallest, overlap = (
            checks.integer(name, settings[name], 1) for name in ("n_oscillators", "smallest_window", "overlap")
        )
        if not isinstance(self.quantiles, (list, tuple, np.ndarray)):
            raise BadType(f"quantiles: expected a sequence of numbers, got {checks.describe(self.quantiles)}")
        with naming_errors("quantiles"):
            quantiles = np.asarray(self.quantiles, dtype=np.float64)
        if quantiles.ndim != 1 or not ((quantiles > 0) & (quantiles < 1)).all():
            raise BadValue(f"quantiles: expected numbers between 0 and 1, got {self.quantiles!r}")
        with naming_errors("random_state"):
            random = check_random_state(self.random_state)
        self._learn_channels(SeriesSet(series))
        self._scaling = Scaling.fit(series)
        series = [self._scaling(x) for x in series]
        varying = np.flatnonzero([any(x[:, i].any() for x in series) for i in range(self.n_channels_)])
        layers: list[Oscillators] = []
        live = checks.flag("live", self.live)
        drawn = views(max(len(x) for x in series), smallest, overlap, pairs=len(varying) > 1, live=live)
        for view in drawn:
            tell(len(layers) / len(drawn))
            if view.pairs:
                layer = Oscillators.draw_pairs(view, m, series, varying, random)
            else:
                layer = Oscillators.draw(view, m, series, random)
            layers.append(layer.with_levels(series, self.quantiles, LEVEL_WINDOWS, random))
        self._set_layers(layers)
        return self

    def _set_layers(self, layers: list[Oscillators]) -> None:
        self._layers = layers
        kind = "level" if self.live else "scaled_increments"
        self.windows_ = [layer.view.steps for layer in layers if layer.view.kind == kind]

    @property
    def _summary_names(self) -> tuple[str, ...]:
        return LIVE_NAMES if self.live else NAMES

    def _features(self, series: Series, tell: Tell = _nobody) -> np.ndarray:
        """(n, len(windows_) · m · (42 + 4 q) + 13 d) with q quantiles, or · (33 + 3 q) + 10 d with ``live``; with
        several channels 4 (m // 2) · (5 + q) more for each window."""
        series = [self._scaling(x) for x in series]
        columns = np.cumsum([0, *(len(pooled_names(layer, list(self.quantiles))) for layer in self._layers)])
        numbers = summaries(series, self._summary_names)
        features = np.empty((len(series), columns[-1] + numbers.shape[1]), np.float32)
        features[:, columns[-1] :] = numbers
        parts = [slice(k, k + SERIES_AT_ONCE) for k in range(0, len(series), SERIES_AT_ONCE)]
        joined = {part.start: Joined.from_series(series[part]) for part in parts}
        jobs = [(part, i) for part in parts for i in range(len(self._layers))]

        def work(job: tuple[slice, int]) -> None:
            part, i = job
            features[part, columns[i] : columns[i + 1]] = pooled(joined[part.start], self._layers[i])

        with ThreadPoolExecutor(torch.get_num_threads()) as workers:
            for done, _ in enumerate(workers.map(work, jobs), 1):
                tell(done / len(jobs))
        return features

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names such as "w8_increments_logE0_mean" (window, input, quantity and oscillator, pooling), and
        "channel0_median" for the summary statistics."""
        check_is_fitted(self)
        names = [
            f"w{min(layer.view.steps, self.windows_[-1])}_{layer.view.kind}_{name}"
            for layer in self._layers
            for name in pooled_names(layer, [float(q) for q in self.quantiles])
        ]
        names += [f"channel{i}_{name}" for name in self._summary_names for i in range(self.n_channels_)]
        return np.asarray(names, dtype=object)

    def _feature_kinds(self) -> np.ndarray:
        """Kind of each feature, (p,): 0 for single oscillators, 1 for pairs, 2 for summary statistics; 3 for deviations
        and crossings of standardised increments, which tell frequencies whatever the amplitude."""
        kinds = []
        for layer in self._layers:
            names = pooled_names(layer, list(self.quantiles))
            free = layer.view.kind == "scaled_increments"
            kinds += [3 if free and name.endswith(FREE) else int(layer.view.pairs) for name in names]
        return np.array(kinds + [2] * (len(self._summary_names) * self.n_channels_))
