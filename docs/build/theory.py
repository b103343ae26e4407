"""Generated parts of docs/theory.md, from results/growth.json and results/theory_plots.json."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from docs.build.pages import FIGURES, load_results, part, table
from unicornn.theory.plots import Plot


@part
def growth_by_length() -> list[str]:
    """One row per a and w, one column per length."""
    rows = pd.DataFrame(load_results("growth")["exponents"]).query("alpha == 1 and sigma == 0.2")
    cell = "{ln growth:.3g} ({small amplitude:.3g})"
    rows = rows.assign(cell=[cell.format(**row) for row in rows.to_dict("records")], column=rows["N"].map("N{}".format))
    wide = rows.pivot(index=["a", "w"], columns="column", values="cell").reset_index()
    Ns = sorted(set(rows["N"]))
    heading = "a (α = 1, σ = 0.2) | w" + "".join(f" | N = {N:,}" for N in Ns)
    return table(wide.to_dict("records"), heading, "{a:g} | {w:g}" + "".join(f" | {{N{N}}}" for N in Ns))


@part
def growth_of_tasks() -> dict[str, dict[str, Any]]:
    rows = load_results("growth")["paper"]
    for row in rows.values():
        row["steps"] = ", ".join(f"{dt:g}" for dt in sorted(set(row["dt"])))
    return rows


def _draw(name: str) -> Figure:
    """One of the plots that ``python -m benchmarks.theory`` keeps as data."""
    data = load_results("growth")["plot"] if name == "growth" else load_results("theory_plots")[name]
    return Plot.from_dict(data).draw()


FIGURES |= {f"theory/{name}": partial(_draw, name) for name in [*load_results("theory_plots"), "growth"]}
