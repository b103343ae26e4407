"""Generated parts of docs/baselines.md: the cost of a training step of every model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from docs.build.pages import figure, load_results, part, table
from unicornn.lab.bench._chart import chart, fastest_first


def size_text(result: Mapping[str, Any]) -> str:
    """The sizes of a benchmark at its shortest length, in one phrase."""
    N, (b, d, m) = result["sizes"]["N"][0], (result["sizes"][letter] for letter in "bdm")
    return f"N={N}, b={b}, " + (f"d=m={m}" if d == m else f"d={d}, m={m}")


def _relative_time(result: Mapping[str, Any], name: str) -> str | None:
    if (model := result["models"].get(name)) is None:
        return None
    if (time := model["time"].get(str(result["sizes"]["N"][0]))) is None:
        return "failed"
    return f"{time['ratio']:.1f} ×" + (" (once)" if time["rounds"] == 1 else "") + (" †" if model.get("older") else "")


@part
def cost_of_baselines() -> list[str]:
    speed, worms = load_results("bench/baselines"), load_results("bench/baselines-worms")
    lengths, rows = sorted({int(N) for model in speed["models"].values() for N in model["memory"]}), []
    for name in fastest_first(speed):
        model = speed["models"][name]
        label = f"`{model['model']}`" + (f", {gradient}" if (gradient := model["options"].get("gradient")) else "")
        row = {"name": label, "short": _relative_time(speed, name), "long": _relative_time(worms, name)}
        memory = {f"memory {N}": max(MiB, 0.0) for N, MiB in model["memory"].items()}
        rows.append(row | memory | {"layers": model["layers"]})
    heading = f"model | L | time, {size_text(speed)} | time, {size_text(worms)}"
    heading += "".join(f" | memory, N={N}" for N in lengths)
    cells = "".join(f" | {{memory {N}:.0f}} MiB" for N in lengths)
    return table(rows, heading, "{name} | {layers} | {short} | {long}" + cells)


@figure("bench")
def times_and_memory() -> Figure:
    return chart(load_results("bench/baselines"))
