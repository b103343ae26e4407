"""A run from its settings to its result: trained, resumed, finished."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console

from unicornn import models
from unicornn._files import atomic_write, write_json
from unicornn.errors import BadCheckpoint, BadValue, RunExists, Stopped
from unicornn.lab._environment import command, environment
from unicornn.lab._lock import locked
from unicornn.lab._run_folder import Run
from unicornn.lab.data._archives import ordinary
from unicornn.lab.data._files import Source
from unicornn.lab.tasks._base import Splits, Task
from unicornn.lab.tasks._checked import SPLITS, load_checked
from unicornn.lab.training import _checkpoint, _processes
from unicornn.lab.training._config import Config, differences
from unicornn.lab.training._evaluate import build, config_of, judge, task_of
from unicornn.lab.training._loop import Loop, Row
from unicornn.lab.training._progress import TrainingProgress
from unicornn.lab.training._record import Record
from unicornn.lab.training._surroundings import Termination, no_denormals, seeded
from unicornn.lab.training._time_step import with_time_step, with_time_step_of
from unicornn.models import Network


def train(
    config: Config,
    folder: str | Path,
    *,
    task: Task | None = None,
    source: Source | None = None,
    resume: bool = False,
    console: Console | None = None,
    after_epoch: Callable[[Row], None] | None = None,
    test: bool = True,
) -> Run:
    """Trains a network and leaves a run folder (_run_folder.py); the test set is looked at once, at the end.

    Args:
        config: from ``resolve``.
        folder: of the run.
        task: the config's, if it is one of your own.
        source: where the data is.
        resume: take up the run in the folder where its last checkpoint was written. The same settings as at first, but
            for more epochs or another budget.
        console: where progress is shown; None for none.
        after_epoch: called with each new row of metrics.csv; what it raises ends the run.
        test: False leaves the test set alone: the result has no "test", and there are no predictions.

    Processes that torchrun has started share the work.

    Example:
        >>> import tempfile
        >>> from unicornn.lab import tasks
        >>> from unicornn.lab.training import resolve, train
        >>> config = resolve(tasks.find("digits"), settings={"epochs": 1, "hidden_size": 8})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = train(config, folder + "/run")
        ...     run.result["epochs"]
        1
    """
    folder, source, task = Path(folder), source or Source(), task_of(config, task)
    first = _processes.rank() == 0
    if resume:
        config_of(Run(folder))  # a folder that is no run's is left alone
    alone = locked(folder) if first else contextlib.nullcontext()
    with Termination() as termination, no_denormals(), seeded(config.seed), alone:
        with _processes.joined() as device:
            checkpoint = None
            for path in folder.iterdir():
                ordinary(path)  # a pipe would be waited for when it is written
            if resume:
                old = Run(folder)
                config = with_time_step_of(config, config_of(old, task))
                if _over(old, task, config, test):
                    return old
                checkpoint = _resumable(old, task, config)
            elif first and (folder / "config.json").exists():
                raise RunExists(
                    f"out: there is a run in {folder}; take it up with --resume, or name another folder with --out"
                )
            splits = load_checked(task, source, config.task_options, config.seed, SPLITS if test else SPLITS[:2])
            config = with_time_step(config, splits)
            network = build(task, config, splits.embedding, copies=4)  # the gradient, and the optimiser's moments
            if config.training.standardise:
                _standardise(network, splits)
            loop, record = Loop(network, task, config, splits, device), Record(folder)
            if checkpoint is not None:
                loop.restore(checkpoint)
            _processes.wait()  # all have accepted what there is: from here on it is changed
            if first:
                _write_config(folder, task, config, network)
                (folder / "result.json").unlink(missing_ok=True)
                if loop.best:
                    record.best(loop.best)
            with TrainingProgress(console, loop) as progress, contextlib.closing(record):
                _fit(loop, record, progress, termination, after_epoch)
        if first:  # what is left is one process's work
            _finish(folder, loop, splits if test else None)
    return Run(folder)


def _fit(
    loop: Loop,
    record: Record,
    progress: TrainingProgress,
    termination: Termination,
    after_epoch: Callable[[Row], None] | None,
) -> None:
    def pause() -> None:
        """After each batch: a SIGTERM that came during it is answered here."""
        if loop.agree(termination.asked):
            record.checkpoint(loop)
            where = f"in epoch {loop.epoch + 1}, after batch {loop.batch} of {len(loop.batches)}"
            raise Stopped(f"stopped by SIGTERM {where}; the same command with --resume goes on from there")

    termination.deferred = True
    while loop.epoch < loop.config.training.epochs:
        for loss in loop.steps():
            pause()
            progress.step(loss)
            if loop.out_of_time:
                break
        cut_short = loop.batch < len(loop.batches)
        if cut_short:  # a larger budget goes on in the middle of the epoch, as if it had not been cut
            record.checkpoint(loop)
        row = loop.validate(between=pause)
        record.epoch(loop)
        if not cut_short:
            record.checkpoint(loop)
        progress.epoch()
        if after_epoch is not None:
            after_epoch(row)
        if loop.out_of_time:
            break
    termination.deferred = False


def _over(run: Run, task: Task, config: Config, test: bool) -> bool:
    """Whether there is nothing left to do."""
    before = config_of(run, task)
    if different := differences(before, config):
        raise BadValue(f"resume: the run in {run.path} has other settings: {'; '.join(different)}")
    unchanged = (before.budget, before.training.epochs) == (config.budget, config.training.epochs)
    return run.finished and unchanged and ("test" in run.result or not test)


def _resumable(run: Run, task: Task, config: Config) -> _checkpoint.Checkpoint | None:
    """The run's checkpoint; None if the run was killed before its first, and begins anew."""
    path = run.path / "last.ckpt"
    if not path.exists():
        return None
    checkpoint = _checkpoint.read(path)
    if different := differences(Config.from_dict(checkpoint.about["config"]), config):
        raise BadCheckpoint(f"checkpoint: {path} is another run's: {'; '.join(different)}. Nothing was changed.")
    done = len(checkpoint.about["history"])
    if config.training.epochs < done:
        raise BadValue(f"epochs: expected at least the {done} that the run has, got {config.training.epochs}")
    return checkpoint


def _standardise(network: Network, splits: Splits) -> None:
    targets = getattr(splits.train, "target", None)
    if not isinstance(network, models.Regressor) or targets is None:
        raise BadValue("standardise: expected false but for regressions whose training set has a ``target``, got true")
    network.standardise(targets)


def _write_config(folder: Path, task: Task, config: Config, network: Network) -> None:
    more = {
        "command": command(),
        "parameters": models.count(network),
        "metric": task.metric.name,
        "more_is_better": task.metric.more_is_better,
        "title": task.title,
        "protocol": task.protocol,
    }
    write_json(folder / "config.json", config.as_dict() | more)
    write_json(folder / "environment.json", environment())


def _finish(folder: Path, loop: Loop, splits: Splits | None) -> None:
    """The result; with the splits, that on the test set too."""
    top, last = loop.top, loop.history[-1]
    assert top is not None  # at least one epoch was trained
    metrics = {"valid": top["valid"]}
    arrays: dict[str, np.ndarray] = {}
    if splits is not None:
        loop.network.load_state_dict(loop.best)
        metrics["test"], arrays = judge(loop.network, loop.task, loop.config, splits, "test")
    if arrays:
        with atomic_write(folder / "predictions.npz") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    write_json(
        folder / "result.json",
        {
            "best_epoch": int(top["epoch"]),
            **metrics,
            "seconds": last["seconds"],
            "epochs": len(loop.history),
            "stopped": "budget" if last["epoch"] < loop.config.training.epochs else "all epochs",
            "weights_sha256": hashlib.sha256((folder / "best.safetensors").read_bytes()).hexdigest(),
        },
    )
