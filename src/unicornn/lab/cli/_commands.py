"""The command line: one function for each command of ``unicornn``."""

from __future__ import annotations

import errno
import io
import json
import re
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

import unicornn
from unicornn._extras import missing_library
from unicornn._load import is_fitted_model
from unicornn.errors import BadValue, UnicornnError
from unicornn.lab.cli import _app as options
from unicornn.lab.cli import _files as files
from unicornn.lab.cli._app import app, console, error_console, print_line, reading_options


def main() -> None:
    """Runs a command. Expected errors end with one message and a non-zero status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # escapes characters that the terminal's encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except UnicornnError as error:
        _fail(str(error))
    except ImportError as error:
        _fail(_missing(error))
    except MemoryError as error:
        _fail(f"not enough memory: {error}")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            _fail(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
        advice = "free some space, then repeat the command (`unicornn train` with --resume)"
        _fail(f"the disk is full ({error.strerror}). Finished parts are kept: {advice}")


def _fail(message: str) -> None:
    error_console.print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    raise SystemExit(1)


def _missing(error: ImportError) -> str:
    """Names the missing library. Libraries that a user's task file imports are not part of our extras."""
    if "pip install" in str(error) or error.name is None:
        return str(error)
    frames = [each.filename for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith("<")]
    if Path(frames[-1]).is_relative_to(Path(unicornn.__file__).parent):
        return missing_library(error.name, sys.argv[1:])
    return f"{frames[-1]} imports {error.name}, which is not installed"


@app.command("tasks")
def list_tasks(data: options.DataFolder = None) -> None:
    """Lists the tasks: size, the paper's result, whether the data is available."""
    from unicornn.lab import tasks

    source = options.source_in(data)
    named = Column("task", no_wrap=True), Column("data", min_width=20, overflow="fold")
    table = Table(*named, "local", "metric", "paper", "variants", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in tasks.names():
        task = tasks.find(name)
        ours = [q for q in task.paper if q.model.startswith("UnICORNN")]
        available = "yes" if all(map(source.has, task.files)) else "no"
        values = dict.fromkeys(task.metric.text(q.value) for q in ours)
        published, variants = ", ".join(values) or "–", ", ".join(task.variants) or "–"
        table.add_row(name, task.size, available, task.metric.name, published, variants)
    console.print(table)
    print_line(f"Data folder: {escape(str(source.data))}")
    print_line("To add a task, write a file with TASK = Task(...): unicornn train mine.py")


@app.command("data")
def fetch_data(name: options.TaskName, data: options.DataFolder = None) -> None:
    """Downloads, verifies and reads a task's files, or explains where to put them."""
    from unicornn.lab import tasks
    from unicornn.lab.tasks._checked import SPLITS, load_checked

    task, source = tasks.find(name), options.source_in(data)
    verified: dict[Path, bool] = {}
    for file in task.files:
        path = source.fetch(file, progress=console.is_terminal)
        verified[path] = verified.get(path, True) and source.verified(file)
    for path, by_hash in verified.items():
        print_line(
            f"{escape(str(path))}: {'verified by its hash' if by_hash else 'present; there is no published hash'}"
        )
    with console.status("Reading"):
        splits = load_checked(task, source, task.defaults, 0)
    sizes = ", ".join(f"{split} {len(getattr(splits, split)):,}" for split in SPLITS)
    print_line(f"{escape(task.name)}: {sizes} sequences")


@app.command("train")
def train_network(
    name: options.TaskName = "digits-noise",
    *,
    model: options.ModelName = "unicornn",
    variant: options.Variant = None,
    seed: Annotated[int, typer.Option(help="Seed of the weights, the batches, dropout and noise.")] = 0,
    epochs: Annotated[int | None, typer.Option(help="Number of epochs; default: the paper's.")] = None,
    budget: Annotated[str | None, typer.Option(help="Time limit: 90s, 30m, 1.5h.")] = None,
    set_: options.Settings = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="Run folder; default: a folder below runs/.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in its folder.")] = False,
    devices: Annotated[int, typer.Option(help="Number of processes on this machine.", min=1)] = 1,
    data: options.DataFolder = None,
) -> None:
    """Trains a network and writes a run folder: settings, curves, best weights, test metric."""
    from unicornn.lab import tasks
    from unicornn.lab._text import duration
    from unicornn.lab.training import resolve, train
    from unicornn.lab.training._config import parse
    from unicornn.lab.training._processes import launch, leave, rank, started

    settings: dict[str, Any] = parse(set_)
    if epochs is not None:
        settings["epochs"] = epochs
    task = tasks.find(name)
    config = resolve(
        task, name=name, model=model, variant=variant, seed=seed,
        budget=None if budget is None else _seconds(budget), settings=settings,
    )  # fmt: skip
    if devices > 1 and not started():
        return launch(devices)
    folder = out or _folder(task.name, model, variant, seed, set_)
    if rank() == 0:
        print_line(f"{escape(task.title)}: {model}, seed {seed}, in {escape(str(folder))}")
    run = train(config, folder, task=task, source=options.source_in(data), resume=resume, console=console)
    if run.finished and rank() == 0:
        result, metric = run.result, task.metric
        print_line(
            f"test {escape(metric.name)} [bold]{metric.text(result['test'])}[/] "
            f"(validation {metric.text(result['valid'])}, epoch {result['best_epoch']} of {result['epochs']}) · "
            f"{run.config['parameters']:,} parameters · {duration(result['seconds'])}"
        )
    leave()


@app.command("search")
def search_hyperparameters(
    name: options.TaskName,
    *,
    trials: Annotated[int, typer.Option(help="Number of trials over all processes of the search.", min=1)] = 50,
    model: options.ModelName = "unicornn",
    variant: options.Variant = None,
    seed: Annotated[int, typer.Option(help="Seed of the sampled parameters and of every training.")] = 0,
    epochs: Annotated[int | None, typer.Option(help="Number of epochs of a trial; default: the paper's.")] = None,
    budget: Annotated[str | None, typer.Option(help="Time limit of a trial: 90s, 30m, 1.5h.")] = None,
    range_: Annotated[
        list[str], typer.Option("--range", help="NAME=LOW,HIGH, or NAME=VALUE to fix it: --range lr=1e-4,1e-2.")
    ] = [],  # noqa: B006
    set_: options.Settings = [],  # noqa: B006
    sampler: Annotated[str, typer.Option(help="random or tpe.")] = "random",
    pruner: Annotated[str, typer.Option(help="none, median or hyperband: stops bad trials early.")] = "none",
    storage: Annotated[
        str | None,
        typer.Option(help="Shared by several machines: journal:FOLDER, or postgresql+psycopg://USER@HOST/NAME."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the search; default: a folder below runs/.")] = None,
    data: options.DataFolder = None,
) -> None:
    """Searches for hyperparameters by the validation set, as the paper did.

    The same command resumes a search. Started several times, the processes share the trials.
    """
    from unicornn.lab import tasks
    from unicornn.lab._study import outcome, ranked
    from unicornn.lab.search import search
    from unicornn.lab.training._config import parse

    task = tasks.find(name)
    folder = out or _folder(task.name, f"search-{model}", variant, seed, [*set_, *range_])
    print_line(f"{escape(task.title)}: search, {model}, {trials} trials, in {escape(str(folder))}")
    study = search(
        task, name=name, folder=folder, trials=trials, sampler=sampler, pruner=pruner, storage=storage, epochs=epochs,
        budget=None if budget is None else _seconds(budget), model=model, variant=variant, settings=parse(set_),
        space=parse(range_, "--range", "NAME=LOW,HIGH or NAME=VALUE"), seed=seed, source=options.source_in(data),
        console=console,
    )  # fmt: skip
    best, metric = ranked(study)[:1], task.metric
    if not best:
        failures = [trial.user_attrs["failure"] for trial in study.trials if outcome(trial) == "failed"]
        _fail(f"search: no trial was completed. First reason: {(failures or ['all were stopped early'])[0]}")
    print_line(
        f"best validation {escape(metric.name)} [bold]{metric.text(best[0].value)}[/], trial {best[0].number}; "
        f"to evaluate on the test set:\n{escape(best[0].user_attrs['command'])}"
    )


@app.command("evaluate")
def evaluate_run(
    run: options.RunFolder,
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "test",
    task: options.TaskFile = None,
    data: options.DataFolder = None,
) -> None:
    """Evaluates a run's best weights on one split of the data."""
    from unicornn._checks import choice
    from unicornn.lab._run_folder import Run
    from unicornn.lab.tasks._checked import SPLITS
    from unicornn.lab.training import evaluate

    choice("split", split, SPLITS)
    value, _ = evaluate(run, split, task=options.task_named(task), source=options.source_in(data))
    metric = Run(run).metric
    print_line(f"{split} {escape(metric.name)} [bold]{metric.text(value)}[/] ({value:.6g})")


@app.command("report")
def write_report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs or searches, or folders that contain some.")],
    out: Annotated[Path, typer.Option(help="Path of the page.")] = Path("report.html"),
) -> None:
    """Writes an HTML page about runs: results next to the paper's, curves, time steps, errors."""
    from unicornn.lab.report import report

    print_line(f"wrote {escape(str(report(runs, out)))}")


@app.command("diagnose")
def diagnose_run(run: options.RunFolder, task: options.TaskFile = None, data: options.DataFolder = None) -> None:
    """Measures a trained network: gradients over time and their growth, time steps, exact reversal."""
    from unicornn.lab.diagnose import diagnose, diagnosis_rows

    table = Table("quantity", "value", "assessment")
    for row in diagnosis_rows(diagnose(run, task=options.task_named(task), source=options.source_in(data))):
        table.add_row(*row)
    console.print(table)
    print_line(f"wrote {escape(str(run / 'diagnosis.json'))} and diagnosis.png")


@app.command("doctor")
def examine_installation(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON to attach to a bug report.")] = False,
) -> None:
    """Tests the installation: components, back-ends, speed, caches; names problems and their fixes."""
    from unicornn.lab.doctor import examine

    with error_console.status("Testing"):
        report = examine()
    if as_json:
        typer.echo(json.dumps(report, indent=1))
        return
    about, speed = report["environment"], report["speed"]
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_row(
        "machine", f"{about['platform']}, {about['cores']} cores, {about['threads']} threads, {about['device']}"
    )
    table.add_row("versions", ", ".join(f"{name} {value}" for name, value in about["versions"].items()))
    for extra, missing in report["extras"].items():
        table.add_row(f"extra {extra}", f"without {', '.join(missing)}" if missing else "installed")
    for name, problems in report["backends"].items():
        table.add_row(name, escape("; ".join(problems)) or "works")
    table.add_row(
        "speed", f"training step {speed['ours_ms']:.3g} ms, nn.LSTM {speed['ms']:.3g} ms: {speed['ratio']:.1f} ×"
    )
    for name, cache in report["caches"].items():
        table.add_row(f"cache of {name}", escape(cache["path"]) + ("" if cache["writable"] else " (not writable)"))
    console.print(table)
    for each in report["problems"]:
        print_line(f"[bold]problem:[/] {escape(each['problem'])}; {escape(each['fix'])}")
    if not report["problems"]:
        print_line("no problems found")


@app.command("bench")
def run_bench(
    models: Annotated[list[str] | None, typer.Argument(help="Baselines, NAME or NAME:LAYERS; default: all.")] = None,
    lengths: Annotated[list[int], typer.Option("--length", help="Sequence length (N); repeatable.")] = [1000, 2000],  # noqa: B006
    batch_size: Annotated[int, typer.Option(help="Number of sequences (b).")] = 128,
    input_size: Annotated[int, typer.Option(help="Number of input features (d).")] = 128,
    hidden_size: Annotated[int, typer.Option(help="Number of neurons per layer (m).")] = 128,
    seconds: Annotated[float, typer.Option(help="Time limit for one model at one length.")] = 10,
    out: Annotated[Path, typer.Option(help="Folder of bench.json and the chart.")] = Path("runs/bench"),
) -> None:
    """Compares time and memory of a training step with the baselines on this machine (the paper's Fig. 2)."""
    from unicornn.lab.bench import bench

    bench(
        models, lengths=lengths, batch_size=batch_size, d=input_size, hidden_size=hidden_size, seconds=seconds,
        out=out, console=console,
    )  # fmt: skip


@app.command("show")
@reading_options
def write_show(
    model: options.AnyModel,
    file: Annotated[
        Path | None, typer.Argument(help="Time series, as for `unicornn fit`; by default the data of a run's task.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="HTML file.")] = Path("show.html"),
    split: Annotated[str, typer.Option(help="train, valid or test, of a run's task.")] = "test",
    samples: Annotated[int, typer.Option(help="Number of samples to choose from.", min=1)] = 6,
    target: files.TrueColumn = None,
    task: options.TaskFile = None,
    data: options.DataFolder = None,
    reading: dict[str, Any],
) -> None:
    """Write an HTML page in which the model runs on samples of its data."""
    from unicornn.lab.show import write_file_page, write_run_page

    if file is None:
        source = options.source_in(data)
        page = write_run_page(model, out, split=split, samples=samples, task=options.task_named(task), source=source)
    else:
        from unicornn.lab.fit import read

        estimator = unicornn.load_model(model) if is_fitted_model(model) else None
        series = read(file, target, **(reading if estimator is None else files.stored_reading(estimator, reading)))
        loaded = estimator or model
        page = write_file_page(loaded, series, out, title=file.name, samples=samples, task=options.task_named(task))
    print_line(f"wrote {escape(str(page))}")


@app.command("export")
def export_model(
    model: options.AnyModel,
    to: Annotated[Path, typer.Option(help="ONNX file, or .js for the default classifier.")] = Path("model.onnx"),
    kind: Annotated[str, typer.Option(help="sequence, or step for streams.")] = "sequence",
    task: options.TaskFile = None,
) -> None:
    """Export the model as an ONNX file, and compare it with PyTorch in onnxruntime; or as JavaScript."""
    from unicornn import load_model

    loaded = load_model(model, task=options.task_named(task))
    if to.suffix == ".js":
        from unicornn.lab.show import write_script

        path = write_script(loaded, to)
    else:
        from unicornn.export import onnx

        with console.status("Exporting and comparing"):
            path = onnx(loaded, to, kind)
    print_line(f"wrote {escape(str(path))}")


def _seconds(text: str) -> float:
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)([smh]?)", text)
    if not match or not float(match[1]):
        raise BadValue(f"budget: expected a time such as 90s, 30m or 1.5h, got {text!r}")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def _folder(task: str, model: str, variant: str | None, seed: int, settings: list[str]) -> Path:
    """runs/task/model-variant-settings-seed: the same command with --resume finds it again."""
    words = [model, *([variant] if variant else []), *sorted(settings), f"seed{seed}"]
    return Path("runs") / task / re.sub(r"[^\w.=,+-]", "_", "-".join(words))
