"""Generated parts of docs/theory.md, from results/theory.json, results/growth.json and results/theory_plots.json."""

from __future__ import annotations

import math
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from docs.build.pages import FIGURES, load_results, part, results_table, results_text, table
from unicornn.theory.plots import Plot

PAGE = "docs/theory.md"
# fmt: off
TEXTS = (  # name of the part, results file and key in it, sentence
    ("energy", "theory", "energy",
     "Over {steps:,} steps with constant input, H varies by {spread, first 10,000 steps:.2%} of its initial value in "
     "the first 10,000 steps and by {spread, last 10,000 steps:.2%} in the last 10,000. With explicit Euler, H grows "
     "by a factor of {growth by explicit Euler:.1e}."),
    ("volume", "theory", "", "Largest deviation of a determinant from 1, with three layers: {determinant:.0e}."),
    ("growth speed", "growth", "speed",
     "{N:,} steps of two layers with 64 neurons took {CPU seconds:.1f} seconds on one core."),
)
TABLES = (  # results file, name of the part and key in the file, headings, row
    ("theory", "slack", "bound / bounded quantity | minimum | median", "{key} | {least:.3g} | {median:.3g}"),
    ("theory", "orders",
     "L | S | paper | one path, at a given time | all paths, at a given time | all paths, over given steps | "
     "error of the formula, over given steps",
     "{L} | {S} | {paper} | {one way, given time:.2f} | {all ways, given time:.2f} | {all ways, given steps:.2f} | "
     "{error of the formula, given steps:.2f}"),
    ("theory", "profile", "module | gradient at the first 100 steps, relative to the last 100", "{key} | {value:.1e}"),
    ("theory", "lyapunov", "module | largest Lyapunov exponent, per step", "{key} | {value:+.4f}"),
    ("theory", "reconstruction",
     "N | largest state | error of the recovered start, float32 | exact | worst relative error of gradients",
     "{key} | {size:.1f} | {plain:.1e} | {exact:.0f} | {gradient:.1e}"),
    ("growth", "fits", "α | exponent per step | largest error, as a factor | neurons",
     "{alpha:g} | {factor:.2g} a^{a:.2f} σ^{sigma:.2f} w^{w:.2f} | {off by:.1f} | {neurons}"),
    ("growth", "suggested", "input | N | how | Δt | ln growth | ratio, first 1 % to last 1 %",
     "{input} | {N:,} | {how} | {dt[0]:.3g} | {ln growth:.1f} | {ratio:.1e}"),
)
# fmt: on
for _name, _file, _key, _template in TEXTS:
    results_text(PAGE, _name, _file, _key, _template)
for _file, _name, _heading, _row in TABLES:
    results_table(PAGE, _name, _file, _name, _heading, _row)


@part(PAGE, "lengths")
def lengths() -> list[str]:
    rows = pd.DataFrame(load_results("growth")["exponents"]).query("alpha == 1 and sigma == 0.2")
    cell = "{ln growth:.3g} ({small amplitude:.3g})"
    rows = rows.assign(cell=[cell.format(**row) for row in rows.to_dict("records")], column=rows["N"].map("N{}".format))
    wide = rows.pivot(index=["a", "w"], columns="column", values="cell").reset_index()
    Ns = sorted(set(rows["N"]))
    heading = "a (α = 1, σ = 0.2) | w" + "".join(f" | N = {N:,}" for N in Ns)
    return table(wide.to_dict("records"), heading, "{a:g} | {w:g}" + "".join(f" | {{N{N}}}" for N in Ns))


@part(PAGE, "layers")
def layers() -> list[str]:
    rows = load_results("growth")["layers"]
    for row in rows:
        N = row["overflow"]
        row["overflow"] = "never" if N is None or math.isinf(N) else f"{float(f'{N:.2g}'):,.0f}"
    return table(
        rows,
        "N | α | Δt | L | ln growth | exponent per step | overflow at N =",
        "{N:,} | {alpha:g} | {dt[0]} | {layers} | {ln growth:.1f} | {exponent:.1e} | {overflow}",
    )


@part(PAGE, "paper")
def paper_tasks() -> list[str]:
    rows = load_results("growth")["paper"]
    for row in rows.values():
        row["steps"] = ", ".join(f"{dt:g}" for dt in sorted(set(row["dt"])))
    return table(
        rows,
        "task | N | Δt | α | L | N·Δt | ln growth",
        "{key} | {N:,} | {steps} | {alpha:g} | {layers} | {time:.0f} | {ln growth:.1f}",
    )


def _draw(name: str) -> Figure:
    """One of the plots that ``python -m benchmarks.theory`` keeps as data."""
    data = load_results("growth")["plot"] if name == "growth" else load_results("theory_plots")[name]
    return Plot.from_dict(data).draw()


FIGURES |= {f"theory/{name}": partial(_draw, name) for name in [*load_results("theory_plots"), "growth"]}
