"""The application, its console, and the arguments and options that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import unicornn

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown",
)  # fmt: skip
console, error_console = Console(), Console(stderr=True)

TaskName = Annotated[
    str, typer.Argument(help="Name of a task (see `unicornn tasks`) or path of a task file.", metavar="TASK")
]
ModelName = Annotated[str, typer.Option(help="unicornn, or a baseline: lstm, gru, ...")]
Variant = Annotated[str | None, typer.Option(help="Variant of the task.")]
Settings = Annotated[
    list[str], typer.Option("--set", help="NAME=VALUE, any other setting: --set dt=0.2 --set lr=1e-3.")
]
RunFolder = Annotated[Path, typer.Argument(help="Run folder, as `unicornn train` makes it.", metavar="RUN")]
DataFolder = Annotated[
    Path | None, typer.Option("--data", help="Folder of the data files.", envvar="UNICORNN_DATA", file_okay=False)
]
TaskFile = Annotated[
    str | None, typer.Option("--task", help="Path of the run's task file, if the task is not part of the package.")
]
AnyModel = Annotated[Path, typer.Argument(help="Folder made by `unicornn train` or `unicornn fit`.", metavar="MODEL")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unicornn {unicornn.__version__}")
        raise typer.Exit


@app.callback()
def describe_app(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Recurrent networks for very long sequences: your own files, the experiments of the UnICORNN paper, your tasks.

    Examples:

    - `unicornn fit walks.csv --target person --out model`

    - `unicornn predict model new.csv --out predictions.csv`

    - `unicornn train digits-noise --budget 75s --out runs/demo`
    """


def print_line(text: str) -> None:
    """Prints a line with Rich markup; callers escape names that come from the user."""
    console.print(text, highlight=False, soft_wrap=True)


def source_in(data: Path | None) -> Any:
    from unicornn.lab.data._files import Source

    return Source(data)


def task_named(name: str | None) -> Any:
    from unicornn.lab import tasks

    return None if name is None else tasks.find(name)


_READING_OPTIONS: dict[str, Any] = {
    "id": Annotated[str | None, typer.Option("--id", help="Column of series names.")],
    "time": Annotated[str | None, typer.Option("--time", help="Column of times, in a long table.")],
    "drop": Annotated[list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Column to leave out.")],
    "form": Annotated[
        str | None, typer.Option("--form", help="long: a table with one row per step; wide: one row per series.")
    ],
    "separator": Annotated[str | None, typer.Option("--separator", help="Between the columns of text; or tab.")],
    "decimal": Annotated[str | None, typer.Option("--decimal", help="Decimal mark of numbers in text: . or ,")],
    "encoding": Annotated[str | None, typer.Option("--encoding", help="Encoding of text, such as latin-1.")],
    "resample": Annotated[
        str | None,
        typer.Option("--resample", metavar="PERIOD", help="Put series with times on a regular grid: 0.5, 10ms, 1h."),
    ],
}


def reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options for reading files; it receives those that are set as the dict ``reading``.

    The keys are the keyword arguments of ``unicornn.lab.fit.read`` and ``stream``.
    """

    @functools.wraps(command)
    def run(*arguments: Any, **named: Any) -> None:
        given = {name: named.pop(name) for name in _READING_OPTIONS}
        command(*arguments, reading={name: value for name, value in given.items() if value}, **named)

    signature = inspect.signature(command, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "reading"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in _READING_OPTIONS.items()
    ]
    run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *added]}
    return run
