"""Generated parts of the guides: the tasks in docs/training.md, and docs/gpu.md."""

from __future__ import annotations

from typing import Any

from docs.build.pages import RESULTS, load_results, part, provenance, table
from unicornn.lab import tasks
from unicornn.lab.tasks import Task


@part
def task_table() -> list[dict[str, Any]]:
    return [
        {"title": task.title, "data": task.size, "name": task.name, "variants": ", ".join(task.variants)}
        | {"paper": _published(task), "options": _options(task)}
        for task in map(tasks.find, tasks.names())
    ]


def _published(task: Task) -> str:
    quoted = [result for result in task.paper if result.model.startswith("UnICORNN")]
    values = dict.fromkeys(task.metric.text(result.value, result.deviation) for result in quoted)
    return f"{task.metric.name} {', '.join(values)}" if quoted else ""


def _options(task: Task) -> str:
    def as_typed(value: Any) -> str:
        if isinstance(value, tuple):
            return ",".join(map(str, value)) or "none"
        return str(value).lower() if isinstance(value, bool) else str(value)

    possible = {name: [o.default] if isinstance(o, tasks.Number) else o for name, o in task.options.items()}
    return "; ".join(f"{name}: {', '.join(map(as_typed, values))}" for name, values in possible.items())


@part
def gpu_measurements() -> list[str]:
    if not (RESULTS / "gpu.json").exists():
        return ["No measurements on a GPU are available yet."]
    result = load_results("gpu")
    checks = "dtype | exact reversal | equal gradients", "{dtype} | {exact reversal} | {equal gradients}"
    speed = "N | model | training step | relative to `stored`", "{N:,} | {model} | {ms:.3f} ms | {relative:.2f} ×"
    memory = "N | model | memory of a training step", "{N:,} | {model} | {MiB:.1f} MiB"
    parts = {"checks": checks, "speed": speed, "memory": memory}
    tables = [line for key, template in parts.items() for line in (*table(result[key], *template), "")]
    return [f"On {result['device']}:", "", *tables, f"{provenance(result)} Protocol: {result['protocol']}."]
