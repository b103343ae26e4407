"""The table of tasks in docs/training.md, from the tasks themselves."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from docs.build.pages import table
from unicornn.lab import tasks

PAGE = "docs/training.md"


def _text(value: Any) -> str:
    """As it would be written on the command line."""
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def task_table() -> list[str]:
    rows = []
    for name in tasks.names():
        task = tasks.find(name)
        ours = [quoted for quoted in task.paper if quoted.model.startswith("UnICORNN")]
        numbers = ", ".join(dict.fromkeys(task.metric.text(q.value, q.deviation) for q in ours))
        options = "; ".join(f"{k}: {', '.join(map(_text, values))}" for k, values in task.options.items())
        paper = f"{task.metric.name} {numbers}" if ours else ""
        rows.append((f"`{name}`", task.title, task.size, paper, options, ", ".join(task.variants)))
    return table(("task", "", "data", "paper's UnICORNN", "options (the default first)", "variants"), rows)


def blocks() -> dict[str, list[str]]:
    return {"tasks": task_table()}


def plots() -> dict[str, Figure]:
    return {}
