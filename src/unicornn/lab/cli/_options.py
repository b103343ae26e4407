"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

DataFolder = Annotated[
    Path | None, typer.Option("--data", help="Folder of the data files.", envvar="UNICORNN_DATA", file_okay=False)
]
TaskFile = Annotated[
    str | None, typer.Option("--task", help="The run's task, if it is one of your own: the path of its file.")
]


def source_in(data: Path | None) -> Any:
    from unicornn.lab.data._files import Source

    return Source(data)


def task_named(name: str | None) -> Any:
    from unicornn.lab import tasks

    return None if name is None else tasks.find(name)
