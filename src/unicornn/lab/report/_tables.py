"""The tables of the page as HTML. Whatever comes from a file is escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any

from unicornn.lab import _text as words
from unicornn.lab._metric import Metric
from unicornn.lab._run_folder import Run
from unicornn.lab.report._groups import Entry, Group, flat
from unicornn.lab.tasks import Quoted


def title(group: Group) -> str:
    """The experiment's title, or its task's name."""
    return str(group.config.get("title") or group.config["task"])


def choices(group: Group) -> str:
    """The experiment in short: task, variant, options."""
    config = group.config
    variant = [f"variant {config['variant']}"] if config.get("variant") else []
    options = [f"{name} = {words.setting(value)}" for name, value in config.get("task_options", {}).items()]
    return ", ".join([config["task"], *variant, *options])


def table(label: str, head: list[str], rows: list[str]) -> str:
    """A table in a box that scrolls by itself where it is too wide; it can be reached by the keyboard."""
    columns = "".join(f'<th scope="col">{name}</th>' for name in head)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">\n<table>\n'
        f"<thead><tr>{columns}</tr></thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody>\n</table>\n</div>"
    )


def row(head: str, cells: list[str], kind: str = "") -> str:
    return f'<tr{kind}><th scope="row">{head}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _small(text: str) -> str:
    """A second line in a cell."""
    return f'<span class="small">{escape(text)}</span>'


def overview(groups: list[Group]) -> str:
    """For each group, the best of ours beside the best published, if the options are the task's."""
    rows = []
    for i, group in enumerate(groups):
        metric = group.metric
        ours = metric.best(group.entries, value=lambda entry: entry.test.mean)
        comparable = () if group.departures else group.published
        theirs = metric.best(comparable, value=lambda quoted: quoted.value)
        cells = [escape(metric.name), words.NONE, words.NONE]
        if ours is not None:
            cells[1] = f"<strong>{metric.text(*ours.test[:2])}</strong>{_small(ours.label)}"
        if theirs is not None:
            cells[2] = metric.text(theirs.value, theirs.deviation) + _small(theirs.model)
        link = f'<a href="#group-{i}">{escape(title(group))}</a>{_small(choices(group))}'
        rows.append(row(link, cells))
    head = ["Task", "Metric", "Our best", "Best published"]
    return f"<section>\n<h2>Overview</h2>\n{table('Overview', head, rows)}\n</section>"


def results(group: Group) -> str:
    """Our numbers, and below them the published ones, the best first."""
    metric = group.metric
    head = ["Model", f"Test {escape(metric.name)}", "Best seed", "Validation", "Seeds", "Epochs", "Time per run"]
    rows = [_ours(entry) for entry in metric.ranked(group.entries, value=lambda entry: entry.test.mean)]
    rows += [_published(quoted, metric) for quoted in metric.ranked(group.published, value=lambda quoted: quoted.value)]
    return table(f"Results of {title(group)}", [*head, "Units", "Parameters"], rows)


def _ours(entry: Entry) -> str:
    metric = entry.metric
    seeds = [str(run.config["seed"]) + ("" if run.finished else "*") for run in entry.runs]
    done, missing = entry.finished, len(entry.unfinished)
    some = done or entry.runs
    epochs = [int(run.result["epochs"]) if run.finished else len(run.metrics) for run in some]
    times = [_seconds(run) for run in some]
    budget = any(run.result.get("stopped") == "budget" for run in done)
    badge = f' <span class="badge open">{f"{missing} " if done else ""}unfinished</span>' if missing else ""
    sizes = [n for run in entry.runs if isinstance(n := run.config.get("parameters"), int)]
    cells = [
        f"<strong>{metric.text(*entry.test[:2])}</strong>",
        metric.text(entry.test.best),
        metric.text(*entry.valid[:2]),
        escape(", ".join(seeds)),
        words.several(epochs) + (" (budget)" if budget else ""),
        words.duration(sum(times) / len(times)),
        escape(str(entry.runs[0].config.get("model_options", {}).get("hidden_size", words.NONE))),
        f"{sizes[0]:,}" if sizes else words.NONE,
    ]
    return row(escape(entry.label) + badge, cells)


def _seconds(run: Run) -> float:
    """The time of training, so far if it is unfinished."""
    if run.finished:
        return float(run.result["seconds"])
    return float(run.metrics["seconds"].max()) if len(run.metrics) else math.nan


def _published(quoted: Quoted, metric: Metric) -> str:
    source = _small(quoted.source) if quoted.source else ""
    cells = [metric.text(quoted.value, quoted.deviation), *[words.NONE] * 5]
    cells += [f"{n:,}" if n is not None else words.NONE for n in (quoted.units, quoted.parameters)]
    return row(f'{escape(quoted.model)} <span class="badge">published</span>{source}', cells, ' class="published"')


def settings(caption: str, values: Mapping[str, Any]) -> str:
    """Names and values of one JSON file."""
    rows = [row(escape(key), [escape(words.setting(value))]) for key, value in flat(values).items()]
    return f"<table><caption>{caption}</caption><tbody>\n" + "\n".join(rows) + "\n</tbody></table>"
