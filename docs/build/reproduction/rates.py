"""The published numbers for the two rates, the paper's and later ones, beside ours."""

from __future__ import annotations

from typing import Any, NamedTuple

from docs.build.pages import measured, table
from docs.build.reproduction.results import Record, group, metric, settings
from docs.build.reproduction.summary import ROWS, chosen, tested_words
from unicornn.lab import tasks
from unicornn.lab._text import NONE


class Later(NamedTuple):
    """Root mean squared errors that were published after the paper. ``causal``: an output depends on the past only."""

    model: str
    hr: float
    rr: float | None
    causal: bool
    source: str


LATER = (
    Later("LEM", 0.85, None, True, "Rusch et al., ICLR 2022"),
    Later("S4", 0.332, 0.247, False, "Gu et al., ICLR 2022; quoted by Hasani et al., ICLR 2023"),
    Later("Liquid-S4", 0.303, 0.158, False, "Hasani et al., ICLR 2023"),
)


def rates() -> list[str]:
    """The paper's numbers, those of later models, and ours."""
    hr, rr = ({quoted.model: quoted for quoted in tasks.find(f"bidmc-{rate}").paper} for rate in ("hr", "rr"))
    rmse = tasks.find("bidmc-hr").metric
    rows = [
        [model, *(rmse.text(q[model].value, q[model].deviation) for q in (hr, rr)), "yes", "the paper, Table 4"]
        for model in hr
    ]
    rows += [
        [each.model, f"{each.hr:g}", NONE if each.rr is None else f"{each.rr:g}", "yes" if each.causal else "**no**",
         each.source]
        for each in LATER
    ]  # fmt: skip
    ours = [tested_words(chosen(row)[0]) for row in ROWS if row.task in ("bidmc-hr", "bidmc-rr")]
    rows.append(["UnICORNN, our recipe", *ours, "yes", "here"])
    sets = measured("estimators")["sets"]
    guessed = [rmse.text(sets[name]["guess"]["scores"][0]) for name in ("heart rate", "respiratory rate")]
    return [
        *table(["model", "heart rate", "respiratory rate", "causal", "from"], rows),
        "",
        "Our recipe was chosen by the validation error of short trials. A run prints its test error when it ends, "
        "so those of the trials were seen too, but nothing was chosen by them:",
        "",
        *_trials(),
        "",
        "By patient (`--set split=patient`) the task is another one. There, always answering the mean of the training "
        f"targets has an error of {guessed[0]} for the heart rate and of {guessed[1]} for the respiratory rate "
        "(`python -m benchmarks.estimators`). Forty-six patients, each with nearly one heart rate all the time, are "
        "easier told apart than understood. Played faster and slower in training, and the target changed likewise "
        "(`stretch`), they have many rates. Of the heart rate, something is learned then that holds for other "
        "patients; of the respiratory rate, the best epoch is still the first. Without stretching, the last output is "
        "the better readout for the respiratory rate; for the heart rate, validation and test disagree. Weights are "
        "those of the epoch that was best in validation:",
        "",
        *_by_patient(),
    ]


def _trials() -> list[str]:
    """What our recipe was chosen by."""

    def row(run: Record) -> list[Any]:
        own = settings(run)
        changes = (own.get(name) or NONE for name in ("stretch", "shift"))
        return [own["dropout"], *changes, metric(run).text(run["result"]["valid"])]

    return table(["heart rate, 14 epochs: dropout", "stretch", "shift", "validation"], map(row, group("rate-trials")))


def _by_patient() -> list[str]:
    runs = [run for run in group("energies") if run["task_options"].get("split") == "patient"]
    rows = []
    for run in runs:
        readout, stretch = run["model_options"].get("readout", "last"), run["task_options"].get("stretch") or NONE
        errors = [metric(run).text(run["result"][part]) for part in ("valid", "test")]
        rows.append([tasks.find(run["task"]).title, readout, stretch, run["training"]["epochs"], *errors])
    return table(["by patient", "readout", "stretch", "epochs", "validation", "test"], rows)
