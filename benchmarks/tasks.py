"""Writes the table of tasks in docs/training.md from the tasks themselves: python -m benchmarks.tasks"""

from __future__ import annotations

from pathlib import Path

from benchmarks.pages import fill
from unicornn.lab import tasks

PAGE = Path(__file__).parent.parent / "docs" / "training.md"


def table() -> list[str]:
    lines = [
        "| task | | data | paper's UnICORNN | options (the default first) | variants |",
        "|---|---|---|---|---|---|",
    ]
    for name in tasks.names():
        task = tasks.find(name)
        ours = [quoted for quoted in task.paper if quoted.model.startswith("UnICORNN")]
        figures = ", ".join(dict.fromkeys(task.metric.text(q.value, q.deviation) for q in ours))
        options = "; ".join(f"{k}: {', '.join(map(str, values))}" for k, values in task.options.items())
        cells = (f"`{name}`", task.title, task.size, f"{task.metric.name} {figures}" if ours else "", options)
        lines.append(f"| {' | '.join(cells)} | {', '.join(task.variants)} |".replace("  |", " |"))
    return lines


def page(text: str) -> str:
    return fill(text, {"tasks": table()})


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
