"""The commands for what has been trained or fitted: ``unicornn show | export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from unicornn.lab.cli._files import IdColumn, TimeColumn
from unicornn.lab.cli._options import DataFolder, TaskFile, source_in, task_named

console = Console()
commands = typer.Typer()

AnyModel = Annotated[
    Path, typer.Argument(help="A folder that `unicornn train` or `unicornn fit` made.", metavar="MODEL")
]


@commands.command("show")
def write_show(
    model: AnyModel,
    file: Annotated[
        Path | None, typer.Argument(help="Time series, as for `unicornn fit`; for a run, else those of its task.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("show.html"),
    split: Annotated[str, typer.Option(help="train, valid or test, of a run's task.")] = "test",
    samples: Annotated[int, typer.Option(help="How many are to be chosen from.", min=1)] = 6,
    id_: IdColumn = None,
    time: TimeColumn = None,
    target: Annotated[str | None, typer.Option(help="Column of the true values, which is not a channel.")] = None,
    task: TaskFile = None,
    data: DataFolder = None,
) -> None:
    """One HTML page in which the network runs on samples of its data, forwards and backwards."""
    from unicornn.lab.show import write_file_page, write_run_page

    if file is None:
        page = write_run_page(model, out, split=split, samples=samples, task=task_named(task), source=source_in(data))
    else:
        from unicornn.lab.fit import read

        given = read(file, target, id_, time)
        page = write_file_page(model, given, out, title=file.name, samples=samples, task=task_named(task))
    _print(f"wrote {escape(str(page))}")


@commands.command("export")
def export_model(
    model: AnyModel,
    to: Annotated[Path, typer.Option(help="The ONNX file.")] = Path("model.onnx"),
    kind: Annotated[str, typer.Option(help="sequence, or step for live use.")] = "sequence",
    task: TaskFile = None,
) -> None:
    """The network as an ONNX file, checked against PyTorch in onnxruntime."""
    from unicornn.export import onnx
    from unicornn.lab._model_folder import model_in

    with console.status("Writing and comparing"):
        path = onnx(model_in(model, task=task_named(task)), to, kind)
    _print(f"wrote {escape(str(path))}")


def _print(text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)
