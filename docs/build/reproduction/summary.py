"""The first table of docs/reproduction.md: one row for every result of UnICORNN's in the paper, beside ours."""

from __future__ import annotations

import re
from statistics import fmean
from typing import NamedTuple

from docs.build.pages import table
from docs.build.reproduction.results import (
    Record,
    authors,
    group,
    metric,
    test_words,
    time_taken,
    together,
    unfinished,
)
from unicornn.lab import tasks
from unicornn.lab._text import NONE


class Source(NamedTuple):
    """Runs of a group whose names fit a pattern, and in what they differ from the paper's protocol."""

    group: str
    pattern: str
    differs: str = ""


class Row(NamedTuple):
    """A result of the paper. Of several recipes the one that is best in validation counts; seeds end a name as -0, -1.
    ``curve`` names the authors' learning curve, and
    ``note`` says why there is nothing to compare with."""

    title: str
    task: str
    units: int | None
    protocol: Source | None
    recipes: tuple[Source, ...]
    curve: str = ""
    F: float | None = None
    note: str = NONE


SPREAD = "time scales spread from the start"
CYCLE = "one cycle of the learning rate"
SHORT = "short sequences first"
GROWING = "sequences that grow"
WHOLE = "the whole state is read"
IMAGES = "standardised pixels"
PICTURES = f"{GROWING}; {IMAGES}; mirror images; {CYCLE}"
SUMS = "one layer of slow oscillators, whose whole state is read; rare words are moved little"
AVERAGED = "averaged weights"
STEPS = "several samples per step"
SHIFTED = "windows that begin anywhere in their first 4 s; no dropout"
WIDE = "one layer of 700 units instead of two of 90, as many parameters"
NOTHING = "the paper gives no settings"


def _rate(title: str, name: str) -> Row:
    recipes = (
        Source("scales", name, f"{SPREAD}; {STEPS}; {SHIFTED}"),
        Source("energies", f"{name}-random-.*", f"{SPREAD}; {STEPS}"),
        Source("recipes", name, STEPS),
    )
    return Row(title, f"bidmc-{name}", None, Source("curves", name), recipes, name)


ROWS = (
    Row(
        "psMNIST, 128 units", "psmnist", 128, None,
        (
            Source("scales", "psmnist", f"{SPREAD}; {CYCLE}"),
            Source("recipes", "psmnist", f"eight pixels per step, an easier task; {CYCLE}"),
        ),
    ),
    Row(
        "psMNIST, 128 units, whose energies are read too", "psmnist", 128, None,
        (Source("scales", "psmnist-energy", f"the readout; {SPREAD}; {CYCLE}"),),
    ),
    Row("psMNIST, 256 units", "psmnist", 256, Source("curves", "psmnist"), (), "psmnist"),
    Row(
        "noise-padded CIFAR-10, one normal tail for all images, as in the authors' code", "cifar10-noise", 128,
        Source("curves", "cifar10"),
        (
            Source("images", "cifar10-longer", f"{PICTURES}; {AVERAGED}"),
            Source("images", "cifar10(-short)?", PICTURES),
            Source("states", "cifar10", f"{WHOLE}; {GROWING}; {IMAGES}; {SPREAD}; {CYCLE}"),
            Source("scales", "cifar10", f"{SPREAD}; {SHORT}"),
            Source("recipes", "cifar10", SHORT),
        ),
        "cifar10",
    ),
    Row(
        "noise-padded CIFAR-10, uniform noise, as the paper describes it", "cifar10-noise", 128, None,
        (
            Source("images", "cifar10-uniform", f"{PICTURES}; {AVERAGED}"),
            Source("recipes", "cifar10-uniform", SHORT),
        ),
        note="not run",
    ),
    Row(
        "EigenWorms", "eigenworms", 32, None, (),
        note="its files could not be had; [44 recordings of the same kind](#44-worms) take its place",
    ),
    _rate("heart rate", "hr"),
    _rate("respiratory rate", "rr"),
    Row(
        "IMDB", "imdb", 128, Source("protocol", r"imdb-\d"),
        (
            Source("imdb", r"sums-\d", f"lengths honoured; our tokeniser; {CYCLE}; {SUMS}; {AVERAGED}"),
            Source("imdb", r"fifty-\d", f"lengths honoured; our tokeniser; {CYCLE}"),
        ),
        "imdb",
    ),
    Row(
        "Lorenz 96, F = 0.9", "lorenz96", 90, None,
        (
            Source("lorenz", r"F0.9-wide-\d", f"{NOTHING}; {WIDE}; {SPREAD}"),
            Source("scales", r"lorenz(-\w+)?-\d", f"{NOTHING}; {SPREAD}"),
            Source("lorenz", r"F0.9-unicornn-\d", NOTHING),
        ),
        F=0.9,
    ),
    Row(
        "Lorenz 96, F = 8", "lorenz96", 90, None,
        (
            Source("lorenz", r"F8-wide-\d", f"{NOTHING}; {WIDE}; {SPREAD}"),
            Source("lorenz", r"F8-unicornn-\d", NOTHING),
        ),
        F=8.0,
    ),
)  # fmt: skip


def summary() -> list[str]:
    head = ["result", "paper", "the paper's protocol, here", "our recipe, here", "time on one core", "how ours differs"]
    return table(head, (_row(row) for row in ROWS))


def _row(row: Row) -> list[str]:
    runs, differs = chosen(row)
    time = time_taken(runs) if runs else NONE
    return [row.title, _paper(row), _by_protocol(row), tested_words(runs), time, differs]


def _paper(row: Row) -> str:
    """The best run, and mean and deviation of several, where the paper has both."""
    task = tasks.find(row.task)
    found = [
        task.metric.text(quoted.value, quoted.deviation)
        for quoted in task.paper
        if quoted.model.startswith("UnICORNN") and quoted.units == row.units and quoted.only.get("F") == row.F
    ]
    return ", ".join(found)


def _of(records: list[Record], source: Source) -> list[Record]:
    return [run for run in records if re.fullmatch(source.pattern, run["name"])]


def chosen(row: Row) -> tuple[list[Record], str]:
    """The runs of the recipe that counts, and how it differs."""
    recipes = [
        (runs, source.differs)
        for source in row.recipes
        for runs in together(_of(group(source.group), source), lambda run: re.sub(r"-\d+$", "", run["name"])).values()
    ]
    best = tasks.find(row.task).metric.best(recipes, lambda each: fmean(run["result"]["valid"] for run in each[0]))
    return best or ([], row.note)


def tested_words(runs: list[Record]) -> str:
    if not runs:
        return NONE
    return test_words(runs) + (f" ({len(runs)} seeds)" if len(runs) > 1 else "")


def _by_protocol(row: Row) -> str:
    """The test metric of a run of full length; of a shorter one the validation metric, and the authors' there."""
    if row.protocol is None:
        return NONE
    done = _of(group(row.protocol.group), row.protocol)
    if whole := [run for run in done if run["result"]["epochs"] >= _planned(run)]:
        return tested_words(whole)
    begun = [*done, *_of(unfinished(row.protocol.group), row.protocol)]
    return next((_so_far(run, row.curve) for run in begun if run["curve"]["epoch"]), NONE)


def _planned(run: Record) -> int:
    """Epochs of the protocol."""
    return int(tasks.find(run["task"]).training.epochs)


def _so_far(run: Record, curve: str) -> str:
    epoch, valid = int(run["curve"]["epoch"][-1]), run["curve"]["valid"][-1]
    theirs = authors(curve)
    there = None if theirs is None else theirs.loc[theirs["epoch"] == epoch, "valid"]
    beside = f" (authors' {metric(run).text(float(there.iloc[0]))})" if there is not None and len(there) else ""
    return f"{metric(run).text(valid)} in validation{beside} after {epoch} of {_planned(run)} epochs"
