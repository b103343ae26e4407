"""Generated parts of docs/signals.md, from results/signals.json."""

from __future__ import annotations

import re
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from docs.build.pages import figure, load_results, part
from unicornn.lab._metric import Metric
from unicornn.lab.tasks import find
from unicornn.theory.plots import Line, Panel, Plot


@part
def signals() -> list[dict[str, Any]]:
    rows = []
    for run in load_results("signals")["runs"]:
        metric = Metric(run["metric"], more_is_better=run["metric"] == "accuracy")
        half = run.get("half_rate")
        texts = {name: metric.text(run[name]) for name in ("valid", "test")}
        texts |= {"half": metric.text(half["test"]) if half else None, "title": find(run["task"]).title}
        whole = run.get("whole")
        texts["whole"] = f"{whole['right']} of {whole['recordings']}" if whole else None
        rows.append(run | texts | {"minutes": run["seconds"] / 60})
    return rows


def spoken_digits() -> list[dict[str, Any]]:
    """The runs of UnICORNN on the task speech with the best validation accuracy, one per seed."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for run in load_results("signals")["runs"]:
        if (run["task"], run["model"]) == ("speech", "unicornn"):
            runs.setdefault(re.sub(r" --seed \d+", "", run["command"]), []).append(run)
    return max(runs.values(), key=lambda each: fmean(run["valid"] for run in each))


@figure("signals")
def spectrogram() -> Figure:
    """A recording's waveform above the log energies of the oscillators, slowest at the bottom."""
    result = load_results("signals")["spectrogram"]
    energies, seconds = np.array(result["energies"]), len(result["energies"]) * result["hop_seconds"]
    drawing = Figure(figsize=(8, 4.5), layout="constrained")
    wave, image = drawing.subplots(2, 1, sharex=True, height_ratios=(1, 3))
    wave.plot(np.linspace(0, seconds, len(result["waveform"])), result["waveform"], linewidth=0.5, color="black")
    wave.set_axis_off()
    edges = np.arange(energies.shape[0] + 1) * result["hop_seconds"]
    image.pcolormesh(edges, np.arange(energies.shape[1] + 1), energies.T, cmap="magma")
    shown = np.linspace(0, energies.shape[1] - 1, 8).astype(int)
    image.set_yticks(shown + 0.5, [f"{result['hertz'][i]:,.0f}" for i in shown])
    image.set(xlabel="seconds", ylabel="oscillator's frequency, Hz")
    return drawing


@figure("signals_curves")
def curves() -> Figure:
    runs = [run for run in load_results("signals")["runs"] if run["task"] == "speech"]
    lines = [
        Line(f"{r['model']}, {r['seconds'] / 60:.0f} minutes", [*range(1, len(r["valid_curve"]) + 1)], r["valid_curve"])
        for r in runs
    ]
    return Plot("", [Panel("epoch", "accuracy of unseen speakers", lines)]).draw()
