"""What ``python -m benchmarks.gpu`` measured on a card, in docs/gpu.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from benchmarks.gpu import table
from docs.build.pages import RESULTS, measured, provenance

PAGE = "docs/gpu.md"


def found() -> dict[str, Any] | None:
    """The result, if there is one."""
    return measured("gpu") if (RESULTS / "gpu.json").exists() else None


def chart(result: Mapping[str, Any]) -> Figure:
    """Milliseconds as bars, and memory against N where there is any."""
    figure = Figure(figsize=(11, 4), layout="constrained", facecolor="white")
    bars, curves = figure.subplots(1, 2)
    times = result["speed"]["milliseconds"]
    names, thick = list(next(iter(times.values()))), 0.8 / len(times)
    for i, (N, of) in enumerate(times.items()):
        bars.barh([row + i * thick for row in range(len(names))], [of[name] for name in names], thick, label=f"N={N}")
    bars.set_yticks([row + thick * (len(times) - 1) / 2 for row in range(len(names))], names)
    bars.set(xlabel="ms", title="forward and backward", ylim=(len(names), -0.5))
    bars.legend()
    for name, values in result["memory"]["bytes"].items():
        points = [(N, v / 2**20) for N, v in zip(result["memory"]["N"], values, strict=True) if v is not None]
        if points:
            curves.loglog(*zip(*points, strict=True), "o-", label=name)
            curves.legend()
    curves.set(xlabel="N (time steps)", ylabel="MiB", title="memory beyond input and parameters")
    curves.grid(alpha=0.3, which="both")
    return figure


def blocks() -> dict[str, list[str]]:
    result = found()
    if result is None:
        return {"measured": ["Nothing has been measured on a card yet."]}
    lines = [f"On {result['card']}:", "", "```", table(result), "```", "", "![](figures/gpu.png)", ""]
    return {"measured": [*lines, provenance(result)]}


def plots() -> dict[str, Figure]:
    result = found()
    return {} if result is None else {"gpu": chart(result)}
