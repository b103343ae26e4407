"""The tables and the plot of docs/speed.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from docs.build.baselines import about, size_words
from docs.build.pages import measured, provenance, table

PAGE = "docs/speed.md"
ROWS = {
    "unicornn, stored": "UnICORNN, `store`", "unicornn, reversible": "UnICORNN, `invert`", "lstm": "LSTM", "lstm:2": "LSTM",
    "gru:2": "GRU",
}  # fmt: skip
COLOURS = {"unicornn, reversible": "#0072b2", "unicornn, stored": "#56b4e9", "lstm:2": "#e69f00"}


def product_work(N: int, b: int, d: int, m: int) -> float:
    """Operations of the matrix products that a training step of two layers needs, the input being without gradient."""
    forward, weights, below = d * m + m * m, d * m + m * m, m * m
    return 2.0 * N * b * (forward + weights + below)


def speed_table(result: Mapping[str, Any]) -> list[str]:
    """A training step, and a forward pass, of UnICORNN beside torch's own layers, at the shortest length."""
    sizes, rows = result["sizes"], []
    N, peak = sizes["N"][0], result["matrix_product_GFLOPS"]
    invert = result["models"]["unicornn, reversible"]["time"][str(N)]["ratio"]
    for name, words in ROWS.items():
        if (own := result["models"].get(name)) is None or str(N) not in own["time"]:
            continue
        time = own["time"][str(N)]
        share = ""
        if own["model"] == "unicornn" and own["layers"] == 2 and peak:
            work = product_work(N, sizes["b"], sizes["d"], sizes["m"])
            share = f"{1e-6 * work / time['ms'] / peak:.0%}"
        ratio = time["ratio"]
        forward = own["forward"].get(str(N))
        rows.append(
            [
                words, own["layers"], f"{time['ms']:.0f}", f"{ratio:.1f}", f"{ratio / invert:.1f}", share,
                *((f"{forward['ms']:.0f}", f"{forward['ratio']:.1f}") if forward else ("", "")),
            ]
        )  # fmt: skip
    head = ["model", "L", "ms", "× our time, `store`", "× our time, `invert`", "share of the matrix product's peak"]
    head += ["forward, ms", "× our forward"]
    peak_words = f"; matrix product: {peak:.0f} GFLOP/s" if peak else ""
    return [f"**{size_words(result, N)}**{peak_words}", "", *table(head, rows)]


def stream_words(result: Mapping[str, Any]) -> str:
    theirs = result["models"]["lstm:2"]["step"]
    return (
        f"`step()` with b=1, d=m={result['sizes']['m']} and two layers takes {1e3 * theirs['ours_ms']:.0f} µs; an LSTM "
        f"of two layers, called with one step, takes {1e3 * theirs['ms']:.0f} µs, {theirs['ratio']:.1f} times as long."
    )


PASSES = (("stored", "training, `store`"), ("reversible", "training, `invert`"), ("forward", "forward"))


def single_words(found: Mapping[str, Any]) -> str:
    return (
        f"A training step of one sequence of {found['N']:,} steps, m={found['m']}, {found['L']} layers, `invert`, "
        f"takes {found['us_a_step']:.2f} µs a time step, on one core."
    )


def together_table(found: Mapping[str, Any]) -> list[str]:
    rows = [
        [
            threads,
            f"{own['alone_ms']:.0f}",
            f"{own['each_of_two_ms']:.0f}",
            f"{own['each_of_two_ms'] / own['alone_ms']:.2f}",
        ]
        for threads, own in found.items()
        if threads.isdecimal()
    ]
    return table(["threads of each program", "alone, ms", "each of two at once, ms", "×"], rows)


def rivals_table(found: Mapping[str, Any]) -> list[str]:
    """Times of others over ours: an LSTM's over that of two layers, minGRU's over that of one."""
    names = {"wide": "N=1000, b=128, d=m=128", "long": "N=17984, b=8, d=6, m=32"}
    ways = ("stored", "reversible", "forward", "minGRU")
    rows = [[words, *(f"{found[f'{name}, {way}']['ratio']:.1f}" for way in ways)] for name, words in names.items()]
    head = [f"one layer of LSTM, {words}" for _, words in PASSES]
    return table(["sizes", *head, "one layer of minGRU, training, one of ours"], rows)


def curves(result: Mapping[str, Any]) -> Figure:
    """Time and memory of a training step against N, side by side."""
    figure = Figure(figsize=(9, 3.6), layout="constrained", facecolor="white")
    time, memory = figure.subplots(1, 2)
    for name, own in result["models"].items():
        label = f"{name.partition(':')[0]}, L={own['layers']}"
        for axis, points in ((time, {N: t["ms"] / 1e3 for N, t in own["time"].items()}), (memory, own["memory"])):
            seen = {int(N): value for N, value in points.items() if value > 0}  # a toy's memory may not be seen to rise
            axis.plot(seen.keys(), seen.values(), "o-", color=COLOURS.get(name), label=label)
    for axis, unit, title in (
        (time, "seconds", "time of a training step"),
        (memory, "MiB", "memory beyond input and parameters"),
    ):
        axis.set(xlabel="N (time steps)", ylabel=unit, title=title, xscale="log")
        if any(len(line.get_ydata()) for line in axis.lines):
            axis.set_yscale("log")
        axis.grid(alpha=0.3, which="both")
    time.legend()
    return figure


def where(part: Mapping[str, Any]) -> str:
    return f"{provenance(part)[:-1]}, compiled for {part['processor']}."


def blocks() -> dict[str, list[str]]:
    speed, worms, one, lengths = (measured(f"bench/{name}") for name in ("speed", "worms", "one", "lengths"))
    more = measured("speed")
    return {
        "single": [single_words(more["single"]), "", where(more["single"])],
        "together": [*together_table(more["together"]), "", where(more["together"])],
        "rivals": [*rivals_table(more["rivals"]), "", where(more["rivals"])],
        "avx2": [*rivals_table(more["avx2"]), "", where(more["avx2"])],
        "speed": [*speed_table(speed), "", *speed_table(worms), "", *speed_table(one)],
        "stream": [stream_words(speed)],
        "about": about(speed, worms, one, lengths),
    }


def plots() -> dict[str, Figure]:
    return {"lengths": curves(measured("bench/lengths"))}
