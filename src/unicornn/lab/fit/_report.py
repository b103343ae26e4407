"""The page about a model fitted to a file: the data, scores on series left out of the fit, and the settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from unicornn.estimators import _network as networks
from unicornn.estimators._leakage import MOST, clusters, same_class
from unicornn.lab.fit._data import Data
from unicornn.lab.fit._explain import case_plots, clearest
from unicornn.lab.report import _plots as plots
from unicornn.lab.report._render import Plot, write_page

HARDEST = 10  # series listed
EXAMPLES = 6  # series drawn
CASES = 4  # series explained: the clearest correct and incorrect ones
NETWORK_SETTINGS = {field.name for field in fields(networks.Settings)}
NETWORK_SETTINGS |= {"dt", "validation_fraction", "budget", "warm_start"}

CLUSTERED = (
    "Series left out form tight clusters with others in the fit, like overlapping windows of one recording: scores on "
    "new recordings will be lower. Name recordings, persons or machines with --groups."
)

Row = dict[str, str]


@dataclass
class LeftOut:
    """Predictions of the bank for series that were left out of the fit.

    Attributes:
        ids: Names of the n series.
        target, prediction: Numbers, or classes by their index, (n,).
        error: Absolute error, or the score of the best wrong class minus that of the true one, (n,).
        names: Names of the classes; empty if the target is a number.
        confidence: Probability of the predicted class, (n,); empty if the target is a number.
        clustered: Whether series form tight clusters with those that stayed in the fit when they were left out.
    """

    ids: list[str]
    target: np.ndarray
    prediction: np.ndarray
    error: np.ndarray
    names: list[str]
    confidence: np.ndarray
    clustered: bool

    @classmethod
    def from_fit(cls, estimator: Any, data: Data) -> LeftOut:
        rows, scores = estimator._ridge.rows, estimator._ridge.left_out
        clustered = _are_clustered(estimator, data)
        ids, target = [data.ids[i] for i in rows], np.asarray(data.target)[rows]
        if not hasattr(estimator, "classes_"):
            prediction = scores[:, 0] * estimator._spread[0] + estimator._centre[0]
            return cls(ids, target.astype(float), prediction, np.abs(prediction - target), [], np.zeros(0), clustered)
        classes = np.searchsorted(estimator.classes_, target)
        true = np.arange(scores.shape[1]) == classes[:, None]
        error = np.where(true, -np.inf, scores).max(1) - scores[true]
        names, confidence = [str(name) for name in estimator.classes_], estimator._answers({"bank": scores}).max(1)
        return cls(ids, classes, scores.argmax(1), error, names, confidence, clustered)

    def summary(self) -> str:
        """The score next to that of a constant prediction."""
        if self.names:
            correct, constant = (self.prediction == self.target).mean(), np.bincount(self.target).max() / len(self.ids)
            guess = f"guessing the most frequent class would give {100 * constant:.1f} %"
            return f"{100 * correct:.1f} % of the series left out are classified correctly; {guess}."
        rmse = np.sqrt((self.error**2).mean())
        return f"The RMSE on series left out is {rmse:.4g}; predicting the mean would give {self.target.std():.4g}."

    def figures(self) -> list[Plot]:
        if not self.names:
            figure = plots.scatter(self.target, self.prediction)
            return [Plot(figure, "Predictions for series left out against their targets.")]
        confusion = plots.confusion(self.target, self.prediction, self.names)
        correct = self.prediction == self.target
        error = plots.calibration_error(self.confidence, correct)
        caption = (
            "Accuracy on series left out, by the bank's probability of the predicted class, and number of series. "
            f"Expected calibration error {error:.3f}."
        )
        reliability = Plot(plots.reliability(self.confidence, correct), caption)
        return [Plot(confusion, "True and predicted classes of series left out."), reliability]

    def recalls(self) -> Iterator[Row]:
        """One row per class: the share recognised, its size, and the most frequent error."""
        for k in np.unique(self.target) if self.names else ():
            predicted = self.prediction[self.target == k]
            wrong, counts = np.unique(predicted[predicted != k], return_counts=True)
            yield {
                "Class": self.names[k],
                "Recall": f"{100 * (predicted == k).mean():.1f} %",
                "Series": f"{len(predicted):,}",
                "Mostly taken for": f"{self.names[wrong[counts.argmax()]]} ({counts.max()})" if len(wrong) else "–",
            }

    def cases(self, estimator: Any, data: Data) -> list[Plot]:
        """Explanations of the clearest correct and incorrect predictions, by the model fitted to all series."""
        chosen = clearest(self.error, CASES)
        series = [data.series[estimator._ridge.rows[i]] for i in chosen]
        return case_plots(estimator, series, [f"{self.ids[i]}: {self._case(i)}" for i in chosen])

    def _case(self, i: int) -> str:
        target, prediction = self._text(self.target[i]), self._text(self.prediction[i])
        return f"target {target}, left out of the fit predicted as {prediction}."

    def _text(self, value: Any) -> str:
        return self.names[value] if self.names else f"{value:.4g}"

    def hardest(self) -> Iterator[Row]:
        """The series with the largest errors, of classes only those with a wrong prediction."""
        for i in np.argsort(-self.error, kind="stable")[:HARDEST]:
            if self.error[i] > 0:
                target, prediction = self._text(self.target[i]), self._text(self.prediction[i])
                yield {"Series": self.ids[i], "Target": target, "Prediction": prediction}


def write_report(estimator: Any, data: Data, title: str, out: Path) -> Path:
    """Writes one self-contained page, like ``unicornn report`` does for runs.

    Args:
        estimator: Model, as ``fit_file`` returns it.
        data: Data that it was fitted to.
        title: Title of the page: the name of the file.
        out: Path of the page.
    """
    left_out = LeftOut.from_fit(estimator, data) if "bank" in estimator.models_ else None
    with_network = "network" in estimator.models_
    settings = {n: repr(v) for n, v in estimator.get_params().items() if with_network or n not in NETWORK_SETTINGS}
    return write_page(
        out, "fit.html", title=title, target=estimator.about_.get("target"),
        subtitle=f"{type(estimator).__name__}, {' and '.join(estimator.models_)}",
        scores={name.replace("_", " "): f"{value:.4g}" for name, value in estimator.about_["scores"].items()},
        summary=left_out.summary() if left_out else "The network was validated on series that it was not trained on.",
        warning=CLUSTERED if left_out and left_out.clustered else "",
        method=[_left_out_by(estimator, data), _scaled_by(estimator)],
        recalls=list(left_out.recalls()) if left_out else [], hardest=list(left_out.hardest()) if left_out else [],
        cases=left_out.cases(estimator, data) if left_out else [], data=dict(data.described()), settings=settings,
        plots=[_examples(data, classes=hasattr(estimator, "classes_")), *(left_out.figures() if left_out else [])],
    )  # fmt: skip


def _are_clustered(estimator: Any, data: Data) -> bool:
    """Whether left-out series form tight clusters with those of other groups, or with other series without groups."""
    rows = estimator._ridge.rows[:: -(-len(estimator._ridge.rows) // MOST)]
    groups = rows if data.groups is None or estimator.left_out_by_ == "series" else np.asarray(data.groups)[rows]
    target = estimator._encode(np.asarray(data.target)[rows])
    with estimator._threads():
        F = estimator._bank._features(estimator._read_known([data.series[i] for i in rows]).series)
    return clusters(estimator._ridge, F, F, same_class(target, target) & (groups[:, None] != groups)).tight


def _scaled_by(estimator: Any) -> str:
    scaled = {"dataset": "Channels were scaled alike in all series", "series": "Every series was scaled by itself"}
    chosen = " (chosen by the errors on what was left out)" if estimator.scale == "auto" else ""
    return f"{scaled[estimator.scale_]}{chosen}; --scale dataset, series or auto decides."


def _left_out_by(estimator: Any, data: Data) -> str:
    if data.groups is None or estimator.left_out_by_ == "series":
        advice = "If several come from the same person or machine, name these with --groups: new ones score lower."
        return f"Series were left out individually. {advice}"
    count = len(np.unique(data.groups))
    return f"Whole groups were left out by {estimator.about_.get('groups', 'group')} ({count:,} in all)."


def _examples(data: Data, classes: bool) -> Plot:
    """The first series of each class, or of targets from the smallest to the largest."""
    target = np.asarray(data.target)
    if classes:
        shown = np.unique(target, return_index=True)[1][:EXAMPLES]
    else:
        shown = np.argsort(target, kind="stable")[np.unique(np.linspace(0, len(target) - 1, EXAMPLES).astype(int))]
    titles = [f"{target[i] if classes else f'{target[i]:.4g}'}: {data.ids[i]}" for i in shown]
    caption = f"Series of {'each class' if classes else 'small to large targets'}, with target and name."
    return Plot(plots.series_examples([data.series[i] for i in shown], titles, data.channels), caption)
