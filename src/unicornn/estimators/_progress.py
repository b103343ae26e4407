"""A progress bar with the time left, for ``verbose``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(epochs: int, enabled: bool) -> Iterator[Callable[[int, dict[str, float]], None]]:
    """A function to be told each epoch's number and losses."""
    if not enabled:
        yield lambda epoch, numbers: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = TextColumn("epoch"), MofNCompleteColumn(), BarColumn(), TimeElapsedColumn(), TextColumn("left")
    with Progress(*columns, TimeRemainingColumn(), TextColumn("{task.fields[losses]}")) as bar:
        task = bar.add_task("training", total=epochs, losses="")

        def tell(epoch: int, numbers: dict[str, float]) -> None:
            bar.update(task, completed=epoch, losses=" ".join(f"{k} {v:.4g}" for k, v in numbers.items()))

        yield tell
