"""Generated parts of docs/baselines.md: the cost of a training step of every model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from docs.build.pages import figure, load_results, part, provenance, table
from unicornn.lab.bench._chart import chart, fastest_first

PAGE = "docs/baselines.md"
CONSTANT = 1.5  # memory counts as constant if it grows by less than this from the shortest to the longest sequence


def size_text(result: Mapping[str, Any]) -> str:
    """The sizes of a benchmark at its shortest length, in one phrase."""
    N, (b, d, m) = result["sizes"]["N"][0], (result["sizes"][letter] for letter in "bdm")
    return f"N={N}, b={b}, " + (f"d=m={m}" if d == m else f"d={d}, m={m}")


def memory_growth(memory: Mapping[str, float], slope: float | None) -> str | None:
    """How the memory of a training step depends on N."""
    if not memory or slope is None:
        return None
    first, *_, last = memory.values()
    if last < CONSTANT * max(first, 1.0):
        return "constant, " + (f"{last:.0f} MiB" if last >= 1 else "below 1 MiB")
    return f"O(N), {slope:.0f} MiB per 1000 steps"


def _relative_time(result: Mapping[str, Any], name: str) -> str | None:
    if (model := result["models"].get(name)) is None:
        return None
    if (time := model["time"].get(str(result["sizes"]["N"][0]))) is None:
        return "failed"
    return f"{time['ratio']:.1f} ×" + (" (once)" if time["rounds"] == 1 else "") + (" †" if model.get("older") else "")


@part(PAGE, "measured")
def measurements() -> list[str]:
    speed, worms = load_results("bench/baselines"), load_results("bench/baselines-worms")
    longest, rows = speed["sizes"]["N"][-1], []
    for name in fastest_first(speed):
        model = speed["models"][name]
        gradient, memory = model["options"].get("gradient"), model["memory"].get(str(longest))
        rows.append({
            "name": f"`{model['model']}`" + (f", {gradient}" if gradient else ""),
            "layers": model["layers"],
            "short": _relative_time(speed, name),
            "long": _relative_time(worms, name),
            "memory": None if memory is None else max(memory, 0.0),
            "growth": memory_growth(model["memory"], model["MiB_per_1000_steps"]),
        })  # fmt: skip
    heading = f"model | L | time, {size_text(speed)} | time, {size_text(worms)} | memory, N={longest} | against N"
    return table(rows, heading, "{name} | {layers} | {short} | {long} | {memory:.0f} MiB | {growth}")


@part(PAGE, "about")
def about() -> list[str]:
    results = [load_results(f"bench/{name}") for name in ("baselines", "baselines-worms")]
    notes = dict.fromkeys(note for result in results if (note := result.get("note")))
    return [" ".join([provenance(*results), *notes, "[Protocol](speed.md#how-it-was-measured)."])]


@figure("bench")
def times_and_memory() -> Figure:
    return chart(load_results("bench/baselines"))
