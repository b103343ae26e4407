"""Generated parts of docs/reproduction.md, from the records in results/reproduction; the tasks in docs/training.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from statistics import fmean, stdev
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from docs.build.pages import DASH, figure, load_results, part
from unicornn.lab import tasks
from unicornn.lab._metric import Metric
from unicornn.lab._text import duration
from unicornn.lab.tasks import Task
from unicornn.theory.plots import Line, Panel, Plot

Record = dict[str, Any]  # one run: its name, settings, environment, result and learning curve


class Experiment(NamedTuple):
    """One row of the summary: a result of the paper and the runs that repeat it.

    ``units`` and ``F`` select the published numbers.
    """

    title: str
    task: str
    recipe: str = ""
    units: int | None = None
    F: float | None = None
    protocol: str = ""


CIFAR = "noise-padded CIFAR-10, noise of the"
EXPERIMENTS = (
    Experiment("psMNIST, 128 units", "psmnist", "scales/psmnist", 128),
    Experiment("psMNIST, 128 units, energies read too", "psmnist", "scales/psmnist-energy", 128),
    Experiment("psMNIST, 256 units", "psmnist", "", 256, protocol="curves/psmnist"),
    Experiment(f"{CIFAR} authors' code", "cifar10-noise", "images/cifar10-longer", 128, protocol="curves/cifar10"),
    Experiment(f"{CIFAR} paper's text", "cifar10-noise", "images/cifar10-uniform", 128),
    Experiment("EigenWorms", "eigenworms", "", 32),
    Experiment("heart rate", "bidmc-hr", "scales/hr", protocol="curves/hr"),
    Experiment("respiratory rate", "bidmc-rr", "scales/rr", protocol="curves/rr"),
    Experiment("IMDB", "imdb", "imdb/sums", 128, protocol="protocol/imdb"),
    Experiment("Lorenz 96, F = 0.9", "lorenz96", "lorenz/F0.9-wide", 90, F=0.9),
    Experiment("Lorenz 96, F = 8", "lorenz96", "lorenz/F8-wide", 90, F=8.0),
)


def finished_runs(sources: str) -> list[Record]:
    """Finished runs by "GROUP/NAME": a file of results/reproduction, and a pattern for names without a final seed.

    Several sources are separated by spaces.
    """
    runs = []
    for group, _, name in (source.partition("/") for source in sources.split()):
        records = load_results(f"reproduction/{group}")
        runs += [run for run in records if run["result"] and re.fullmatch(rf"(?:{name})(?:-\d+)?", run["name"])]
    return runs


def grouped(runs: Iterable[Record], key: Callable[[Record], Any]) -> dict[Any, list[Record]]:
    groups: dict[Any, list[Record]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def settings(run: Record) -> Record:
    return {**run["training"], **run["model_options"], **run["task_options"]}


def metric(run: Record) -> Metric:
    return Metric(run["metric"], run["more_is_better"])


def outcome(runs: Sequence[Record]) -> Record:
    """The test metric of some runs, mean and standard deviation over seeds, and their mean time, as text."""
    scores, text = [run["result"]["test"] for run in runs], metric(runs[0]).text
    several = len(scores) > 1
    test = f"{text(fmean(scores), stdev(scores))} ({len(scores)} seeds)" if several else text(scores[0])
    return {"test": test, "time": duration(fmean(run["result"]["seconds"] for run in runs))}


def published_results(task: str, model: str, **options: Any) -> list[Any]:
    """The paper's results for a model; ``options`` are a task's options, or ``units``."""
    return [
        result
        for result in tasks.find(task).paper
        if result.model.lower().startswith(model)
        and options.get("units", result.units) == result.units
        and all(options.get(key) == value for key, value in result.only.items())
    ]


def published(task: str, model: str, **options: Any) -> str:
    quoted = published_results(task, model, **options)
    return ", ".join(dict.fromkeys(tasks.find(task).metric.text(r.value, r.deviation) for r in quoted)) or DASH


@part
def task_table() -> list[dict[str, Any]]:
    return [
        {"title": task.title, "data": task.size, "name": task.name, "variants": ", ".join(task.variants)}
        | {"paper": _published(task), "options": _options(task)}
        for task in map(tasks.find, tasks.names())
    ]


def _published(task: Task) -> str:
    quoted = [result for result in task.paper if result.model.startswith("UnICORNN")]
    values = dict.fromkeys(task.metric.text(result.value, result.deviation) for result in quoted)
    return f"{task.metric.name} {', '.join(values)}" if quoted else ""


def _options(task: Task) -> str:
    def as_typed(value: Any) -> str:
        if isinstance(value, tuple):
            return ",".join(map(str, value)) or "none"
        return str(value).lower() if isinstance(value, bool) else str(value)

    possible = {name: [o.default] if isinstance(o, tasks.Number) else o for name, o in task.options.items()}
    return "; ".join(f"{name}: {', '.join(map(as_typed, values))}" for name, values in possible.items())


def _reached(task: str, runs: Sequence[Record], **options: Any) -> str:
    """Whether our mean test metric reaches the paper's best run, or only the mean over its runs."""
    ours = fmean(run["result"]["test"] for run in runs)
    results = published_results(task, "unicornn", **options)
    cost = metric(runs[0]).cost
    good = [cost(ours) <= cost(result.value) for result in results]
    return "yes" if all(good) else "mean only" if any(good) else "no"


def _by_protocol(source: str) -> str:
    """The test metric of a run of full length; else the validation metric so far, and the authors' at that epoch."""
    (run,) = finished_runs(source)
    epochs, planned = run["result"]["epochs"], tasks.find(run["task"]).training.epochs
    if epochs >= planned:
        return str(outcome([run])["test"])
    theirs = dict(zip(*load_results("reproduction/authors")["curves"][source.partition("/")[2]].values(), strict=True))
    ours, authors = (metric(run).text(value) for value in (run["curve"]["valid"][-1], theirs[epochs]))
    return f"validation {ours} (authors' {authors}) after {epochs} of {planned} epochs"


VERDICTS = {"yes": "confirmed", "mean only": "confirmed on average, not the best run", "no": "not reached"}


@cache
def summary_rows() -> list[Record]:
    rows = []
    for experiment in EXPERIMENTS:
        row: Record = {"title": experiment.title}
        selected = {"units": experiment.units, "F": experiment.F}
        row["paper"] = published(experiment.task, "unicornn", **selected)
        quoted = published_results(experiment.task, "unicornn", **selected)
        row["source"] = ", ".join(dict.fromkeys(result.source for result in quoted))
        row["protocol"] = _by_protocol(experiment.protocol) if experiment.protocol else None
        if experiment.recipe:
            runs = finished_runs(experiment.recipe)
            row |= outcome(runs) | {"reached": _reached(experiment.task, runs, **selected)}
        missing = "not run to the end" if experiment.protocol else "not testable here: data unavailable"
        rows.append(row | {"verdict": VERDICTS.get(row.get("reached", ""), missing)})
    return rows


@part
def verdict() -> dict[str, Any]:
    titles = {reached: [row["title"] for row in rows] for reached, rows in
              grouped(summary_rows(), lambda row: row.get("reached")).items() if reached}  # fmt: skip
    text = {reached.split()[0]: "; ".join(each) for reached, each in titles.items()}
    counts = {"reached": len(titles["yes"]), "total": sum(map(len, titles.values()))}
    return {"yes": "none", "mean": "none", "no": "none"} | text | counts


@part
def experiments(having: str = "title") -> list[Record]:
    """The rows of the summary that have a field."""
    return [row for row in summary_rows() if row.get(having)]


@part
def recipe(*names: str) -> list[str]:
    """The commands of some runs, without seed and fold."""
    found = [re.sub(r" --(seed \S+|set fold=\S+)", "", finished_runs(name)[0]["command"]) for name in names]
    return ["```sh", *found, "```"]


WORMS = r"worms-alone/unicornn-\d"


@part
def worms() -> Record:
    """Correctly classified recordings: UnICORNN, MiniRocket, and a classifier that knows nothing of time."""
    correct, total = [], 0
    for folds in grouped(finished_runs(WORMS), lambda run: run["name"].rpartition("-")[0]).values():
        counts = [run["test_sequences"] for run in folds]
        correct.append(sum(round(run["result"]["test"] * n) for run, n in zip(folds, counts, strict=True)))
        total = sum(counts)
    rocket, linear = load_results("estimators")["sets"]["worms44"]["minirocket"], load_results("reproduction/by_hand")
    ours = {"mean": fmean(correct), "deviation": stdev(correct), "share": fmean(correct) / total, "seeds": len(correct)}
    linear |= {"right": sum(linear["right"]), "of": sum(linear["of"])}
    return linear | ours | {"total": total, "rocket": fmean(rocket["scores"])}


@part
def lorenz() -> list[Record]:
    """Models by F; ours at the paper's size, with the longest training, and as one wide layer."""
    rows = []
    runs = grouped(finished_runs("lorenz/.* scales/lorenz-both"), lambda run: re.sub(r"-\d$", "", run["name"]))
    for each in runs.values():
        chosen, model = {"num_layers": 1, **settings(each[0])}, each[0]["model"]
        chosen |= outcome(each) | {"paper": published("lorenz96", model, F=chosen["F"])}
        model += ", state of all layers" if "state" in chosen.get("readout", "") else ""
        model += f", {chosen['head_size']} neurons in the head" if chosen.get("head_size") else ""
        rows.append(chosen | {"model": model, "parameters": each[0]["parameters"]})
    rows.sort(key=lambda row: (row["F"], not row["model"].startswith("unicornn"), row["model"], row["test"]))
    return rows


@part
def learned_parameters(*sources: str) -> Record:
    """Epochs of training, factors between Δt and the smallest effective time step, and the norms ‖w‖∞: the largest of a
    layer after the first epoch, and in any epoch."""
    runs = finished_runs(" ".join(sources))
    norms = [values for run in runs for name, values in run["curve"].items() if name.startswith("w_norm")]
    factors = [settings(run)["dt"] / min(map(min, run["time_steps"])) for run in runs if "time_steps" in run]
    found = {"first": max(values[0] for values in norms), "largest": max(map(max, norms))}
    return found | {"factors": factors, "epochs": [run["result"]["epochs"] for run in runs]}


def _curves(title: str, authors: str, sources: dict[str, str]) -> Panel:
    """Validation metric against the epoch, one line per run; the authors' own run in grey."""
    lines, scale = [], 1.0
    for number, (label, source) in enumerate(sources.items()):
        runs = finished_runs(source)
        scale = 100.0 if runs[0]["metric"] == "accuracy" else 1.0
        for run in runs:
            style = {"color": f"C{number}", "marker": "o" if len(run["curve"]["epoch"]) < 5 else ""}
            valid = [scale * value for value in run["curve"]["valid"]]
            lines.append(Line(label if run is runs[0] else "", run["curve"]["epoch"], valid, style=style))
    if authors:
        theirs = load_results("reproduction/authors")["curves"][authors]
        style = {"color": "#808080", "linestyle": "--"}
        lines.append(Line("authors' own run", theirs["epoch"], [scale * v for v in theirs["valid"]], style=style))
    label, yscale = ("validation accuracy (%)", "linear") if scale > 1 else ("validation error", "log")
    return Panel("epoch", label, lines, {"xscale": "log", "yscale": yscale, "title": title})


def _against(label: str, lines: Mapping[str, Sequence[Record]], key: str) -> Panel:
    """Mean test accuracy against a setting."""
    drawn = []
    for name, runs in lines.items():
        scores = {x: 100 * fmean(run["result"]["test"] for run in each)
                  for x, each in sorted(grouped(runs, lambda run: settings(run)[key]).items())}  # fmt: skip
        drawn.append(Line(name, list(scores), list(scores.values()), style={"marker": "o"}))
    return Panel(label, "test accuracy (%)", drawn)


Curves = dict[str, tuple[str, dict[str, str]]]  # by the title of a panel: the authors' curve, and runs by label
CURVES: dict[str, Curves] = {
    "psmnist": {"psMNIST": ("psmnist", {
        "our recipe": "scales/psmnist", "our recipe, energies read too": "scales/psmnist-energy",
        "paper's protocol, 256 units": "curves/psmnist",
    })},
    "cifar10": {"noise-padded CIFAR-10": ("cifar10", {
        "our recipe": "images/cifar10-longer", "our recipe, noise of the paper's text": "images/cifar10-uniform",
        "authors' protocol, 3 seeds": "curves/cifar10 protocol/cifar10",
    })},
    "rates": {
        "heart rate": ("hr", {"our recipe": "scales/hr", "paper's protocol": "curves/hr"}),
        "respiratory rate": ("rr", {"our recipe": "scales/rr", "paper's protocol": "curves/rr"}),
    },
    "imdb": {"IMDB": ("imdb", {"our recipe": "imdb/sums", "authors' protocol": "protocol/imdb"})},
    "lorenz": {f"Lorenz 96, F = {F}": ("", {
        "UnICORNN, 1 × 700": f"lorenz/F{F}-wide", "UnICORNN, 2 × 90": f"lorenz/F{F}-unicornn",
        "coRNN": f"lorenz/F{F}-cornn", "LSTM": f"lorenz/F{F}-lstm",
    }) for F in ("0.9", "8")},
}  # fmt: skip


def curves_figure(name: str) -> Figure:
    return Plot("", [_curves(title, *panel) for title, panel in CURVES[name].items()]).draw()


for _name in CURVES:
    figure(f"reproduction/{_name}")(partial(curves_figure, _name))


@figure("reproduction/worms")
def worms_figure() -> Figure:
    runs = grouped(finished_runs("subsampling/.*"), lambda run: f"{settings(run)['subsample']} entries")
    return Plot("", [_against("entries", {name: runs[name] + finished_runs(WORMS) for name in runs}, "entries")]).draw()


@figure("reproduction/ablations")
def ablation_figure() -> Figure:
    depths = {"stacked": "UnICORNN", "residual": "skip connections, S = 2", "frozen": "c not trained"}
    by_depth = {label: finished_runs(rf"ablations/{kind}-\d") for kind, label in depths.items()}
    panels = [
        _against("layers L", by_depth, "num_layers"),
        _against("Δt", {"UnICORNN": finished_runs("ablations/dt-.*")}, "dt"),
        _against("α", {"UnICORNN": finished_runs("ablations/alpha-.*")}, "alpha"),
    ]
    return Plot("", panels).draw()
