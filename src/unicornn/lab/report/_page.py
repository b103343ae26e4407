"""The page: sections with tables, plots and settings as HTML. Whatever comes from a file is escaped."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

import pandas as pd
from matplotlib.figure import Figure

import unicornn
from unicornn.errors import BadValue
from unicornn.lab import _text as words
from unicornn.lab._run_folder import Run
from unicornn.lab._study import Study
from unicornn.lab.report import _plots as plots
from unicornn.lab.report import _searches as searches
from unicornn.lab.report import _tables as tables
from unicornn.lab.report._folders import run_time_steps
from unicornn.lab.report._groups import Group
from unicornn.lab.report._images import image

ABOUT = ("title", "protocol", "command", "metric", "more_is_better")  # of config.json, shown elsewhere or implied


def make_page(groups: list[Group], curves: Path | None = None, studies: Mapping[Path, Study] | None = None) -> str:
    """The whole page of at least one group or search, these by folder. ``curves``: as for ``report``."""
    studies = studies or {}
    runs = [run for group in groups for run in group.runs]
    unfinished = sum(not run.finished for run in runs)
    counts = [f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}"] if runs else []
    counts += [f"{unfinished} unfinished"] if unfinished else []
    counts += [f"{len(studies)} {'search' if len(studies) == 1 else 'searches'}"] if studies else []
    root = Path(os.path.commonpath([path.resolve().parent for path in (*(run.path for run in runs), *studies)]))
    body = [tables.overview(groups)] if len(groups) > 1 else []
    body += [_section(i, group, root, _reference(group, curves)) for i, group in enumerate(groups)]
    body += [searches.section(study, os.path.relpath(path.resolve(), root)) for path, study in studies.items()]
    titles = [*map(tables.title, groups), *(f"search, {study.title}" for study in studies.values())]
    title = "UnICORNN report" + (f": {titles[0]}" if len(titles) == 1 else "")
    return Template(files("unicornn.lab.report").joinpath("template.html").read_text(encoding="utf-8")).substitute(
        title=escape(title), subtitle=", ".join(counts), body="\n".join(body), version=escape(unicornn.__version__)
    )


def _reference(group: Group, curves: Path | None) -> pd.DataFrame | None:
    """The authors' curve of this task and variant, if there is one: columns epoch and valid."""
    config = group.config
    parts = [config["task"], *([str(config["variant"])] if config.get("variant") else [])]
    name = "_".join(parts).replace("-", "_")
    if curves is None or Path(name).name != name or not (curves / f"{name}.csv").is_file():
        return None
    table = pd.read_csv(curves / f"{name}.csv")
    column = next((c for c in table if c.startswith("valid")), None)
    if column is None or "epoch" not in table:
        raise BadValue(f"curves: expected columns epoch and valid_... in {curves / name}.csv, got {list(table)}")
    scale = 0.01 if column.endswith("_percent") else 1.0
    return pd.DataFrame({"epoch": table["epoch"], "valid": table[column] * scale})


def _section(number: int, group: Group, root: Path, reference: pd.DataFrame | None) -> str:
    parts = [f'<section id="group-{number}">', f"<h2>{escape(tables.title(group))}</h2>"]
    for text in (tables.choices(group), str(group.config.get("protocol") or "")):
        parts += [f'<p class="quiet">{escape(text)}</p>'] if text not in ("", tables.title(group)) else []
    if group.departures and group.published:
        changed = ", ".join(f"{name} = {words.setting(value)}" for name, value in group.departures.items())
        note = f"Not the task's default: {changed}. Published numbers and curves may not compare."
        parts.append(f'<p class="note">{escape(note)}</p>')
    parts.append(tables.results(group))
    if any(not run.finished for run in group.runs):
        parts.append('<p class="quiet">* unfinished: not in the test metric.</p>')
    if images := [image(tables.title(group), *drawn) for drawn in _plots(group, reference)]:
        parts += ['<div class="plots">', *images, "</div>"]
    parts += ["<h3>Settings, command and environment of every run</h3>", *(_details(run, root) for run in group.runs)]
    return "\n".join([*parts, "</section>"])


def _plots(group: Group, reference: pd.DataFrame | None) -> Iterator[tuple[Figure, str]]:
    """The plots and their captions."""
    metric, curves = group.config["metric"], {}
    for entry in group.entries:
        for state, runs in (("", entry.finished), (", unfinished", entry.unfinished)):
            if begun := [run.metrics for run in runs if run.metrics["valid"].notna().any()]:
                curves[entry.label + state] = begun
    if curves:
        yield (
            plots.learning_curves(curves, metric, "epoch", reference),
            f"Validation {metric} against epoch, one line per run.",
        )
        yield plots.learning_curves(curves, metric, "seconds"), f"Validation {metric} against time."
    if (best := group.best("unicornn")) is not None:
        if (a := run_time_steps(best)) is not None:
            yield plots.time_steps(a), f"Effective time steps of each layer's neurons, sorted: {_which(group, best)}."
        if norms := [
            run.metrics for run in group.entry_of(best).runs if "w_norm_1" in run.metrics and len(run.metrics)
        ]:
            over = "mean and deviation over seeds" if len(norms) > 1 else _which(group, best)
            yield plots.weight_norms(norms), f"Norms of each layer's hidden weights: {over}."
    best = group.best()
    if best is not None and best.predictions is not None:
        found = best.predictions["target"], best.predictions["prediction"]
        if metric == "accuracy":
            drawn, what = plots.confusion(*found), "True and predicted classes"
        else:
            drawn, what = plots.scatter(*found), "Prediction against target"
        yield drawn, f"{what} of the test set: {_which(group, best)}."


def _which(group: Group, run: Run) -> str:
    chosen = ", the best by validation" if len(group.runs) > 1 else ""
    return f"{group.entry_of(run).label}, seed {run.config['seed']}{chosen}"


def _details(run: Run, root: Path) -> str:
    config = run.config
    name = os.path.relpath(run.path.resolve(), root)
    state = run.metric.text(run.result.get("test")) if run.finished else "unfinished"
    shown = {key: value for key, value in config.items() if key not in ABOUT}
    parts = [tables.settings("Settings", shown)]
    if run.finished:
        parts.append(tables.settings("Result", run.result))
    if (run.path / "environment.json").is_file():
        parts.append(tables.settings("Environment", run.environment))
    command = f"<pre>{escape(str(config['command']))}</pre>" if config.get("command") else ""
    head = f'{escape(config["model"])}, seed {config["seed"]}: {state} <span class="quiet">{escape(name)}</span>'
    return (
        f'<details><summary>{head}</summary>\n<div class="run">{command}<div class="settings">\n'
        + "\n".join(parts)
        + "\n</div></div></details>"
    )
