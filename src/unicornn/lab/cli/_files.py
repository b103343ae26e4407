"""The commands for one's own files: ``unicornn fit | predict | features``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unicornn._files import atomic_write
from unicornn.errors import BadValue
from unicornn.lab._lock import locked

console = Console()
commands = typer.Typer()

SeriesFile = Annotated[
    Path, typer.Argument(help=".csv, .parquet, .ts, .tsv or .npz, or a folder of .wav files.", metavar="FILE")
]
ModelFolder = Annotated[Path, typer.Argument(help="A folder, as `unicornn fit` makes.", metavar="MODEL")]
IdColumn = Annotated[str | None, typer.Option("--id", help="Column that names the series, of a table in long form.")]
TimeColumn = Annotated[str | None, typer.Option("--time", help="Column of times, of a table in long form.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what was understood.")]


@commands.command("fit")
def fit_series(
    file: SeriesFile,
    *,
    target: Annotated[
        str | None, typer.Option(help="Column or array to be predicted; .ts and .tsv bring theirs.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of the model.")] = Path("model"),
    model: Annotated[str, typer.Option(help="bank, network or both.")] = "bank",
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    budget: Annotated[float | None, typer.Option(help="Seconds at most, for a network.")] = None,
    segments: Annotated[
        int | None, typer.Option(help="Pieces in which a network measures energies; 1 for live use and ONNX steps.")
    ] = None,
    missing: Annotated[
        str | None, typer.Option(help="refuse or mask, of missing values; by default mask if FILE has some.")
    ] = None,
    id_: IdColumn = None,
    time: TimeColumn = None,
    dry_run: DryRun = False,
) -> None:
    """Fits a classifier or a regressor to a file of time series, and saves it with a page about it, report.html."""
    from unicornn.lab.fit import fit_file, read, scan
    from unicornn.lab.fit._fit import NO_TARGET
    from unicornn.lab.fit._report import write_report

    none = target is None and file.suffix.lower() not in (".ts", ".tsv")
    if none and not dry_run:
        raise BadValue(NO_TARGET)
    if dry_run:
        _show(file, scan(file, target, id_, time))
        if none:
            console.print("no target: --target names the column or array to be predicted")
        return
    data = read(file, target, id_, time)
    _show(file, [data])
    given = {"missing": missing, "segments": segments}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    with locked(out):
        estimator = fit_file(
            data, out, target, model=model, random_state=seed, budget=budget, verbose=console.is_terminal, **options
        )
        write_report(estimator, data, file.name, out / "report.html")
    scores = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in estimator.about_["scores"].items())
    console.print(f"{type(estimator).__name__}: {scores}; wrote {escape(str(out))}", highlight=False, soft_wrap=True)


@commands.command("predict")
def predict_series(
    model: ModelFolder,
    file: SeriesFile,
    *,
    out: Annotated[Path | None, typer.Option(help="A .csv for the predictions; else they are printed.")] = None,
    id_: IdColumn = None,
    time: TimeColumn = None,
    dry_run: DryRun = False,
    target: Annotated[str | None, typer.Option(help="Column of the true values, which is not a channel.")] = None,
) -> None:
    """Predicts the targets of the series in a file: one row for each, with the probabilities of the classes."""
    from unicornn.lab.fit import predict_file

    _write(predict_file, model, file, out, id_, time, dry_run, target)


@commands.command("features")
def write_features(
    model: ModelFolder,
    file: SeriesFile,
    *,
    out: Annotated[Path | None, typer.Option(help="A .csv for the features; else they are printed.")] = None,
    id_: IdColumn = None,
    time: TimeColumn = None,
    dry_run: DryRun = False,
    target: Annotated[str | None, typer.Option(help="Column of the true values, which is not a channel.")] = None,
) -> None:
    """The features by which a model predicts: one row for each series in a file."""
    from unicornn.lab.fit import features_file

    _write(features_file, model, file, out, id_, time, dry_run, target)


def _show(file: Path, parts: Iterable[Any]) -> None:
    """Prints what was understood."""
    from unicornn.lab.fit._data import described

    table = Table("file", escape(str(file)))
    for name, value in described(parts):
        table.add_row(name, escape(value))
    console.print(table)


def _write(
    make: Any,
    model: Path,
    file: Path,
    out: Path | None,
    id_: str | None,
    time: str | None,
    dry_run: bool,
    target: str | None,
) -> None:
    from unicornn.estimators import load
    from unicornn.lab.fit import stream

    estimator = load(model)
    parts = stream(file, target, id_, time, estimator.about_.get("target"))
    if dry_run:
        _show(file, parts)
        return
    tables = (make(estimator, data) for data in parts)
    if out is None:
        for i, table in enumerate(tables):
            typer.echo(table.to_csv(index=False, header=i == 0), nl=False)
        return
    rows = 0
    with atomic_write(out, "w") as page:
        for i, table in enumerate(tables):
            table.to_csv(page, index=False, header=i == 0)
            rows += len(table)
    console.print(f"wrote {escape(str(out))}: {rows:,} rows", highlight=False, soft_wrap=True)
