"""The tables of docs/baselines.md: what is known of the baselines, and what a training step of theirs costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from docs.build.facts import FACTS
from docs.build.pages import measured, provenance, table
from unicornn import models
from unicornn.lab._networks import model_class
from unicornn.lab.bench._chart import chart, fastest_first
from unicornn.lab.bench._jobs import OPTIONS

PAGE = "docs/baselines.md"
COUNTED = 128  # d = m of the parameters in the table
STEADY = 1.5  # memory that grows less than this from the shortest to the longest sequence does not grow with N


def parameters(name: str, d: int, m: int) -> int:
    """The free parameters of one layer, with the options it is timed with."""
    return models.free_parameters(model_class(name)(d, m, 1, **OPTIONS.get(name, {})))


def equations_table() -> list[str]:
    """What the models compute, and what is known of their gradients."""
    rows = [(f"**{fact.name}**, {fact.source}", fact.equation, fact.gradients) for fact in FACTS.values()]
    return table(("model", "a step", "gradients"), rows)


def sizes_table() -> list[str]:
    """What is counted without measuring."""
    rows = [
        (
            fact.name,
            fact.parameters,
            f"{parameters(name, COUNTED, COUNTED):,}",
            fact.work,
            fact.waiting,
            fact.invertible,
        )
        for name, fact in FACTS.items()
    ]
    head = ("model", "parameters of a layer", f"at d=m={COUNTED}", "multiply-adds of a step")
    return table((*head, "of these, after the state", "invertible"), rows)


def memory_in_words(memory: Mapping[str, float], slope: float | None) -> str:
    """How the memory of a training step depends on N."""
    if not memory or slope is None:
        return "–"
    first, *_, last = memory.values()
    if last < STEADY * max(first, 1.0):
        return "constant, " + (f"{last:.0f} MiB" if last >= 1 else "below 1 MiB")
    return f"O(N), {slope:.0f} MiB per 1000 steps"


def size_words(result: Mapping[str, Any], N: int) -> str:
    """The sizes of a training step, as at the head of a column."""
    b, d, m = (result["sizes"][letter] for letter in "bdm")
    return f"N={N}, b={b}, " + (f"d=m={m}" if d == m else f"d={d}, m={m}")


def time_words(own: Mapping[str, Any], N: int) -> str:
    time = own["time"].get(str(N))
    if time is None:
        return "failed"
    return f"{time['ratio']:.1f} ×" + (" (once)" if time["rounds"] == 1 else "") + (" †" if own.get("older") else "")


def measured_table(speed: Mapping[str, Any], worms: Mapping[str, Any]) -> list[str]:
    """What was measured, the fastest at the first setting on top."""
    first, long, last = speed["sizes"]["N"][0], worms["sizes"]["N"][0], speed["sizes"]["N"][-1]
    rows = []
    for name in fastest_first(speed):
        own = speed["models"][name]
        way = own["options"].get("gradient")
        memory = own["memory"].get(str(last))
        rows.append(
            [
                FACTS[own["model"]].name + (f", {way}" if way else ""), own["layers"], time_words(own, first),
                time_words(worms["models"][name], long) if name in worms["models"] else "–",
                "–" if memory is None else f"{max(memory, 0.0):.0f} MiB",
                memory_in_words(own["memory"], own["MiB_per_1000_steps"]),
            ]
        )  # fmt: skip
    head = ("model", "L", f"time, {size_words(speed, first)}", f"time, {size_words(worms, long)}")
    return table((*head, f"memory, N={last}", "against N"), rows)


def about(*results: Mapping[str, Any]) -> list[str]:
    notes = dict.fromkeys(note for result in results if (note := result.get("note")))
    return [" ".join([*map(provenance, results), results[0]["protocol"], *notes])]


def blocks() -> dict[str, list[str]]:
    speed, worms = measured("bench/baselines"), measured("bench/baselines-worms")
    facts = {"equations": equations_table(), "sizes": sizes_table()}
    return facts | {"measured": measured_table(speed, worms), "about": about(speed, worms)}


def plots() -> dict[str, Figure]:
    return {"bench": chart(measured("bench/baselines"))}
