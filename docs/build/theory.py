"""The tables and plots of docs/theory.md, from what ``python -m benchmarks.theory`` left in results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from docs.build.pages import measured, table
from unicornn.theory.plots import Plot

PAGE = "docs/theory.md"
ORDERS = {
    "one way, given time": "one way, at a given time",
    "all ways, given time": "all ways, at a given time",
    "all ways, given steps": "all ways, over given steps",
    "error of the formula, given steps": "error of the formula, over given steps",
}


def tables(result: Mapping[str, Any]) -> dict[str, list[str]]:
    """The blocks of the page."""
    e, s, r = (result[k] for k in ("energy", "slack", "reconstruction"))
    orders = [[row["L"], row["S"] or "-", row["paper"], *(f"{row[k]:.2f}" for k in ORDERS)] for row in result["orders"]]
    return {
        "energy": [
            f"Over {e['steps']:,} steps with constant input, H moves by {e['spread, first 10,000 steps']:.2%} of its "
            f"first value in the first 10,000 steps, and by {e['spread, last 10,000 steps']:.2%} in the last 10,000. "
            f"Explicit Euler ends at {e['growth by explicit Euler']:.1e} times its first value."
        ],
        "volume": [f"Largest deviation of a determinant from 1, three layers: {result['determinant']:.0e}."],
        "slack": table(
            ["bound / what it bounds", "least", "median"],
            [[k, f"{v['least']:.3g}", f"{v['median']:.3g}"] for k, v in s.items()],
        ),
        "orders": table(["L", "S", "paper", *ORDERS.values()], orders),
        "profile": table(
            ["module", "gradient at the first 100 steps, relative to the last 100"],
            [[k, f"{v:.1e}"] for k, v in result["profile"].items()],
        ),
        "lyapunov": table(
            ["module", "largest Lyapunov exponent, per step"],
            [[k, f"{v:+.4f}"] for k, v in result["lyapunov"].items()],
        ),
        "reconstruction": table(
            [
                "N",
                "largest state",
                "error of the recovered start, float32",
                "exact",
                "worst relative error of gradients",
            ],
            [
                [N, f"{v['size']:.1f}", f"{v['plain']:.1e}", f"{v['exact']:.0f}", f"{v['gradient']:.1e}"]
                for N, v in r.items()
            ],
        ),
    }


def growth_tables(result: Mapping[str, Any]) -> dict[str, list[str]]:
    """The blocks of the section about the growth of gradients."""
    rows = result["exponents"]
    weights = sorted({row["w"] for row in rows})

    def at(**where: float) -> dict[str, Any]:
        return next(row for row in rows if all(row[k] == v for k, v in where.items()))

    chosen = [(a, w) for a in sorted({row["a"] for row in rows}) for w in weights]
    lengths = [
        [a, f"{w:g}", *(f"{r['ln growth']:.3g} ({r['small amplitude']:.3g})" for r in found)]
        for a, w in chosen
        for found in [[at(N=n, a=a, alpha=1.0, sigma=0.2, w=w) for n in sorted({row["N"] for row in rows})]]
    ]
    return {
        "lengths": table(
            ["a (α = 1, σ = 0.2)", "w", *(f"N = {n:,}" for n in sorted({row["N"] for row in rows}))], lengths
        ),
        "fits": table(
            ["α", "exponent per step", "off by a factor of, at most", "neurons"],
            [[f"{r['alpha']:g}", f"{r['factor']:.2g} a^{r['a']:.2f} σ^{r['sigma']:.2f} w^{r['w']:.2f}",
              f"{r['off by']:.1f}", r["neurons"]] for r in result["fits"]],
        ),
        "growth speed": [
            f"{result['speed']['N']:,} steps of two layers with 64 neurons took {result['speed']['CPU seconds']:.1f} "
            "seconds on one core."
        ],
        "layers": table(
            ["N", "α", "Δt", "L", "ln growth", "exponent per step", "overflow at N ="],
            [[f"{r['N']:,}", f"{r['alpha']:g}", r["dt"][0], r["layers"], f"{r['ln growth']:.1f}",
              f"{r['exponent']:.1e}", _steps(r["overflow"])] for r in result["layers"]],
        ),
        "paper": table(
            ["task", "N", "Δt", "α", "L", "N·Δt", "ln growth"],
            [[name, f"{r['N']:,}", ", ".join(f"{dt:g}" for dt in sorted(set(r["dt"]))), f"{r['alpha']:g}", r["layers"],
              f"{r['time']:.0f}", f"{r['ln growth']:.1f}"] for name, r in result["paper"].items()],
        ),
        "suggested": table(
            ["input", "N", "how", "Δt", "ln growth", "ratio, first 1 % to last 1 %"],
            [[r["input"], f"{r['N']:,}", r["how"], f"{r['dt'][0]:.3g}", f"{r['ln growth']:.1f}", f"{r['ratio']:.1e}"]
             for r in result["suggested"]],
        ),
    }  # fmt: skip


def _steps(number: float | None) -> str:
    return "never" if number is None or number == float("inf") else f"{float(f'{number:.2g}'):,.0f}"


def blocks() -> dict[str, list[str]]:
    return tables(measured("theory")) | growth_tables(measured("growth"))


def plots() -> dict[str, Figure]:
    plots = measured("theory_plots") | {"growth": measured("growth")["plot"]}
    return {f"theory/{name}": Plot.from_dict(values).draw() for name, values in plots.items()}
