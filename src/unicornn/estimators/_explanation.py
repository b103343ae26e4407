"""Explanation: the contributions that add up to a model's scores, and plots of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unicornn import _checks as checks
from unicornn.errors import BadValue
from unicornn.estimators._attribution import Windows
from unicornn.estimators._series import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Explanation:
    """Contributions of the parts of n series to a model's scores: n series, N steps, d channels, k outputs.

    For every series, ``base + steps.sum(1) + gap`` is ``scores``. The contributions of the bank compare its features
    with their means over the training set, those of a network the series with a constant one.

    Attributes:
        series: The series as the model read them, (N_i, d).
        classify: Whether the outputs are classes.
        outputs: Classes, or numbers of the targets, (k,).
        channel_names: Names of the channels, (d,).
        scores: Logits of the classes, or predictions, (n, k).
        base: Scores of what the series are compared with, (n, k).
        samples: Contributions of every step and channel, (n, N, d, k); 0 after the end of shorter series.
        windows: For each series, the windows of every view and octave with their contributions; see ``Windows``.
            Empty for a network.
        others: Contributions (n, k) of what has no windows: "statistics", the summary statistics of the bank, and
            "network".

    Example:
        >>> import numpy as np
        >>> from unicornn.estimators import UnICORNNClassifier
        >>> X = np.random.default_rng(0).normal(size=(20, 60))
        >>> X[::2, 20:30] *= 4
        >>> explanation = UnICORNNClassifier(random_state=0).fit(X, np.arange(20) % 2).explain(X[:4])
        >>> explanation.steps.shape, sorted(explanation.octaves), sorted(explanation.views)[:2]
        ((4, 60, 2), [8, 16, 32, 60], ['increments', 'level'])
        >>> bool(np.abs(explanation.gap).max() < 1e-4)
        True
    """

    series: Series
    classify: bool
    outputs: np.ndarray
    channel_names: list[str]
    scores: np.ndarray
    base: np.ndarray
    samples: np.ndarray
    windows: list[list[Windows]]
    others: dict[str, np.ndarray]

    @property
    def steps(self) -> np.ndarray:
        """Contributions of the steps, (n, N, k)."""
        return self.samples.sum(2)

    @property
    def channels(self) -> np.ndarray:
        """Contributions of the channels, (n, d, k)."""
        return self.samples.sum(1)

    @property
    def octaves(self) -> dict[int, np.ndarray]:
        """Contributions (n, k) of the windows by their length."""
        return self._by_window(lambda windows: windows.length)

    @property
    def views(self) -> dict[str, np.ndarray]:
        """Contributions (n, k) of the windows by their view, and ``others``."""
        return self._by_window(lambda windows: windows.view) | self.others

    @property
    def gap(self) -> np.ndarray:
        """What the contributions miss of the scores, (n, k): rounding, or the error of integrated gradients."""
        return self.scores - self.base - self.samples.sum((1, 2))

    def _by_window(self, key: Callable[[Windows], Any]) -> dict[Any, np.ndarray]:
        groups: dict[Any, np.ndarray] = {}
        for i, every in enumerate(self.windows):
            for windows in every:
                group = groups.setdefault(key(windows), np.zeros(self.scores.shape))
                group[i] += windows.contributions.sum(0)
        return groups

    def evidence(self, contributions: np.ndarray, output: int) -> np.ndarray:
        """Contributions (…, k) as evidence for one output, (…).

        For a class it is relative to the mean of all classes: what raises all logits alike decides nothing.
        """
        chosen = contributions[..., output]
        return chosen - contributions.mean(-1) if self.classify else chosen

    def plot(self, i: int = 0, output: Any = None) -> Figure:
        """Draws series ``i`` on a background of the evidence for an output (blue) and against it (red).

        Below, the evidence by octave along the series, and its sums by octave and by view. Of more than six channels,
        those with the largest contributions are drawn. Needs matplotlib.

        Args:
            i: Number of the series.
            output: Class or number of the target; by default the predicted class, or the first target.
        """
        i = checks.integer("i", i, 0, len(self.series) - 1)
        if output is None:
            output = self.outputs[self.scores[i].argmax() if self.classify else 0]
        found = np.flatnonzero(self.outputs == output)
        if not len(found):
            raise BadValue(f"output: expected one of {self.outputs.tolist()}, got {output!r}")
        from unicornn.estimators._explanation_plot import draw

        return draw(self, i, int(found[0]))
