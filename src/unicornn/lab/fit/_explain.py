"""Pages with explanations: which parts of a series speak for and against a prediction."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from unicornn.estimators import Explanation
from unicornn.lab.fit._data import Data
from unicornn.lab.fit._fit import check_data
from unicornn.lab.report._render import Plot, write_page

COMPARED = {
    "bank": "with the mean of the training set; the contributions add up to the score exactly",
    "network": "with a constant series, by integrated gradients",
}


def write_explanations(estimator: Any, data: Data, title: str, out: Path, samples: int) -> Path:
    """Writes one self-contained page that explains the predictions for some series.

    With targets these are the clearest correct and incorrect predictions, otherwise the first series.

    Args:
        estimator: Fitted model.
        data: Series that it can read.
        title: Title of the page: the name of the file.
        out: Path of the page.
        samples: Number of series.
    """
    check_data(estimator, data)
    if data.target is None:
        chosen = np.arange(min(samples, len(data.series)))
    else:
        chosen = clearest(_errors(estimator, data), samples)
    explanation = estimator.explain([data.series[i] for i in chosen])
    plots, rows = [], []
    for i, original in enumerate(chosen):
        prediction = _prediction(estimator, explanation, i)
        target = {} if data.target is None else {"Target": f"{data.target[original]}"}
        row = {"Series": data.ids[original], "Prediction": prediction} | target
        rows.append(row | {"Missed by the contributions": f"{np.abs(explanation.gap[i]).max():.1e}"})
        caption = ", ".join(f"{name.lower()} {value}" for name, value in (row | target).items())
        plots.append(Plot(explanation.plot(i), caption, wide=True))
    return write_page(
        out, "explain.html", title=title, subtitle=f"{type(estimator).__name__}, {' and '.join(estimator.models_)}",
        compared=[f"The {name} is compared {COMPARED[name]}." for name in estimator.models_], plots=plots, rows=rows,
    )  # fmt: skip


def clearest(errors: np.ndarray, count: int) -> np.ndarray:
    """Indices of the series with the smallest and the largest errors (n,), half of each, in ascending order."""
    order = np.argsort(errors, kind="stable")
    few = min(count, len(order))
    return np.concatenate([order[: few - few // 2], order[len(order) - few // 2 :]])


def case_plots(estimator: Any, series: list[np.ndarray], captions: Iterable[str]) -> list[Plot]:
    """A plot of the explanation of each series, with its caption."""
    explanation = estimator.explain(series)
    return [
        Plot(explanation.plot(i), f"{caption} The model predicts {_prediction(estimator, explanation, i)}.", wide=True)
        for i, caption in enumerate(captions)
    ]


def _prediction(estimator: Any, explanation: Explanation, i: int) -> str:
    if explanation.classify:
        return str(explanation.outputs[explanation.scores[i].argmax()])
    return ", ".join(f"{value:.4g}" for value in explanation.scores[i])


def _errors(estimator: Any, data: Data) -> np.ndarray:
    """Errors (n,): absolute ones, or the probability of the best wrong class minus that of the target."""
    target = np.asarray(data.target)
    if not hasattr(estimator, "classes_"):
        return np.abs(estimator.predict(data.series).reshape(len(target), -1)[:, 0] - target.astype(float))
    true = target.astype(str)[:, None] == estimator.classes_.astype(str)
    probabilities = estimator.predict_proba(data.series)
    return np.where(true, -1, probabilities).max(1) - np.where(true, probabilities, 0).sum(1)
