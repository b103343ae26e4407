"""The page about a model fitted to a file: the data, scores on series left out of the fit, and the settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from unicornn.lab.fit._data import Data
from unicornn.lab.report import _plots as plots
from unicornn.lab.report._render import Plot, write_page


def write_report(estimator: Any, data: Data, title: str, out: Path) -> Path:
    """Writes one self-contained page, like ``unicornn report`` does for runs.

    Args:
        estimator: Model, as ``fit_file`` returns it.
        data: Data that it was fitted to.
        title: Title of the page: the name of the file.
        out: Path of the page.
    """
    return write_page(
        out, "fit.html", title=title, subtitle=f"{len(data.series):,} series", data=dict(data.described()),
        heading=f"{type(estimator).__name__}, {' and '.join(estimator.models_)}",
        scores={name.replace("_", " "): f"{value:.4g}" for name, value in estimator.about_["scores"].items()},
        settings={name: repr(value) for name, value in estimator.get_params().items()},
        plots=list(_plots(estimator, data)),
    )  # fmt: skip


def _plots(estimator: Any, data: Data) -> Iterator[Plot]:
    if "bank" not in estimator.models_:
        return
    target, predictions = np.asarray(data.target)[estimator._ridge.rows], estimator._ridge.left_out
    if data.regression:
        numbers = predictions[:, 0] * estimator._spread[0] + estimator._centre[0]
        yield Plot(
            plots.scatter(target.astype(float), numbers), "Predictions for series left out against their targets."
        )
    else:
        classes, names = np.searchsorted(estimator.classes_, target), [str(name) for name in estimator.classes_]
        figure = plots.confusion(classes, predictions.argmax(1), names)
        yield Plot(figure, "True and predicted classes of series left out.")
