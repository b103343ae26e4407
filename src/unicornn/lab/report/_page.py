"""The contents of the page: what the template ``runs.html`` needs beyond the groups and studies themselves."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unicornn.lab._run_folder import Run
from unicornn.lab._study import outcome
from unicornn.lab.report import _plots as plots
from unicornn.lab.report import _tables as tables
from unicornn.lab.report._folders import run_time_steps
from unicornn.lab.report._groups import Group, assignments
from unicornn.lab.report._render import Plot, write_page

if TYPE_CHECKING:
    import optuna

OMITTED = ("title", "protocol", "command", "metric", "more_is_better")  # entries of config.json shown elsewhere


def write_runs_page(out: Path, groups: list[Group], studies: Mapping[Path, optuna.Study]) -> Path:
    """Writes the page about at least one group or search."""
    runs = [run for group in groups for run in group.runs]
    unfinished = sum(not run.finished for run in runs)
    counts = [f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}"] if runs else []
    counts += [f"{unfinished} unfinished"] if unfinished else []
    counts += [f"{len(studies)} {'search' if len(studies) == 1 else 'searches'}"] if studies else []
    titles = [
        *(group.title for group in groups),
        *(f"search, {study.user_attrs['title']}" for study in studies.values()),
    ]
    root = os.path.commonpath([path.resolve().parent for path in (*(run.path for run in runs), *studies)])
    return write_page(
        out, "runs.html", title="UnICORNN report" + (f": {titles[0]}" if len(titles) == 1 else ""),
        subtitle=", ".join(counts), groups=groups, studies=studies, tables=tables,
        overview=[tables.overview_row(group) for group in groups], files_as_json=_files_as_json,
        describe_trials=_describe_trials, study_plots=plots.study_plots, assignments=assignments,
        group_plots=lambda group: list(_group_plots(group)),
        relative=lambda path: os.path.relpath(path.resolve(), root),
    )  # fmt: skip


def _files_as_json(run: Run) -> str:
    """Settings, result and environment of a run."""
    files: dict[str, Any] = {"config": {k: v for k, v in run.config.items() if k not in OMITTED}}
    if run.finished:
        files["result"] = run.result
    if (run.path / "environment.json").is_file():
        files["environment"] = run.environment
    return json.dumps(files, indent=2)


def _group_plots(group: Group) -> Iterator[Plot]:
    metric, curves = group.config["metric"], {}
    for entry in group.entries:
        unfinished = [run for run in entry.runs if not run.finished]
        for state, runs in (("", entry.finished), (", unfinished", unfinished)):
            if begun := [run.metrics for run in runs if run.metrics["valid"].notna().any()]:
                curves[entry.label + state] = begun
    if curves:
        for against, name in (("epoch", "epoch"), ("seconds", "time")):
            figure = plots.learning_curves(curves, metric, against, group.constant_test)
            yield Plot(figure, f"Validation {metric} against {name}, one line per run.")
    if (best := group.best_run("unicornn")) is not None:
        label = _label(group, best)
        if (a := run_time_steps(best)) is not None:
            yield Plot(plots.time_steps(a), f"Effective time steps of each layer's neurons, sorted: {label}.")
        metrics = [run.metrics for run in group.entry_of(best).runs]
        if norms := [table for table in metrics if "w_norm_1" in table and len(table)]:
            over = "mean and deviation over seeds" if len(norms) > 1 else label
            yield Plot(plots.weight_norms(norms), f"Norms of each layer's hidden weights: {over}.")
    if (best := group.best_run()) is not None and (arrays := best.predictions) is not None:
        target, prediction = arrays["target"], arrays["prediction"]
        if metric == "accuracy":
            figure, what = plots.confusion(target, prediction), "True and predicted classes"
        else:
            figure, what = plots.scatter(target, prediction), "Prediction against target"
        yield Plot(figure, f"{what} of the test set: {_label(group, best)}.")


def _label(group: Group, run: Run) -> str:
    choice = ", the best by validation" if len(group.runs) > 1 else ""
    return f"{group.entry_of(run).label}, seed {run.config['seed']}{choice}"


def _describe_trials(study: optuna.Study) -> str:
    states, plan = Counter(filter(None, map(outcome, study.trials))), study.user_attrs["plan"]
    named = [f"{states[state]} {state}" for state in ("complete", "pruned", "failed") if states[state]]
    return (
        f"{states.total()} of {study.user_attrs['requested']} trials ({', '.join(named) or 'none yet'}), sampler "
        f"{plan['sampler']}, pruner {plan['pruner']}, compared by the validation set. The test set was not used."
    )
