"""Generated parts of docs/speed.md, docs/baselines.md and of the measurements in README.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from docs.build.pages import figure, load_results, part, table
from unicornn.lab.bench._chart import chart, fastest_first
from unicornn.theory.plots import Line, Panel, Plot

STORED, REVERSIBLE, LSTM = "unicornn, stored", "unicornn, reversible", "lstm:2"
MODELS = {
    STORED: "UnICORNN, `stored`",
    REVERSIBLE: "UnICORNN, `reversible`",
    "lstm": "LSTM",
    LSTM: "LSTM",
    "gru:2": "GRU",
}
SIZES = {"wide": "N=1000, b=128, d=m=128", "long": "N=17984, b=8, d=6, m=32"}  # those of benchmarks/speed.py
DOTS = {"marker": "o"}


@part
def training_steps(name: str) -> list[dict[str, Any]]:
    """A training step and a forward pass of UnICORNN beside torch's layers, at the shortest length."""
    result, rows = load_results(f"bench/{name}"), []
    N = str(result["sizes"]["N"][0])
    for name, label in MODELS.items():
        model = result["models"].get(name, {"time": {}})
        if time := model["time"].get(N):
            forward = {f"forward {key}": value for key, value in model.get("forward", {}).get(N, {}).items()}
            rows.append({"name": label, "layers": model["layers"], **time, **forward})
    return rows


@part
def alternating(name: str) -> list[dict[str, Any]]:
    """Speed-ups measured in alternation: two layers against one of LSTM, one layer against one of minGRU."""
    ratios = {key: result["ratio"] for key, result in load_results("speed")[name].items() if "," in key}
    return [{"sizes": text} | {key.removeprefix(f"{size}, "): ratio for key, ratio in ratios.items() if size in key}
            for size, text in SIZES.items()]  # fmt: skip


@figure("speed_ups")
def speed_ups() -> Figure:
    """Bars: two layers against one of LSTM, one layer against one of minGRU."""
    kinds = {"stored": 'LSTM, training,\n"stored"', "reversible": 'LSTM, training,\n"reversible"',
             "forward": "LSTM, forward", "minGRU": "minGRU, training"}  # fmt: skip
    ratios = pd.DataFrame(alternating("rivals")).set_index("sizes").T.rename(kinds)
    drawn = Figure(figsize=(8, 3.2), layout="constrained")
    axes = ratios.plot.bar(ax=drawn.subplots(), rot=0, width=0.74, ylabel="times as fast")
    for bars in axes.containers:
        axes.bar_label(bars, fmt="%.1f ×")
    axes.axhline(1, color="grey", linestyle=":")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return drawn


@figure("lengths")
def time_and_memory() -> Figure:
    """Time and memory of a training step against the length."""
    models = load_results("bench/lengths")["models"]
    labels = {REVERSIBLE: 'UnICORNN, gradient="reversible"', STORED: 'UnICORNN, gradient="stored"', LSTM: "LSTM"}
    times, memory = [], []
    for name, label in labels.items():
        Ns = list(map(int, models[name]["time"]))
        times.append(Line(label, Ns, [time["ms"] / 1e3 for time in models[name]["time"].values()], style=DOTS))
        memory.append(Line(label, Ns, [models[name]["memory"][str(N)] for N in Ns], style=DOTS))
    log = {"xscale": "log", "yscale": "log"}
    panels = [Panel("time steps", "seconds", times, log), Panel("time steps", "MiB beyond the input", memory, log)]
    return Plot("Time and memory of a training step, two layers", panels).draw()


@figure("demo")
def demo_curves() -> Figure:
    """The learning curves of ``make demo``."""
    lines = []
    for run in load_results("demo"):
        minutes, accuracy = [t / 60 for t in run["curve"]["seconds"]], [100 * v for v in run["curve"]["valid"]]
        lines.append(Line(run["model"], minutes, accuracy))
    return Plot("Handwritten digits, then noise", [Panel("minutes", "validation accuracy (%)", lines)]).draw()


def size_text(result: Mapping[str, Any]) -> str:
    """The sizes of a benchmark at its shortest length, in one phrase."""
    N, (b, d, m) = result["sizes"]["N"][0], (result["sizes"][letter] for letter in "bdm")
    return f"N={N}, b={b}, " + (f"d=m={m}" if d == m else f"d={d}, m={m}")


def _relative_time(result: Mapping[str, Any], name: str) -> str | None:
    if (model := result["models"].get(name)) is None:
        return None
    if (time := model["time"].get(str(result["sizes"]["N"][0]))) is None:
        return "failed"
    return f"{time['ratio']:.1f} ×" + (" (once)" if time["rounds"] == 1 else "") + (" †" if model.get("older") else "")


@part
def cost_of_baselines() -> list[str]:
    speed, worms = load_results("bench/baselines"), load_results("bench/baselines-worms")
    lengths, rows = sorted({int(N) for model in speed["models"].values() for N in model["memory"]}), []
    for name in fastest_first(speed):
        model = speed["models"][name]
        label = f"`{model['model']}`" + (f", {gradient}" if (gradient := model["options"].get("gradient")) else "")
        row = {"name": label, "short": _relative_time(speed, name), "long": _relative_time(worms, name)}
        memory = {f"memory {N}": max(MiB, 0.0) for N, MiB in model["memory"].items()}
        rows.append(row | memory | {"layers": model["layers"]})
    heading = f"model | L | time, {size_text(speed)} | time, {size_text(worms)}"
    heading += "".join(f" | memory, N={N}" for N in lengths)
    cells = "".join(f" | {{memory {N}:.0f}} MiB" for N in lengths)
    return table(rows, heading, "{name} | {layers} | {short} | {long}" + cells)


@figure("bench")
def times_and_memory() -> Figure:
    return chart(load_results("bench/baselines"))
