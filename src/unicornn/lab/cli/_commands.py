"""The command line: one function for each command of ``unicornn``."""

from __future__ import annotations

import errno
import io
import re
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import unicornn
from unicornn.errors import BadValue, UnicornnError
from unicornn.lab.cli import _files as files
from unicornn.lab.cli import _use as use
from unicornn.lab.cli._options import DataFolder, TaskFile, source_in, task_named

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich",
    help="Recurrent networks for very long sequences: the experiments of the UnICORNN paper, and your own.",
)  # fmt: skip
console, complaints = Console(), Console(stderr=True)

RunFolder = Annotated[Path, typer.Argument(help="A run folder, as `unicornn train` makes.", metavar="RUN")]


def main() -> None:
    """Runs a command; what can be expected to go wrong ends with one message and a status other than zero."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal's encoding lacks is shown escaped
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
        what_to_do = "make room, then repeat the command (a training with --resume)"
        _fail(f"the disk is full ({error.strerror}). What was complete is kept: {what_to_do}")


def _fail(message: str) -> None:
    complaints.print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    raise SystemExit(1)


def _missing(error: ImportError) -> str:
    """What is not installed, and what to do about it: what a task of the user's imports does not come with an extra."""
    frames = [each.filename for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith("<")]
    ours = Path(frames[-1]).is_relative_to(Path(unicornn.__file__).parent)
    if "pip install" in str(error) or error.name is None:  # it says what to do
        return str(error)
    if ours:
        return f"{error.name} is not installed; try pip install 'unicornn[train]'"
    return f"{frames[-1]} imports {error.name}, which is not installed"


def _print(text: str) -> None:
    """A line with Rich's markup, in which whatever a user has named is escaped."""
    console.print(text, highlight=False, soft_wrap=True)


@app.command("tasks")
def list_tasks(data: DataFolder = None) -> None:
    """What there is to learn: size, the paper's result, whether the data is here."""
    from unicornn.lab import tasks

    source = source_in(data)
    table = Table("task", "data", "metric", "paper", "here?", "variants")
    for name in tasks.names():
        task = tasks.find(name)
        ours = [q for q in task.paper if q.model.startswith("UnICORNN")]
        here = "yes" if all(map(source.has, task.files)) else "no"
        published = ", ".join(dict.fromkeys(task.metric.text(q.value) for q in ours)) or "–"
        table.add_row(name, task.size, task.metric.name, published, here, ", ".join(task.variants) or "–")
    console.print(table)
    _print(f"Data folder: {escape(str(source.data))}")
    _print("A task of your own is a file with TASK = Task(...): unicornn train mine.py")


@app.command("data")
def fetch_data(
    name: Annotated[str, typer.Argument(help="Name of the task, or the path of a task's file.", metavar="TASK")],
    data: DataFolder = None,
) -> None:
    """Fetches a task's files, verifies them, reads them once; or says what to put where."""
    from unicornn.lab import tasks
    from unicornn.lab.tasks._checked import SPLITS, load_checked

    task, source = tasks.find(name), source_in(data)
    here: dict[Path, bool] = {}
    for file in task.files:
        path = source.fetch(file, progress=console.is_terminal)
        here[path] = here.get(path, True) and source.verified(file)
    for path, verified in here.items():
        how = "verified by its hash" if verified else "here, in a form that has no published hash"
        _print(f"{escape(str(path))}: {how}")
    with console.status("Reading"):
        splits = load_checked(task, source, {option: values[0] for option, values in task.options.items()}, 0)
    sizes = ", ".join(f"{split} {len(getattr(splits, split)):,}" for split in SPLITS)
    _print(f"{escape(task.name)}: {sizes} sequences")


@app.command("train")
def train_network(
    name: Annotated[
        str,
        typer.Argument(help="Name of the task (see `unicornn tasks`), or the path of a task's file.", metavar="TASK"),
    ] = "digits-noise",
    *,
    model: Annotated[str, typer.Option(help="unicornn, or a baseline: lstm, gru, ...")] = "unicornn",
    variant: Annotated[str | None, typer.Option(help="One of the task's variants.")] = None,
    seed: Annotated[int, typer.Option(help="Of the weights, the batches, dropout and noise.")] = 0,
    epochs: Annotated[int | None, typer.Option(help="Instead of the paper's.")] = None,
    budget: Annotated[str | None, typer.Option(help="Stop after this time: 90s, 30m, 1.5h.")] = None,
    set_: Annotated[
        list[str], typer.Option("--set", help="NAME=VALUE, any other setting: --set dt=0.2 --set lr=1e-3.")
    ] = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="The run folder; else one below runs/.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Take up the run in its folder.")] = False,
    devices: Annotated[int, typer.Option(help="Processes on this machine.", min=1)] = 1,
    data: DataFolder = None,
) -> None:
    """Trains a network and leaves a run folder: settings, curves, best weights, the test metric."""
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
        _print(f"{escape(task.title)}: {model}, seed {seed}, in {escape(str(folder))}")
    run = train(config, folder, task=task, source=source_in(data), resume=resume, console=console)
    if run.finished and rank() == 0:
        result, metric = run.result, task.metric
        _print(
            f"test {escape(metric.name)} [bold]{metric.text(result['test'])}[/] "
            f"(validation {metric.text(result['valid'])}, epoch {result['best_epoch']} of {result['epochs']}) · "
            f"{run.config['parameters']:,} parameters · {duration(result['seconds'])}"
        )
    leave()


@app.command("search")
def search_hyperparameters(
    name: Annotated[str, typer.Argument(help="Name of the task, or the path of a task's file.", metavar="TASK")],
    *,
    trials: Annotated[int, typer.Option(help="How many, over all processes of the search.", min=1)] = 50,
    model: Annotated[str, typer.Option(help="unicornn, or a baseline: lstm, gru, ...")] = "unicornn",
    variant: Annotated[str | None, typer.Option(help="One of the task's variants.")] = None,
    seed: Annotated[int, typer.Option(help="Of what is drawn, and of every training.")] = 0,
    epochs: Annotated[int | None, typer.Option(help="Of a trial, instead of the paper's.")] = None,
    budget: Annotated[str | None, typer.Option(help="Stop a trial after this time: 90s, 30m, 1.5h.")] = None,
    range_: Annotated[
        list[str], typer.Option("--range", help="NAME=LOW,HIGH, or NAME=VALUE to fix it: --range lr=1e-4,1e-2.")
    ] = [],  # noqa: B006
    set_: Annotated[list[str], typer.Option("--set", help="NAME=VALUE, any other setting, not searched.")] = [],  # noqa: B006
    sampler: Annotated[str, typer.Option(help="random or tpe.")] = "random",
    pruner: Annotated[str, typer.Option(help="none, median or hyperband: stops bad trials early.")] = "none",
    storage: Annotated[str | None, typer.Option(help="For many machines: postgresql+psycopg://USER@HOST/NAME.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of the search; else one below runs/.")] = None,
    data: DataFolder = None,
) -> None:
    """Searches for hyperparameters by the validation set, as the paper did. The same command goes on, or helps."""
    from unicornn.lab import tasks
    from unicornn.lab.search import search
    from unicornn.lab.training._config import parse

    task = tasks.find(name)
    folder = out or _folder(task.name, f"search-{model}", variant, seed, [*set_, *range_])
    _print(f"{escape(task.title)}: search, {model}, {trials} trials, in {escape(str(folder))}")
    study = search(
        task, name=name, folder=folder, trials=trials, sampler=sampler, pruner=pruner, storage=storage, epochs=epochs,
        budget=None if budget is None else _seconds(budget), model=model, variant=variant, settings=parse(set_),
        space=parse(range_, "--range", "NAME=LOW,HIGH or NAME=VALUE"), seed=seed, source=source_in(data),
        console=console,
    )  # fmt: skip
    if study.best is None:
        why = next((trial.failure for trial in study.trials if trial.failure), "all were stopped early")
        _fail(f"search: none of {len(study.trials)} trials was complete. The first reason: {why}")
    else:
        _print(
            f"best validation {escape(study.metric.name)} [bold]{study.metric.text(study.best.value)}[/], trial "
            f"{study.best.number}; with the test set:\n{escape(study.command)}"
        )


@app.command("evaluate")
def evaluate_run(
    run: RunFolder,
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "test",
    task: TaskFile = None,
    data: DataFolder = None,
) -> None:
    """The metric of a run's best weights on one split of the data."""
    from unicornn._checks import choice
    from unicornn.lab._run_folder import Run
    from unicornn.lab.tasks._checked import SPLITS
    from unicornn.lab.training import evaluate

    choice("split", split, SPLITS)
    value, _ = evaluate(run, split, task=task_named(task), source=source_in(data))
    metric = Run(run).metric
    _print(f"{split} {escape(metric.name)} [bold]{metric.text(value)}[/] ({value:.6g})")


@app.command("report")
def write_report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that have run folders in them.")],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    curves: Annotated[
        Path | None, typer.Option(help="Folder of published curves, TASK.csv, drawn beside ours.")
    ] = None,
) -> None:
    """One HTML page about runs: tables beside the paper's numbers, curves, time steps, errors."""
    from unicornn.lab.report import report

    _print(f"wrote {escape(str(report(runs, out, curves=curves)))}")


@app.command("diagnose")
def diagnose_run(run: RunFolder, task: TaskFile = None, data: DataFolder = None) -> None:
    """What a trained network is like inside: gradients over time and how they grow, time steps, reversal."""
    from unicornn.lab.diagnose import diagnose, in_words

    table = Table("what was measured", "value", "good or bad?")
    for row in in_words(diagnose(run, task=task_named(task), source=source_in(data))):
        table.add_row(*row)
    console.print(table)
    _print(f"wrote {escape(str(run / 'diagnosis.json'))} and diagnosis.png")


@app.command("bench")
def run_bench(
    models: Annotated[list[str] | None, typer.Argument(help="Baselines, NAME or NAME:LAYERS; all if none.")] = None,
    lengths: Annotated[list[int], typer.Option("--length", help="N, may be repeated.")] = [1000, 2000],  # noqa: B006
    batch_size: Annotated[int, typer.Option(help="b.")] = 128,
    input_size: Annotated[int, typer.Option(help="d.")] = 128,
    hidden_size: Annotated[int, typer.Option(help="m.")] = 128,
    seconds: Annotated[float, typer.Option(help="At most, for one model and length.")] = 10,
    out: Annotated[Path, typer.Option(help="Folder of bench.json and the chart.")] = Path("runs/bench"),
) -> None:
    """The paper's comparison of speed on this machine: a training step's time and memory, beside the baselines'."""
    from unicornn.lab.bench import bench

    bench(
        models, lengths=lengths, batch_size=batch_size, d=input_size, hidden_size=hidden_size, seconds=seconds,
        out=out, console=console,
    )  # fmt: skip


app.add_typer(use.commands)
app.add_typer(files.commands)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)([smh]?)", text)
    if not match or not float(match[1]):
        raise BadValue(f"budget: expected a time such as 90s, 30m or 1.5h, got {text!r}")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def _folder(task: str, model: str, variant: str | None, seed: int, settings: list[str]) -> Path:
    """runs/task/model-variant-settings-seed: found again by the same command with --resume."""
    words = [model, *([variant] if variant else []), *sorted(settings), f"seed{seed}"]
    return Path("runs") / task / re.sub(r"[^\w.=,+-]", "_", "-".join(words))
