"""The tables of docs/reproduction.md, from what the runs gave."""

from __future__ import annotations

import json
import re
from statistics import fmean, stdev
from typing import Any

from docs.build.pages import measured, table
from docs.build.reproduction import results
from docs.build.reproduction.plots import DEPTHS
from docs.build.reproduction.results import (
    Record,
    authors,
    epochs,
    group,
    metric,
    psmnist,
    settings,
    test_words,
    tested,
    time_taken,
    together,
)
from unicornn.lab import tasks
from unicornn.lab._text import NONE, duration
from unicornn.lab.report._groups import seed_statistics

SHOWN = {
    "rr": "respiratory rate", "hr": "heart rate", "cifar10": "noise-padded CIFAR-10", "psmnist": "psMNIST",
    "imdb": "IMDB",
}  # fmt: skip
PUBLISHED = {  # where the paper's tables call a model otherwise, and how that begins
    "incremental": "incremental rnn", "lipschitz": "lipschitz rnn", "antisymmetric": "anti.sym. rnn",
    "gated-antisymmetric": "gated anti.sym. rnn", "sign-ncde": "sign.-ncde",
}  # fmt: skip
AIMS = {"psmnist": "≥ 97 %", "cifar10": "≥ 55 %", "cifar10-uniform": "≥ 60 %", "rr": "≤ 1.2", "hr": "≤ 1.6"}
SPREAD_AIMS = {"psmnist": "≥ 97 %", "psmnist-energy": "≥ 97 %", "cifar10": "≥ 60 %", "rr": "≤ 1.06", "hr": "≤ 1.39"}
LAST_AIMS = {"cifar10": "≥ 60 %", "cifar10-uniform": "≥ 60 %"}


def kind(run: Record) -> str:
    """The name of a run without its last part, which tells seeds or folds apart."""
    return str(run["name"].rpartition("-")[0])


def subject(run: Record) -> str:
    """The name of a recipe without what tells it from others for the same task: inputs per step, or another time."""
    return re.sub(r"-(\d+|short|longer)$", "", run["name"])


def best(runs: list[Record]) -> str:
    return metric(runs[0]).text(tested(runs).best)


def paper(task: str, model: str, **options: Any) -> str:
    """The published numbers of a model."""
    found = [
        tasks.find(task).metric.text(quoted.value, quoted.deviation)
        for quoted in tasks.find(task).paper
        if quoted.model.lower().startswith(model) and all(options.get(k) == v for k, v in quoted.only.items())
    ]
    return ", ".join(dict.fromkeys(found)) or NONE


def sizes(run: Record) -> str:
    """Layers × units."""
    own = settings(run)
    return f"{own.get('num_layers', 1)} × {own['hidden_size']}"


def lorenz() -> list[str]:
    """Models by F, ours also with time scales spread from the start, and as one wide layer."""

    def key(run: Record) -> tuple[float, str, str, str, int, int]:
        own = settings(run)
        shown = run["model"] + (", spread" if own.get("init") == "spread" else "")
        shown += ", averaged" if own.get("average") else ""
        return own["F"], run["model"], shown, sizes(run), own["batch_size"], own["epochs"]

    found = [*group("lorenz"), *(run for run in group("scales") if run["task"] == "lorenz96")]
    rows = [
        [
            F, shown, units, runs[0]["parameters"], batch, epochs(runs), test_words(runs), best(runs),
            paper("lorenz96", model, F=F), len(runs), time_taken(runs),
        ]
        for (F, model, shown, units, batch, _), runs in together(found, key).items()
    ]  # fmt: skip
    head = [
        "F", "model", "layers × units", "parameters", "batch", "epochs", "test NRMSE", "best", "paper", "seeds",
        "time of a run",
    ]  # fmt: skip
    return table(head, sorted(rows, key=lambda row: (row[0], not row[1].startswith("unicornn"), row[1])))


def trials() -> list[str]:
    """Lorenz 96 with other settings, by F, model and validation metric."""

    def row(run: Record) -> list[Any]:
        own = settings(run)
        dt = own.get("dt", NONE)
        letters = {"α": "alpha", "γ": "gamma", "ε": "epsilon"}
        constants = ", ".join(f"{letter} = {own[name]:g}" for letter, name in letters.items() if name in own) or NONE
        constants += f", horizon {own['horizon']:g}" if own.get("horizon") else ""
        return [
            own["F"], run["model"], sizes(run), ", ".join(map(str, dt)) if isinstance(dt, list) else dt, constants,
            own["lr"], own["batch_size"], own["inputs"],
            own.get("init", "paper") if run["model"] == "unicornn" else NONE, run["result"]["epochs"],
            metric(run).text(run["result"]["valid"]),
        ]  # fmt: skip

    runs = sorted(group("trials"), key=lambda run: (settings(run)["F"], run["model"], run["result"]["valid"]))
    head = [
        "F", "model", "layers × units", "Δt", "constants", "learning rate", "batch", "sees", "time scales", "epochs",
        "validation NRMSE",
    ]  # fmt: skip
    return table(head, map(row, runs))


def imdb() -> list[str]:
    rows = [
        [name, test_words(runs), best(runs), len(runs), epochs(runs), time_taken(runs)]
        for name, runs in together(group("imdb"), kind).items()
    ]
    rows.append(["paper, Table 5 and Table 8", paper("imdb", "unicornn"), NONE, 10, 50, NONE])
    return table(["recipe", "test accuracy", "best", "seeds", "epochs", "time of a run"], rows)


def imdb_trials() -> list[str]:
    """With other readouts, the best in validation first."""
    rows = []
    for run in tasks.find("imdb").metric.ranked(group("imdb-trials"), lambda run: run["result"]["valid"]):
        own, text = settings(run), metric(run).text
        scales, words = own.get("init", "paper"), own.get("embedding_dropout", 0.65)
        readout = own["readout"].split("(")[0]
        rows.append([readout, own.get("patch", 1), words, own["dropout"], scales, run["result"]["epochs"],
                     text(run["result"]["valid"]), text(run["result"]["test"]), time_taken([run])])  # fmt: skip
    head = [
        "readout",
        "words per step",
        "words left out",
        "dropout",
        "time scales",
        "epochs",
        "validation",
        "test",
        "time",
    ]
    return table(head, rows)


def right_of(runs: list[Record]) -> tuple[int, int]:
    """Test recordings that were classified rightly, and all of them, over the folds."""
    numbers = [run["test_sequences"] for run in runs]
    return sum(round(run["result"]["test"] * n) for run, n in zip(runs, numbers, strict=True)), sum(numbers)


def epoch_time(runs: list[Record]) -> str:
    """The mean over the runs."""
    return f"{fmean(run['result']['seconds'] / run['result']['epochs'] for run in runs):.1f} s"


def worms() -> list[str]:
    rows = []
    for name, runs in together(group("worms"), kind).items():
        right, of = right_of(runs)
        share = f"{100 * right / of:.0f} %"
        rows.append([name, runs[0]["parameters"], f"{right} of {of}", share, len(runs), epochs(runs), epoch_time(runs)])
    if (path := results.RUNS / "by_hand.json").exists():
        hand = json.loads(path.read_text(encoding="utf-8"))
        right, of = sum(hand["right"]), sum(hand["of"])
        share = f"{100 * right / of:.0f} %"
        rows.append(["six deviations, logistic regression", 35, f"{right} of {of}", share, len(hand["of"]), NONE, NONE])
    return table(["model", "parameters", "right", "accuracy", "folds", "epochs", "time of an epoch"], rows)


def worms_alone() -> list[str]:
    """Pieces that start from rest: recordings classified rightly over the folds, mean and deviation over seeds."""
    rows = []
    for model, runs in together(group("worms-alone"), lambda run: run["model"]).items():
        every = [right_of(folds) for folds in together(runs, kind).values()]
        right, of = [float(found) for found, _ in every], every[0][1]
        deviation = f" ± {stdev(right):.1f}" if len(right) > 1 else ""
        share = f"{100 * fmean(right) / of:.0f} %"
        number = f"{fmean(right):.1f}{deviation} of {of}" if deviation else f"{right[0]:.0f} of {of}"
        rows.append([model, runs[0]["parameters"], number, share, len(every), epochs(runs), epoch_time(runs)])
    rocket = measured("estimators")["sets"]["worms44"]["minirocket"]["scores"]
    share = f"{100 * fmean(rocket):.0f} %"
    rows.append(["MiniRocket and ridge, on the 43 that are whole", NONE, NONE, share, len(rocket), NONE, NONE])
    head = ["model", "parameters", "right", "accuracy", "seeds", "epochs", "time of an epoch"]
    return table(head, sorted(rows, key=lambda row: -int(row[3].removesuffix(" %"))))


def subsampling() -> list[str]:
    rows = []
    for (how, entries), runs in together(
        group("subsampling"), lambda run: (settings(run)["subsample"], settings(run)["entries"])
    ).items():
        right, of = right_of(runs)
        rows.append([how, entries, f"{right} of {of}", f"{100 * right / of:.0f} %", len(runs), epochs(runs)])
    head = ["which entries", "how many", "right", "accuracy", "folds", "epochs"]
    return table(head, sorted(rows, key=lambda row: (row[0], row[1])))


def curves() -> list[str]:
    rows = []
    for run in group("curves"):
        theirs = authors(run["name"])
        for epoch, valid in zip(run["curve"]["epoch"], run["curve"]["valid"], strict=True):
            at = None if theirs is None else theirs.loc[theirs["epoch"] == epoch, "valid"]
            beside = metric(run).text(float(at.iloc[0])) if at is not None and len(at) else NONE
            rows.append([SHOWN[run["name"]], int(epoch), metric(run).text(valid), beside])
    return table(["task", "epoch", "ours (validation)", "authors' (validation)"], rows)


def seeds() -> list[str]:
    """The first epochs of CIFAR-10 by the authors' protocol: every seed, and the authors' run."""
    runs = [run for name in ("curves", "protocol") for run in group(name) if run["task"] == "cifar10-noise"]
    theirs = authors("cifar10")
    if len(runs) < 2 or theirs is None:
        return ["Not run yet: `python -m reproduction protocol`."]
    rows = []
    for epoch in range(1, 1 + min(3, *(len(run["curve"]["valid"]) for run in runs))):
        valid = [run["curve"]["valid"][epoch - 1] for run in runs]
        mean, deviation, _ = seed_statistics(valid, metric(runs[0]))
        there = float(theirs.loc[theirs["epoch"] == epoch, "valid"].iloc[0])
        text = metric(runs[0]).text
        rows.append([epoch, *map(text, valid), text(mean, deviation), text(there)])
    return table(["epoch", *(f"seed {run['seed']}" for run in runs), "mean ± deviation", "authors'"], rows)


def _when(run: Record) -> str:
    """After how many epochs the authors' run had the validation metric of this one."""
    theirs = authors(subject(run))
    if theirs is None:
        return NONE
    ours, own = run["result"]["valid"], metric(run)
    there = theirs["epoch"][[not own.better(ours, valid) for valid in theirs["valid"]]]
    return str(int(there.iloc[0])) if len(there) else f"not in {int(theirs['epoch'].max())}"


def recipes() -> list[str]:
    return _recipes(group("recipes"), AIMS)


def scales() -> list[str]:
    """Recipes with time scales spread from the start; Lorenz 96 has a table of its own."""
    return _recipes([run for run in group("scales") if run["task"] != "lorenz96"], SPREAD_AIMS)


def states() -> list[str]:
    """Recipes that read the whole state."""
    return _recipes(group("states"), LAST_AIMS)


def images() -> list[str]:
    """Recipes with standardised pixels and mirror images."""
    return _recipes(group("images"), LAST_AIMS)


def _recipes(runs: list[Record], aims: dict[str, str]) -> list[str]:
    rows = [
        [
            run["name"], test_words([run]), metric(run).text(run["result"]["valid"]),
            aims.get(subject(run), NONE), paper(run["task"], "unicornn") if subject(run) in aims else NONE,
            run["result"]["epochs"], _when(run), time_taken([run]), run["environment"]["threads"],
        ]
        for run in runs
    ]  # fmt: skip
    head = [
        "run",
        "test",
        "validation",
        "aim",
        "paper",
        "epochs",
        "authors' epochs to this validation",
        "time",
        "cores",
    ]
    return table(head, rows) if rows else ["Not run yet."]


def equal() -> list[str]:
    """Models in the same time, the best of each task first."""
    if not group("equal"):
        return ["Not run yet: `python -m reproduction equal`."]
    rows = []
    for task, runs in together(group("equal"), lambda run: run["task"]).items():
        ranked = metric(runs[0]).ranked(runs, lambda run: run["result"]["test"])
        for run in ranked:
            name = run["name"].removeprefix(f"{task}-")
            published = paper(task, PUBLISHED.get(run["model"], run["model"]))
            rows.append([task, name, run["parameters"], test_words([run]), published])
    time = duration(group("equal")[0]["budget"])
    head = ["task", "model", "parameters", "test, after equal time", "paper"]
    return [f"Each model was trained for {time}, less than an epoch:", "", *table(head, rows)]


def ablations() -> list[str]:
    runs, rows = together(group("ablations"), lambda run: run["name"].split("-")[0]), []
    for name, label in (("dt", "Δt"), ("alpha", "α")):
        for value, each in sorted(together(runs.get(name, []), lambda run, n=name: settings(run)[n]).items()):  # type: ignore[misc]
            rows.append([f"{label} = {value:g}", test_words(each), len(each), epochs(each)])
    for name, label in DEPTHS.items():
        for L, each in sorted(together(runs.get(name, []), lambda run: settings(run)["num_layers"]).items()):
            rows.append([f"{label}, L = {L}", test_words(each), len(each), epochs(each)])
    return table(["changed", "test accuracy", "seeds", "epochs"], rows)


def time_steps() -> list[str]:
    """Of which network the time steps are, and how far the smallest is from the largest possible one."""
    if (found := psmnist()) is None:
        return ["No network has been trained yet."]
    run, single = found
    own, done = settings(run), run["result"]["epochs"] if run["result"] else int(run["curve"]["epoch"][-1])
    most = max(own["dt"]) if isinstance(own["dt"], list) else own["dt"]
    least = min(a for layer in run["time_steps"] for a in layer)
    reads = "pixel by pixel" if single else f"{own['patch']} pixels per step"
    begun = (
        "time scales that were spread from the start" if own.get("init") == "spread" else "the paper's initialisation"
    )
    return [
        f"The network read {reads}, and was trained for {done} epochs, with {begun}. Its smallest time step is "
        f"{least:.3g}, which is {most / least:.1f} times smaller than Δt = {most:g}, the largest possible one. In the "
        "paper it is 28 times smaller."
    ]


def retraining() -> list[str]:
    """Table 8: mean and deviation of re-trainings."""
    groups = {
        "IMDB": together(group("imdb"), kind),
        "Lorenz 96": {
            f"F = {F}, {units} units": runs
            for (F, units), runs in together(
                [run for run in group("lorenz") if run["model"] == "unicornn"],
                lambda run: (settings(run)["F"], sizes(run)),
            ).items()
        },
        "CIFAR-10, smaller": together(
            [run for run in group("ablations") if run["name"].startswith("stacked-3")], lambda _: "L = 3"
        ),
    }
    rows = [
        [task, name, test_words(runs), best(runs), len(runs)]
        for task, each in groups.items()
        for name, runs in each.items()
        if len(runs) > 1
    ]
    return table(["task", "which", "mean ± deviation", "best", "re-trainings"], rows)


def commands(name: str) -> list[str]:
    """What was run, one line for the runs that differ in nothing but seed and fold."""
    found: dict[str, None] = {}
    for run in group(name):
        words, kept = run["command"].split(), []
        for i, word in enumerate(words):
            pair = " ".join(words[i : i + 2])
            if not (
                pair.startswith(("--seed ", "--set fold=")) or words[i - 1] == "--seed" or word.startswith("fold=")
            ):
                kept.append(word)
        found[" ".join(kept)] = None
    return ["<details><summary>commands</summary>", "", "```sh", *found, "```", "", "</details>"]
