"""Generated parts of the guides: docs/streams.md, docs/serving.md, docs/training.md and docs/gpu.md."""

from __future__ import annotations

from typing import Any

from docs.build.pages import RESULTS, load_results, part, provenance, results_table, table
from unicornn.lab import tasks
from unicornn.lab.tasks import Task

results_table(
    "docs/streams.md", "patients", "streams", "patients",
    "samples per push | `Stream` | `nn.LSTM`, states in one batch | ratio",
    "{samples per push} | {ours, patients:,.0f} | {LSTM, patients:,.0f} | {ratio:.1f} ×",
)  # fmt: skip
results_table(
    "docs/serving.md", "errors", "export", "errors",
    "settings | Δt | α | states in float32 | states in float64",
    "{setting} | {dt} | {alpha} | {float32:.0e} | {float64:.0e}",
)  # fmt: skip


@part("docs/streams.md", "steps")
def stream_steps() -> list[str]:
    result = load_results("streams")
    heading = "sequences | `layer.step` | `nn.LSTM` | speed-up"
    lines = table(result["steps"], heading, "{b:,} | {ours, us:,.0f} µs | {LSTM, us:,.0f} µs | {ratio:.1f} ×")
    return [*lines, "", f"{provenance(result)} Protocol: {result['protocol']}."]


@part("docs/serving.md", "costs")
def onnx_costs() -> list[str]:
    result = load_results("export")
    row = "{model} | {onnxruntime:.1f} µs | {unicornn:.1f} µs"
    return [*table(result["microseconds"], "model | onnxruntime | unicornn", row), "", provenance(result)]


@part("docs/training.md", "tasks")
def task_table() -> list[str]:
    rows = [
        {"title": task.title, "data": task.size, "name": task.name, "variants": ", ".join(task.variants)}
        | {"paper": _published(task), "options": _options(task)}
        for task in map(tasks.find, tasks.names())
    ]
    heading = "task | description | data | paper's UnICORNN | options (default first) | variants"
    return table(rows, heading, "`{name}` | {title} | {data} | {paper} | {options} | {variants}")


def _published(task: Task) -> str:
    quoted = [result for result in task.paper if result.model.startswith("UnICORNN")]
    values = dict.fromkeys(task.metric.text(result.value, result.deviation) for result in quoted)
    return f"{task.metric.name} {', '.join(values)}" if quoted else ""


def _options(task: Task) -> str:
    def as_typed(value: Any) -> str:
        if isinstance(value, tuple):
            return ",".join(map(str, value)) or "none"
        return str(value).lower() if isinstance(value, bool) else str(value)

    return "; ".join(f"{name}: {', '.join(map(as_typed, values))}" for name, values in task.options.items())


@part("docs/gpu.md", "measured")
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
