"""The section about a search: the best trials, which parameters matter, all trials at a glance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from html import escape
from typing import Any

from unicornn.lab import _text as words
from unicornn.lab._study import STATES, Study
from unicornn.lab.report import _search_plots as plots
from unicornn.lab.report import _tables as tables
from unicornn.lab.report._images import image

SHOWN = 10  # of the trials, in the table
DRAWN = {"random": "drawn at random", "tpe": "drawn by TPE"}
STOPPED = {"none": "", "median": ", stopped early below the median", "hyperband": ", stopped early by Hyperband"}


def section(study: Study, folder: str) -> str:
    """The section of one search, kept in a folder of this name."""
    title = f"Search: {study.title or study.task}"
    settings = [f"{name} = {words.setting(value)}" for name, value in study.settings.items()]
    variant = [f"variant {study.variant}"] if study.variant else []
    about = [", ".join([study.task, study.model, *variant, *settings, f"seed {study.seed}"]), _state(study)]
    parts = ["<section>", f'<h2>{escape(title)} <span class="quiet">{escape(folder)}</span></h2>']
    parts += [f'<p class="quiet">{escape(text)}</p>' for text in about]
    if study.best is not None:
        parts += [_best(study), "<h3>The best trial's settings, with the test set</h3>"]
        parts.append(f'<pre class="wrap">{escape(study.command)}</pre>')
    if study.trials:
        caption = f"Validation {study.metric.name} of each trial, and the best so far."
        parts += ['<div class="plots">', image(title, plots.values(study), caption)]
        if study.importances:
            caption = "Importance: the parameters' shares in how the trials differ (fANOVA)."
            parts.append(image(title, plots.importances(study.importances), caption))
        if study.best is not None:
            caption = "The complete trials, one line each: the darker, the better; the best one in red."
            parts.append(image(title, plots.parallel_coordinates(study), caption, ' class="wide"'))
        parts.append("</div>")
    return "\n".join([*parts, "</section>"])


def _state(study: Study) -> str:
    states = Counter(trial.state for trial in study.trials)
    counts = ", ".join(f"{states[state]} {state}" for state in STATES if states[state]) or "none yet"
    how = DRAWN.get(study.sampler, study.sampler) + STOPPED.get(study.pruner, f", {study.pruner}")
    return (
        f"{len(study.trials)} of {study.asked} trials ({counts}), {how}, judged by the validation set. "
        "The test set was not looked at."
    )


def _best(study: Study) -> str:
    names = list(study.space)
    head = ["Trial", "Validation", *map(escape, names), "Epochs", "Time"]
    rows = []
    for i, trial in enumerate(study.ranked()[:SHOWN]):
        value = study.metric.text(trial.value)
        drawn = [f"{trial.parameters[name]:.3g}" for name in names]
        cells = [f"<strong>{value}</strong>" if i == 0 else value, *drawn, str(trial.epochs)]
        rows.append(tables.row(str(trial.number), [*cells, words.duration(trial.seconds)]))
    ranges = [words.NONE, *(_range(study.space[name]) for name in names), words.NONE, words.NONE]
    rows.append(tables.row("searched", ranges, ' class="published"'))
    return tables.table(f"Best trials of the search, {study.title}", head, rows)


def _range(axis: Mapping[str, Any]) -> str:
    if "values" in axis:
        return ", ".join(f"{value:g}" for value in axis["values"])
    scale = '<span class="small">logarithmic</span>' if axis.get("log") else ""
    return f"{axis['low']:g} to {axis['high']:g}{scale}"
