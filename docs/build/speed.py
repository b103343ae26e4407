"""Generated parts about speed and memory: docs/speed.md, and the numbers of README.md and docs/index.md."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from docs.build.long import longest_mastered, results_of_task
from docs.build.pages import figure, load_results, part
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


@part
def stream_step() -> dict[str, Any]:
    result = load_results("bench/speed")
    step = result["models"][LSTM]["step"]
    return step | {"m": result["sizes"]["m"], "ours": 1e3 * step["ours_ms"], "theirs": 1e3 * step["ms"]}


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
    """Time and memory of a training step against the length; also the picture of README.md and docs/index.md."""
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


def headlines() -> dict[str, tuple[str, str]]:
    """Three measured results: memory, speed, and learning over long sequences; a short form and a sentence of each."""
    lengths, rivals = load_results("bench/lengths"), load_results("speed")["rivals"]
    N = str(lengths["sizes"]["N"][-1])
    ours, lstm = (lengths["models"][name]["memory"][N] for name in (REVERSIBLE, LSTM))
    wide, long = (rivals[f"{size}, stored"]["ratio"] for size in SIZES)
    best, *others = results_of_task("recall")
    runner_up = max(others, key=longest_mastered)
    return {
        "Memory": (
            f"{ours:.1f} MiB",
            f"a training step over {int(N):,} time steps needs {ours:.1f} MiB beyond input and parameters; an LSTM of "
            f"the same size needs {lstm:,.0f} MiB.",
        ),
        "Speed": (
            f"{wide:.1f} – {long:.1f} ×",
            f"on two CPU cores, a training step of two layers is {wide:.1f} × ({SIZES['wide']}) or {long:.1f} × "
            f"({SIZES['long']}) faster than one of a single LSTM layer.",
        ),
        "Long dependencies": (
            f"{longest_mastered(best):,} steps",
            f"trained for {best['CPU seconds'] / 60:.0f} minutes on one core, it recalls a symbol after "
            f"{longest_mastered(best):,} steps of noise; the best of {len(others)} other models "
            f"({runner_up['model'].upper()}) reaches {longest_mastered(runner_up):,}.",
        ),
    }


@part
def headline_list() -> list[str]:
    return [f"- **{title}:** {sentence}" for title, (_, sentence) in headlines().items()]


@part
def headline_cards() -> list[str]:
    """A card per result, its number in the accent colour."""
    pages = dict(zip(headlines(), ("speed", "speed", "long"), strict=True))
    cards = [
        [f":::{{grid-item-card}} {short}", ":class-title: headline", f":link: {pages[title]}", ":link-type: doc",
         f"**{title}:** {sentence}", ":::", ""]
        for title, (short, sentence) in headlines().items()
    ]  # fmt: skip
    return ["::::{grid} 1 1 3 3", ":gutter: 2", "", *(line for card in cards for line in card), "::::"]


@figure("demo")
def demo_curves() -> Figure:
    """The learning curves of ``make demo``."""
    lines = []
    for run in load_results("demo"):
        minutes, accuracy = [t / 60 for t in run["curve"]["seconds"]], [100 * v for v in run["curve"]["valid"]]
        lines.append(Line(run["model"], minutes, accuracy))
    return Plot("Handwritten digits, then noise", [Panel("minutes", "validation accuracy (%)", lines)]).draw()
