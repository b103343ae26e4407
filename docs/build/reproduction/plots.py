"""The plots of docs/reproduction.md, from what the runs gave."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean, stdev
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from docs.build.reproduction.results import Record, authors, group, psmnist, settings, together
from unicornn.lab.report._plots import COLOURS, learning_curves, make_axes, time_steps, weight_norms

DEPTHS = {"stacked": "UnICORNN", "residual": "res-UnICORNN (S=2)", "frozen": "c not trained"}


def curve(run: Record) -> pd.DataFrame:
    return pd.DataFrame(run["curve"])


def _curves() -> Iterator[tuple[str, Figure]]:
    for run in group("curves"):
        yield (
            f"curve-{run['name']}",
            learning_curves({"ours": [curve(run)]}, run["metric"], reference=authors(run["name"])),
        )
    for kind, name in (("recipe", "recipes"), ("scale", "scales"), ("state", "states")):
        for run in group(name):
            if (reference := authors(run["name"])) is not None:
                plot = learning_curves({"ours": [curve(run)]}, run["metric"], reference=reference)
                yield f"{kind}-{run['name']}", plot
    if images := group("images"):
        lines = {run["name"]: [curve(run)] for run in images}
        yield "image-cifar10", learning_curves(lines, images[0]["metric"], reference=authors("cifar10"))
    if imdb := group("imdb"):
        theirs = [curve(run) for run in group("protocol") if run["task"] == "imdb"]
        lines = {"our recipes": [curve(run) for run in imdb], "the authors' protocol, here": theirs}
        yield "imdb", learning_curves(lines, "accuracy", reference=authors("imdb"))


def _lines(label: str, lines: dict[str, dict[float, list[float]]], log: bool = False) -> Figure:
    """Accuracies in percent against a number: mean, and deviation where there are several."""
    figure, axis = make_axes(label, "test accuracy (%)")
    for i, (name, points) in enumerate(lines.items()):
        x = sorted(points)
        mean = [100 * fmean(points[at]) for at in x]
        deviation = [100 * stdev(points[at]) if len(points[at]) > 1 else 0.0 for at in x]
        axis.errorbar(x, mean, deviation, color=COLOURS[i], marker="o", capsize=3, label=name)
    if log:
        axis.set_xscale("log")
        axis.xaxis.set_minor_formatter(NullFormatter())
    ticks = sorted({at for points in lines.values() for at in points})
    axis.set_xticks(ticks, [f"{at:g}" for at in ticks])
    if len(lines) > 1:
        axis.legend(fontsize=9, frameon=False)
    return figure


def _points(runs: list[Record], key: Any) -> dict[float, list[float]]:
    return {at: [run["result"]["test"] for run in each] for at, each in together(runs, key).items()}


def _ablations() -> Iterator[tuple[str, Figure]]:
    runs = together(group("ablations"), lambda run: run["name"].split("-")[0])
    for name, label in (("dt", "Δt"), ("alpha", "α")):
        if name in runs:
            yield (
                f"ablation-{name}",
                _lines(label, {"": _points(runs[name], lambda run, n=name: settings(run)[n])}, log=True),
            )
    kinds = {
        label: _points(runs[kind], lambda run: settings(run)["num_layers"])
        for kind, label in DEPTHS.items()
        if kind in runs
    }
    if kinds:
        yield "ablation-depth", _lines("layers L", kinds)
    if "stacked" in runs:
        three = [run for run in runs["stacked"] if settings(run)["num_layers"] == 3]
        yield "weight-norms", weight_norms([curve(run) for run in three])


def _subsampling() -> Iterator[tuple[str, Figure]]:
    runs = together(group("subsampling"), lambda run: settings(run)["subsample"])
    whole = [run for run in group("worms-alone") if run["model"] == "unicornn"]
    if runs:
        lines = {
            f"{how} entries": _points([*each, *whole], lambda run: settings(run)["entries"])
            for how, each in runs.items()
        }
        yield "subsampling", _lines("entries", lines)


def _time_steps() -> Iterator[tuple[str, Figure]]:
    if found := psmnist():
        yield "time-steps", time_steps(torch.tensor(found[0]["time_steps"]))


def plots() -> dict[str, Figure]:
    """All plots for which there are runs, by the names of their files."""
    return {name: made for part in (_curves, _ablations, _subsampling, _time_steps) for name, made in part()}
