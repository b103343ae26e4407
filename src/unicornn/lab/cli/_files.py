"""The commands for files of time series: ``unicornn fit | predict | explain | features``."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from unicornn._files import atomic_write
from unicornn._load import is_fitted_model
from unicornn.errors import BadValue, UnicornnError
from unicornn.lab._lock import locked
from unicornn.lab._text import duration
from unicornn.lab.cli._app import app, console, error_console, print_line, reading_options

SeriesFile = Annotated[
    Path,
    typer.Argument(
        help=".csv, .parquet, .ts, .tsv, .npz, ...; folder of recordings or tables; 'data/*.parquet' for many files.",
        metavar="FILE",
    ),
]
ModelFolder = Annotated[Path, typer.Argument(help="Folder made by `unicornn fit`.", metavar="MODEL")]
OutFile = Annotated[Path | None, typer.Option(help="Output .csv file; printed by default.")]
TrueColumn = Annotated[str | None, typer.Option(help="Column of the true values, which is not a channel.")]
Engine = Annotated[
    str | None,
    typer.Option(help="dask, ray or spark, for long tables in Parquet files."),
]
Address = Annotated[str | None, typer.Option(help="Address of the cluster; by default the engine runs here.")]
Malformed = Annotated[str, typer.Option(help="With --engine: raise, or report malformed series and continue.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print how the file is interpreted.")]


@app.command("fit")
@reading_options
def fit_series(
    file: SeriesFile,
    *,
    target: Annotated[
        str | None, typer.Option(help="Column or array to predict; .ts and .tsv files have their own.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the model.")] = Path("model"),
    model: Annotated[str, typer.Option(help="bank, network or both.")] = "bank",
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    budget: Annotated[float | None, typer.Option(help="Time limit in seconds, if a network is trained.")] = None,
    segments: Annotated[
        int | None, typer.Option(help="Segments in which a network measures energies; 1 for streams and ONNX steps.")
    ] = None,
    missing: Annotated[
        str | None, typer.Option(help="error or mask: how to treat missing values; mask if FILE has some.")
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of persons or machines, left out as a whole."),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="dataset, series (each by its own mean and deviation) or auto: by the error on left-out series."
        ),
    ] = None,
    classify: Annotated[
        bool | None, typer.Option("--classify/--regress", help="Kind of the target; by default its values decide.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder with other files.")] = False,
    engine: Engine = None,
    address: Address = None,
    malformed: Malformed = "raise",
    dry_run: DryRun = False,
    reading: dict[str, Any],
) -> None:
    """Fit a classifier or a regressor to a file of time series; save it with a page about it, report.html.

    Examples:

    - `unicornn fit walks.csv --target person --dry-run`

    - `unicornn fit walks.csv --target person --out model`

    - `unicornn fit GunPoint_TRAIN.ts --model network --budget 60`
    """
    from unicornn import distributed
    from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor
    from unicornn.lab.fit import fit_file, read, stream
    from unicornn.lab.fit._engines import open_frame
    from unicornn.lab.fit._files import has_targets
    from unicornn.lab.fit._fit import NO_TARGET, check_options
    from unicornn.lab.fit._many import UNFINISHED, Files, fit_files, matching
    from unicornn.lab.fit._report import write_report

    paths = matching(file)
    first = file if paths is None else paths[0]
    no_target = target is None and not has_targets(first)
    reading |= {} if groups is None else {"groups": groups}
    if dry_run:
        _print_description(first, stream(first, target, whole_series=False, **reading))
        if no_target:
            console.print("no target: --target names the column or array to predict")
        return
    if no_target:
        raise BadValue(NO_TARGET)
    if not (force or (out / UNFINISHED).exists()):
        _check_model_folder(out)
    given = {
        "missing": missing, "segments": segments, "scale": scale, "budget": budget, "verbose": console.is_terminal,
    }  # fmt: skip
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    options |= {"model": model, "random_state": seed}
    check_options(options)
    if engine is not None:
        columns = {"series": reading.get("id", "series"), "time": reading.get("time", "time"), "groups": groups}
        kind = UnICORNNRegressor if classify is False else UnICORNNClassifier
        with locked(out), open_frame(engine, address, file) as frame:
            estimator = distributed.fit(kind(**options), frame, target or "", malformed=malformed, **columns)
            estimator.about_ |= {"reading": {"id": columns["series"], "time": columns["time"]}, "target": target}
            estimator.save_pretrained(out)
        for name, error in estimator.about_["malformed"].items():
            print_line(f"left out: series {escape(name)}: {escape(error)}")
    elif paths is not None:
        with locked(out), _progress(len(paths)) as tell:
            many = Files(paths, target, reading)
            estimator = fit_files(many, out, classify=classify, tell=tell, **options | {"verbose": False})
    else:
        data = read(file, target, **reading)
        _print_description(file, [data])
        with locked(out):
            estimator = fit_file(data, out, target, groups=groups, classify=classify, **options)
            write_report(estimator, data, file.name, out / "report.html")
    scores = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in estimator.about_["scores"].items())
    left_out = f"left out by {estimator.left_out_by_}, scaled by {estimator.scale_}"
    print_line(f"{type(estimator).__name__}: {scores} ({left_out}); wrote {escape(str(out))}")


@contextlib.contextmanager
def _progress(files: int) -> Iterator[Any]:
    """Yields a function that shows what is being done, the files and series done, and the remaining time."""
    begin: dict[str, tuple[float, int]] = {}
    with console.status("") if console.is_terminal else contextlib.nullcontext() as status:

        def tell(doing: str, done: int, series: int) -> None:
            now = time.monotonic()
            start, already = begin.setdefault(doing, (now, done))
            left = f", {duration((now - start) / (done - already) * (files - done))} left" if done > already else ""
            if status is not None:
                status.update(f"{doing}: file {min(done + 1, files)} of {files}, {series:,} series{left}")

        yield tell


def _check_model_folder(out: Path) -> None:
    """Raises an error if a model in this folder would replace or hide other files."""
    others = [path.name for path in out.iterdir() if path.name != "lock"] if out.is_dir() else []
    if others and not is_fitted_model(out):
        raise BadValue(
            f"--out: expected a new folder or one with a fitted model, got {out}, which has {others[0]}; "
            "name another folder, or write into this one with --force"
        )


def _print_description(file: Path, parts: Iterable[Any]) -> None:
    from unicornn.lab.fit._data import describe

    table = Table("file", escape(str(file)))
    for name, value in describe(parts):
        table.add_row(name, escape(value))
    console.print(table)


def stored_reading(estimator: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Options for reading a file as the one that the model was fitted to, unless others are given."""
    return {"like": estimator.about_.get("reading", {}), **given}


def _add_command(name: str, function: str, description: str) -> None:
    """Adds a command that applies a function of ``unicornn.lab.fit`` to the series in a file, some at a time."""

    @app.command(name, help=description)
    @reading_options
    def apply(
        model: ModelFolder,
        file: SeriesFile,
        *,
        out: OutFile = None,
        dry_run: DryRun = False,
        target: TrueColumn = None,
        engine: Engine = None,
        address: Address = None,
        malformed: Malformed = "raise",
        reading: dict[str, Any],
    ) -> None:
        from unicornn import distributed, load_model
        from unicornn.lab import fit
        from unicornn.lab.fit._engines import open_frame, write_frame
        from unicornn.lab.fit._many import Files, apply_to_files, matching

        estimator = load_model(model)
        options = stored_reading(estimator, reading)
        paths = matching(file)
        if engine is not None:
            if out is None:
                raise BadValue("--out: expected the folder to write with --engine, got none")
            known = options["like"] | reading
            columns = {"series": known.get("id", "series"), "time": known.get("time", "time")}
            with open_frame(engine, address, file) as frame:
                write_frame(getattr(distributed, name)(estimator, frame, malformed=malformed, **columns), out)
            print_line(f"wrote {escape(str(out))}")
            return
        if paths is not None and not dry_run:
            if out is None:
                raise BadValue("--out: expected the .csv file to write for many files, got none")
            with _progress(len(paths)) as tell:
                rows = apply_to_files(getattr(fit, function), estimator, Files(paths, target, options), out, tell)
            print_line(f"wrote {escape(str(out))}: {rows:,} rows")
            return
        file = file if paths is None else paths[0]
        parts = fit.stream(file, target, **options)
        if dry_run:
            _print_description(file, parts)
            return
        answers: dict[str, Any] = {}
        with contextlib.nullcontext(sys.stdout) if out is None else atomic_write(out, "w") as page:
            for i, data in enumerate(parts):
                table = getattr(fit, function)(estimator, data)
                table.to_csv(page, index=False, header=i == 0)
                answers |= dict(zip(table["series"], table.iloc[:, 1], strict=True))
        if out is not None:
            print_line(f"wrote {escape(str(out))}: {len(answers):,} rows")
        if name == "predict" and (score := _score(estimator, answers, file, target, options)):
            (error_console if out is None else console).print(score, highlight=False)  # not among printed predictions


def _score(estimator: Any, answers: dict[str, Any], file: Path, target: str | None, reading: dict[str, Any]) -> str:
    """The score of predictions if the file has targets: those named, those of its format, or the model's column."""
    from unicornn.lab.fit import score_text, stream

    known: dict[str, Any] = {}
    try:
        for part in stream(file, target or estimator.about_.get("target"), **reading):
            known |= {} if part.target is None else dict(zip(part.ids, part.target.tolist(), strict=True))
    except UnicornnError:  # no such column, or some targets are missing
        return ""
    return score_text(estimator, [answers[name] for name in known], list(known.values())) if known else ""


_add_command(
    "predict",
    "predict_file",
    "Predict the targets of the series in a file: one row per series, with the probabilities of classes. "
    "Prints the score if the file has targets.\n\nExample: `unicornn predict model new.csv --out predictions.csv`",
)
_add_command("features", "features_file", "Write the features from which a model predicts: one row per series.")


@app.command("explain")
@reading_options
def explain_series(
    model: ModelFolder,
    file: SeriesFile,
    *,
    out: Annotated[Path, typer.Option(help="HTML file.")] = Path("explain.html"),
    samples: Annotated[int, typer.Option(help="Number of series.", min=1)] = 6,
    target: TrueColumn = None,
    reading: dict[str, Any],
) -> None:
    """Write an HTML page about the parts of series that speak for and against their predictions.

    With --target, of the clearest correct and incorrect predictions; otherwise of the first series.
    """
    from unicornn import load_model
    from unicornn.lab.fit import read
    from unicornn.lab.fit._explain import write_explanations

    estimator = load_model(model)
    data = read(file, target, **stored_reading(estimator, reading))
    print_line(f"wrote {escape(str(write_explanations(estimator, data, file.name, out, samples)))}")
