"""The numbers of README.md, and the learning curves of ``make demo``."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from docs.build.baselines import size_words
from docs.build.pages import measured, table
from unicornn.lab.report._plots import learning_curves

PAGE = "README.md"
SHOWN = {"lstm": "LSTM, 1 layer", "lstm:2": "LSTM, 2 layers", "gru:2": "GRU, 2 layers"}


def speed_table() -> list[str]:
    """How many times as long as ours a training step of theirs takes."""
    rows = []
    for result in (measured("bench/speed"), measured("bench/worms")):
        N, models = result["sizes"]["N"][0], result["models"]
        for way, ours in (("stored", 1.0), ("reversible", models["unicornn, reversible"]["time"][str(N)]["ratio"])):
            theirs = [f"{models[name]['time'][str(N)]['ratio'] / ours:.1f} ×" for name in SHOWN]
            rows.append([f"{size_words(result, N)}, `{way}`", *theirs])
    return table(["training step, 2 layers", *SHOWN.values()], rows)


def blocks() -> dict[str, list[str]]:
    step = measured("bench/speed")["models"]["lstm:2"]["step"]["ratio"]
    stream = f"One step of a stream (`step()`, b=1, m=128, 2 layers) is {step:.1f} × faster than an LSTM's."
    return {"speed": [*speed_table(), "", stream]}


def plots() -> dict[str, Figure]:
    runs = measured("demo")
    curves: dict[str, list[pd.DataFrame]] = {}
    for run in runs:
        curves.setdefault(run["model"], []).append(pd.DataFrame(run["curve"]))
    return {"demo": learning_curves(curves, runs[0]["metric"], "seconds")}
