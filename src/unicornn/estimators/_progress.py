"""Progress bar with the remaining time, for ``verbose``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(epochs: int, enabled: bool) -> Iterator[Callable[[int, dict[str, float]], None]]:
    """Yields a function to call after each epoch with its number and losses."""
    if not enabled:
        yield lambda epoch, losses: None
        return
    from rich import progress as rich

    columns = rich.TextColumn("epoch"), rich.MofNCompleteColumn(), rich.BarColumn(), rich.TimeElapsedColumn()
    left = rich.TextColumn("left"), rich.TimeRemainingColumn(), rich.TextColumn("{task.fields[losses]}")
    with rich.Progress(*columns, *left) as bar:
        task = bar.add_task("training", total=epochs, losses="")

        def update(epoch: int, losses: dict[str, float]) -> None:
            bar.update(task, completed=epoch, losses=" ".join(f"{k} {v:.4g}" for k, v in losses.items()))

        yield update
