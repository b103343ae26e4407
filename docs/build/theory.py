"""The tables of docs/theory.md, from results/theory.json; ``python -m benchmarks.theory`` draws its plots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from docs.build.pages import measured, table

PAGE = "docs/theory.md"
ORDERS = {
    "one way, given time": "one way, at a given time",
    "all ways, given time": "all ways, at a given time",
    "all ways, given steps": "all ways, over given steps",
    "error of the formula, given steps": "error of the formula, over given steps",
}


def tables(result: Mapping[str, Any]) -> dict[str, list[str]]:
    """The blocks of the page."""
    e, s, r, t = (result[k] for k in ("energy", "slack", "reconstruction", "trained"))
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
        "trained": [
            f"Accuracy on the last 20 batches: {t['accuracy on the last 20 batches']:.0%}. Time steps from "
            f"{t['time steps, from and to'][0]:.3f} to {t['time steps, from and to'][1]:.3f}; ‖w‖∞ of the layers: "
            + ", ".join(f"{v:.2f}" for v in t["weight norms"])
            + "."
        ],
    }


def blocks() -> dict[str, list[str]]:
    return tables(measured("theory"))


def plots() -> dict[str, Figure]:
    return {}
