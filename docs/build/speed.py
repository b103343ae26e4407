"""Generated parts about speed and memory: docs/speed.md, and the numbers of README.md and docs/index.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from docs.build.baselines import size_text
from docs.build.long import longest_mastered, results_of_task
from docs.build.pages import figure, load_results, part, table
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
Result = Mapping[str, Any]


def training_steps(result: Result) -> list[str]:
    """A training step and a forward pass of UnICORNN beside torch's layers, at the shortest length."""
    N, models, rows = str(result["sizes"]["N"][0]), result["models"], []
    for name, label in MODELS.items():
        time, forward = (models.get(name, {}).get(key, {}).get(N) for key in ("time", "forward"))
        if time:
            row = {"name": label, "layers": models[name]["layers"], **time}
            rows.append(row | {f"forward {key}": value for key, value in (forward or {}).items()})
    heading = "model | L | training step | relative to ours | forward pass | relative to ours"
    template = "{name} | {layers} | {ms:.0f} ms | {ratio:.1f} × | {forward ms:.0f} ms | {forward ratio:.1f} ×"
    return [f"**{size_text(result)}**", "", *table(rows, heading, template), ""]


@part
def training_step_tables() -> list[str]:
    return [line for name in ("speed", "worms", "one") for line in training_steps(load_results(f"bench/{name}"))][:-1]


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
    result = load_results("speed")["rivals"]
    kinds = {"stored": 'LSTM, training,\n"stored"', "reversible": 'LSTM, training,\n"reversible"',
             "forward": "LSTM, forward", "minGRU": "minGRU, training"}  # fmt: skip
    drawn = Figure(figsize=(8, 3.2), layout="constrained")
    axes = drawn.subplots()
    for number, (size, text) in enumerate(SIZES.items()):
        places = [i + 0.38 * (number - 0.5) for i in range(len(kinds))]
        bars = axes.bar(places, [result[f"{size}, {kind}"]["ratio"] for kind in kinds], 0.36, label=text)
        axes.bar_label(bars, fmt="%.1f ×")
    axes.axhline(1, color="grey", linestyle=":")
    axes.set_xticks(range(len(kinds)), list(kinds.values()))
    axes.set_ylabel("times as fast")
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
