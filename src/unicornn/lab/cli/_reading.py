"""The options that say how a file of time series is read, shared by the commands that read one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

_OPTIONS: dict[str, Any] = {
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
        given = {name: named.pop(name) for name in _OPTIONS}
        command(*arguments, reading={name: value for name, value in given.items() if value}, **named)

    signature = inspect.signature(command, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "reading"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in _OPTIONS.items()
    ]
    run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *added]}
    return run
