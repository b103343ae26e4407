"""The baselines, one row each: what they are, and what a training step of theirs costs here.

    python -m benchmarks.baselines             # about a quarter of an hour; one that was killed goes on
    python -m benchmarks.baselines --only lem  # UnICORNN and this one again, the others as they were measured before
    python -m benchmarks.baselines --page      # only fills the page anew, from results/baselines.json

Measures time at the two settings of benchmarks.layer, and memory against N, as ``unicornn bench`` does; writes
results/baselines.json and fills docs/baselines.md. What is known of one without measuring is in
``benchmarks.facts``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.facts import FACTS
from benchmarks.layer import SETTINGS
from benchmarks.pages import fill
from unicornn import models
from unicornn.lab._environment import environment
from unicornn.lab._run_folder import write_json
from unicornn.lab.bench import Job, candidates, collect
from unicornn.lab.bench._bench import PROTOCOL, joined
from unicornn.lab.bench._jobs import OPTIONS

Sizes = tuple[int, int, int, int]
LENGTHS = (250, 500, 1000, 2000)  # of the memory measurements, with the other sizes of the first setting
COUNTED = 128  # d = m of the parameters in the table
STEADY = 1.5  # memory that grows less than this from the shortest to the longest sequence does not grow with N


def measure(
    settings: Mapping[str, Sizes], lengths: Sequence[int], folder: Path, names: Sequence[str] | None = None
) -> dict[str, Any]:
    """Times and memory of UnICORNN and all baselines, or those named; what is done is kept in the folder."""
    found = candidates(names)
    _, b, d, m = next(iter(settings.values()))
    times = {
        (name, setting): Job("time", each, *sizes)
        for setting, sizes in settings.items()
        for name, each in found.items()
    }
    memory = {(name, str(N)): Job("memory", each, N, b, d, m) for name, each in found.items() for N in lengths}
    partial = folder / "baselines.partial.json"
    jobs = {", ".join(key): job for key, job in (times | memory).items()}
    measured = collect(jobs, partial, Console(stderr=True))
    result = {
        "command": "python -m benchmarks.baselines",
        **environment(),
        "protocol": PROTOCOL,
        "settings": {name: dict(zip("Nbdm", sizes, strict=True)) for name, sizes in settings.items()},
        "memory": {"N": list(lengths), "b": b, "d": d, "m": m},
        "models": {
            name: {"model": each.model, "layers": each.layers, "options": dict(each.options)}
            | joined(
                {setting: measured[f"{name}, {setting}"] for setting in settings},
                {str(N): measured[f"{name}, {N}"] for N in lengths},
            )
            for name, each in found.items()
        },
    }
    write_json(folder / "baselines.json", result)
    if all("failed" not in r for r in measured.values()):
        partial.unlink(missing_ok=True)
    return result


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Some baselines measured again, the others as before; "again" says which, and when."""
    again = dict(old.get("again", {})) | dict.fromkeys(new["models"], new["date"])
    return {**old, "models": {**old["models"], **new["models"]}, "again": again}


def parameters(name: str, d: int, m: int) -> int:
    """Of one layer, with the options it is timed with; free ones only."""
    return models.free_parameters(models.layers(name)(d, m, 1, **OPTIONS.get(name, {})))


def facts_table() -> list[str]:
    """What is known without measuring."""
    heads = ("model", "a step", "parameters of a layer", f"at d=m={COUNTED}", "multiply-adds of a step")
    rows = [(*heads, "of these, after the state", "invertible", "gradients"), ("---",) * 8]
    for name, fact in FACTS.items():
        count = f"{parameters(name, COUNTED, COUNTED):,}"
        cells = fact.equation, fact.parameters, count, fact.work, fact.waiting, fact.invertible, fact.gradients
        rows.append((f"**{fact.name}**, {fact.source}", *(cell.replace("|", r"\|") for cell in cells)))
    return ["| " + " | ".join(row) + " |" for row in rows]


def memory_in_words(memory: Mapping[str, float], slope: float | None) -> str:
    if not memory or slope is None:
        return "failed"
    first, *_, last = memory.values()
    return f"constant, {last:.0f} MiB" if last < STEADY * first else f"O(N), {slope:.0f} MiB per 1000 steps"


def measured_table(result: Mapping[str, Any]) -> list[str]:
    """What was measured, the fastest at the first setting on top."""
    settings, measured = list(result["settings"]), result["models"]
    longest = str(result["memory"]["N"][-1])
    lines = [
        "| model | L | "
        + " | ".join(f"time, {setting}" for setting in settings)
        + f" | memory, N={longest} | against N |",
        "|---" * (len(settings) + 4) + "|",
    ]

    def ratio(name: str, setting: str) -> float:
        return measured[name]["time"].get(setting, {}).get("ratio", float("inf"))

    for name in sorted(measured, key=lambda name: ratio(name, settings[0])):
        own = measured[name]
        way = own["options"].get("backward")
        cells = [FACTS[own["model"]].name + (f", {way}" if way else ""), str(own["layers"])]
        for setting in settings:
            once = own["time"].get(setting, {}).get("rounds") == 1
            cells.append(f"{ratio(name, setting):.1f} ×" + (" (once)" if once else ""))
        cells.append(f"{own['memory'][longest]:.0f} MiB" if longest in own["memory"] else "failed")
        cells.append(memory_in_words(own["memory"], own["MiB_per_1000_steps"]))
        lines.append("| " + " | ".join(cells).replace("inf ×", "failed") + " |")
    return lines


def about(result: Mapping[str, Any]) -> list[str]:
    versions = ", ".join(f"{k} {result['versions'][k]}" for k in ("python", "torch", "numba", "unicornn"))
    sizes = result["memory"]
    days: dict[str, list[str]] = {}
    for name, date in result.get("again", {}).items():
        days.setdefault(date[:10], []).append(name)
    again = "".join(f" Measured again on {day}: {'; '.join(names)}." for day, names in days.items())
    return [
        f"`{result['command']}`, {result['date'][:10]}, threads: {result['threads']}; {versions}. {result['protocol']} "
        f"Memory is for b={sizes['b']}, d={sizes['d']}, m={sizes['m']}.{again}"
    ]


def blocks(result: Mapping[str, Any] | None) -> dict[str, list[str]]:
    """The generated parts of docs/baselines.md; those that are measured are left out where there is no result."""
    known = {"facts": facts_table()}
    return known if result is None else known | {"about": about(result), "measured": measured_table(result)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="do not measure, only fill the page")
    parser.add_argument("--only", nargs="+", metavar="MODEL", help="measure UnICORNN and these, keep the other rows")
    options = parser.parse_args()
    path, page = Path("results/baselines.json"), Path("docs/baselines.md")
    result = json.loads(path.read_text()) if path.exists() else None
    if not options.page:
        measured = measure(SETTINGS, LENGTHS, path.parent, options.only)
        result = merged(result, measured) if result and options.only else measured
        write_json(path, result)
    page.write_text(fill(page.read_text(), blocks(result)))
    print("\n".join(blocks(result).get("measured", ["nothing measured yet"])))


if __name__ == "__main__":
    main()
