"""The page about a model fitted to a file: what was understood, how good it is on series left out, its settings."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import unicornn
from unicornn._files import atomic_write
from unicornn.lab.fit._data import Data
from unicornn.lab.report import _plots as plots
from unicornn.lab.report._images import image


def write_report(estimator: Any, data: Data, title: str, out: Path) -> Path:
    """Writes one self-contained page, as ``unicornn report`` does for runs.

    Args:
        estimator: what ``fit_file`` returned.
        data: what it was fitted to.
        title: of the page, the file's name.
        out: the page.
    """
    scores = {name.replace("_", " "): f"{value:.4g}" for name, value in estimator.about_["scores"].items()}
    settings = {name: repr(value) for name, value in estimator.get_params().items()}
    body = [
        "<section>",
        f"<h2>{escape(type(estimator).__name__)}, {escape(' and '.join(estimator.models_))}</h2>",
        _table("on series left out of the fit, or held back from it", scores),
        _table("data", dict(data.described())),
    ]
    if images := [image(title, plot, caption) for plot, caption in _plots(estimator, data)]:
        body += ['<div class="plots">', *images, "</div>"]
    body += [_table("settings", settings), "</section>"]
    page = Template(files("unicornn.lab.report").joinpath("template.html").read_text(encoding="utf-8")).substitute(
        title=escape(title), subtitle=f"{len(data.series):,} series", body="\n".join(body), version=unicornn.__version__
    )
    with atomic_write(out, "w") as file:
        file.write(page)
    return out


def _table(caption: str, rows: dict[str, str]) -> str:
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
    return f'<div class="scroll facts"><table><caption>{escape(caption)}</caption><tbody>{cells}</tbody></table></div>'


def _plots(estimator: Any, data: Data) -> Iterator[tuple[Figure, str]]:
    if "bank" in estimator.models_:
        target, guesses = np.asarray(data.target)[estimator._ridge.rows], estimator._ridge.left_out
        if data.regression:
            numbers = guesses[:, 0] * estimator._spread[0] + estimator._centre[0]
            yield (
                plots.scatter(target.astype(float), numbers),
                "Predictions for series left out, against their targets.",
            )
        else:
            known, names = np.searchsorted(estimator.classes_, target), [str(name) for name in estimator.classes_]
            yield plots.confusion(known, guesses.argmax(1), names), "True and predicted classes of series left out."
