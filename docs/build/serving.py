"""The tables of docs/serving.md, from what ``python -m benchmarks.export`` measured."""

from __future__ import annotations

from matplotlib.figure import Figure

from docs.build.pages import measured, provenance, table

PAGE = "docs/serving.md"


def blocks() -> dict[str, list[str]]:
    result = measured("export")
    errors = [
        [e["setting"], e["dt"], e["alpha"], f"{e['float32']:.0e}", f"{e['float64']:.0e}"] for e in result["errors"]
    ]
    times = result["b=1, d=2, m=128, L=3, microseconds a step"]
    costs = [[kind, *(f"{times[f'{kind}, {who}']:.1f} µs" for who in ("onnxruntime", "unicornn"))]
             for kind in ("sequence", "step")]  # fmt: skip
    where = provenance(result["environment"] | {"command": result["command"]})
    return {
        "errors": table(["settings", "Δt", "α", "states in float32", "states in float64"], errors),
        "costs": [*table(["a step of a", "in onnxruntime", "in unicornn"], costs), "", where],
    }


def plots() -> dict[str, Figure]:
    return {}
