"""Progress bar with the remaining time, for ``verbose``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(name: str, total: float, enabled: bool) -> Iterator[Callable[..., None]]:
    """Yields a function to call with the part of ``total`` that is done, and with numbers to show by name."""
    if not enabled:
        yield lambda done, **numbers: None
        return
    from rich import progress as rich

    columns = rich.TextColumn(name), rich.BarColumn(), rich.TextColumn("{task.completed:.3g}/{task.total:.3g}")
    times = rich.TimeElapsedColumn(), rich.TextColumn("left"), rich.TimeRemainingColumn()
    with rich.Progress(*columns, *times, rich.TextColumn("{task.fields[numbers]}")) as bar:
        task = bar.add_task(name, total=total, numbers="")

        def update(done: float, **numbers: float) -> None:
            bar.update(task, completed=done, numbers=" ".join(f"{k} {v:.4g}" for k, v in numbers.items()))

        yield update
