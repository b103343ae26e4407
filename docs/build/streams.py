"""The tables of docs/streams.md, from what ``python -m benchmarks.streams`` measured."""

from __future__ import annotations

from matplotlib.figure import Figure

from docs.build.pages import measured, provenance, table

PAGE = "docs/streams.md"


def blocks() -> dict[str, list[str]]:
    result = measured("streams")
    steps = [
        [f"{row['b']:,}", f"{row['ours, us']:,.0f} µs", f"{row['LSTM, us']:,.0f} µs", f"{row['ratio']:.1f}"]
        for row in result["steps"]
    ]
    patients = [
        [row["samples per push"], *(f"{row[name]:,.0f}" for name in ("ours, patients", "LSTM, patients")),
         f"{row['ratio']:.1f}"]
        for row in result["patients"]
    ]  # fmt: skip
    where = ["", f"{provenance(result)} {result['protocol'].capitalize()}."]
    return {
        "steps": [*table(["sequences", "`layer.step`", "`nn.LSTM`", "times as fast"], steps), *where],
        "patients": table(["samples per push", "`Stream`", "`nn.LSTM`, states in one batch", "ratio"], patients),
    }


def plots() -> dict[str, Figure]:
    return {}
