"""The commands for trained or fitted models: ``unicornn show | export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from unicornn.lab.cli._files import TrueColumn, console, print_line
from unicornn.lab.cli._options import DataFolder, TaskFile, source_in, task_named
from unicornn.lab.cli._reading import reading_options

commands = typer.Typer()

AnyModel = Annotated[Path, typer.Argument(help="Folder made by `unicornn train` or `unicornn fit`.", metavar="MODEL")]


@commands.command("show")
@reading_options
def write_show(
    model: AnyModel,
    file: Annotated[
        Path | None, typer.Argument(help="Time series, as for `unicornn fit`; by default the data of a run's task.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="HTML file.")] = Path("show.html"),
    split: Annotated[str, typer.Option(help="train, valid or test, of a run's task.")] = "test",
    samples: Annotated[int, typer.Option(help="Number of samples to choose from.", min=1)] = 6,
    target: TrueColumn = None,
    task: TaskFile = None,
    data: DataFolder = None,
    reading: dict[str, Any],
) -> None:
    """Write an HTML page in which the network runs on samples of its data, forwards and backwards."""
    from unicornn.lab.show import write_file_page, write_run_page

    if file is None:
        page = write_run_page(model, out, split=split, samples=samples, task=task_named(task), source=source_in(data))
    else:
        from unicornn.lab.fit import read

        series = read(file, target, **reading)
        page = write_file_page(model, series, out, title=file.name, samples=samples, task=task_named(task))
    print_line(f"wrote {escape(str(page))}")


@commands.command("export")
def export_model(
    model: AnyModel,
    to: Annotated[Path, typer.Option(help="ONNX file.")] = Path("model.onnx"),
    kind: Annotated[str, typer.Option(help="sequence, or step for streams.")] = "sequence",
    task: TaskFile = None,
) -> None:
    """Export the network as an ONNX file, and compare it with PyTorch in onnxruntime."""
    from unicornn import load_model
    from unicornn.export import onnx

    with console.status("Exporting and comparing"):
        path = onnx(load_model(model, task=task_named(task)), to, kind)
    print_line(f"wrote {escape(str(path))}")
