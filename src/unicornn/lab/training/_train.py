"""Runs: started, resumed, finished."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.torch
import torch
from rich.console import Console
from torch import Tensor

from unicornn import models, suggest_dt
from unicornn._files import atomic_write, write_json
from unicornn._training.seeds import derive_seed, seeded
from unicornn._training.trainer import Row
from unicornn.errors import BadCheckpoint, BadValue
from unicornn.lab._environment import command, environment
from unicornn.lab._lock import locked
from unicornn.lab._networks import frame_sizes
from unicornn.lab._run_folder import Run
from unicornn.lab.data._files import Source
from unicornn.lab.errors import RunExists, Stopped
from unicornn.lab.tasks._base import Splits, Task
from unicornn.lab.tasks._checked import SPLITS, load_checked
from unicornn.lab.training import _checkpoint, _processes
from unicornn.lab.training._config import AUTO, Config, differences
from unicornn.lab.training._evaluate import config_of, evaluate_split, initial_network, task_of
from unicornn.lab.training._progress import TrainingProgress
from unicornn.lab.training._trainer import TaskTrainer
from unicornn.models import Network, patched

SEQUENCES = 4  # of the validation set, in which the growth of gradients is measured


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
    """Trains a network and writes a run folder (_run_folder.py). The test set is used once, at the end.

    Processes started by torchrun share the work.

    Args:
        config: Settings from ``resolve``.
        folder: Folder of the run.
        task: The config's task, if it is your own.
        source: Location of the data.
        resume: Whether to resume the run in the folder from its last checkpoint. Only the number of epochs and the
            budget may have changed.
        console: Console for the progress; None for no output.
        after_epoch: Callback for each new row of metrics.csv; an exception in it ends the run.
        test: Whether to evaluate the test set. If not, the result has no "test", and there are no predictions.

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
        config_of(Run(folder))  # raises before a folder without a run is locked
    lock = locked(folder) if first else contextlib.nullcontext()
    with _processes.Termination() as termination, _processes.flush_denormals(), seeded(derive_seed(config.seed)), lock:
        with _processes.process_group() as device:
            checkpoint = None
            if resume:
                old = Run(folder)
                before = config_of(old, task)
                config = with_time_step(config, lambda: before.model_options["dt"])
                if _complete(old, before, config, test):
                    return old
                checkpoint = _resumable(old, config)
            elif first and (folder / "config.json").exists():
                raise RunExists(
                    f"out: {folder} already has a run; resume it with --resume, or name another folder with --out"
                )
            splits = load_checked(task, source, config.task_options, config.seed, SPLITS if test else SPLITS[:2])
            config = with_time_step(config, lambda: suggested_time_step(config, splits))
            network = initial_network(task, config, splits.embedding)
            if config.training.standardise:
                _standardise(network, splits)
            trainer, record = TaskTrainer(network, task, config, splits, device), Record(folder)
            if checkpoint is not None:
                trainer.restore(checkpoint)
            _processes.wait()  # all processes have accepted the old files, which are changed from here on
            if first:
                _write_config(folder, task, config, network)
                (folder / "result.json").unlink(missing_ok=True)
                if trainer.best_weights:
                    record.write_best(trainer.best_weights)
            with TrainingProgress(console, trainer) as progress:
                _run(trainer, record, progress, termination, after_epoch)
        if first:
            _finish(folder, trainer, splits if test else None)
    return Run(folder)


class Record:
    """Writes the files of a run during training; only the first process does.

    A run that is killed at any moment resumes from its last checkpoint, and files written after it are written again.
    That includes the best weights: the checkpoint has those that belong to its history.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.first = folder, _processes.rank() == 0

    def write_epoch(self, trainer: TaskTrainer) -> None:
        """Writes the results of the last epoch."""
        if self.first:
            if trainer.best_epoch == trainer.epoch:
                self.write_best(trainer.best_weights)
            with atomic_write(self.folder / "metrics.csv", "w") as file:
                pd.DataFrame(trainer.history).to_csv(file, index=False, lineterminator="\n")
            _append_curves(self.folder / "tensorboard", trainer.history[-1])

    def write_best(self, weights: dict[str, Tensor]) -> None:
        with atomic_write(self.folder / "best.safetensors") as file:
            file.write(safetensors.torch.save(weights))

    def write_checkpoint(self, trainer: TaskTrainer) -> None:
        """Writes a checkpoint. All processes have to call this."""
        checkpoint = trainer.checkpoint()
        if self.first:
            _checkpoint.write_checkpoint(self.folder / "last.ckpt", checkpoint)


def _append_curves(folder: Path, row: Row) -> None:
    """Appends an epoch for TensorBoard. Its SummaryWriter has a thread that prints errors itself."""
    from tensorboard.compat.proto.event_pb2 import Event  # loading a run does not need TensorBoard
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder.mkdir(exist_ok=True)
    scalars = [Summary.Value(tag=name, simple_value=value) for name, value in row.items() if name != "epoch"]
    event = Event(wall_time=time.time(), step=int(row["epoch"]), summary=Summary(value=scalars))
    with (folder / "events.out.tfevents.unicornn").open("ab") as file:
        for each in [event] if file.tell() else [Event(file_version="brain.Event:2"), event]:
            RecordWriter(file).write(each.SerializeToString())


def _run(
    trainer: TaskTrainer,
    record: Record,
    progress: TrainingProgress,
    termination: _processes.Termination,
    after_epoch: Callable[[Row], None] | None,
) -> None:
    """Trains, with a checkpoint after each epoch. A SIGTERM is handled after the current batch."""

    def after_batch() -> None:
        if trainer.any_process(termination.requested):
            record.write_checkpoint(trainer)
            where = f"in epoch {trainer.epoch + 1}, after batch {trainer.batch} of {len(trainer.batches)}"
            raise Stopped(f"stopped by SIGTERM {where}; the same command with --resume continues from there")

    def step_done(loss: float) -> None:
        after_batch()
        progress.show_step(loss)
        if trainer.out_of_time:
            trainer.stopped = "budget"
            if trainer.batch < len(trainer.batches):  # a larger budget will resume in the middle of the epoch
                record.write_checkpoint(trainer)

    def epoch_done(row: Row) -> None:
        record.write_epoch(trainer)
        if trainer.out_of_time:
            trainer.stopped = "budget"
        if trainer.batch == 0:  # else the epoch was cut short
            record.write_checkpoint(trainer)
        progress.show_epoch()
        if after_epoch is not None:
            after_epoch(row)

    trainer.after_batch = after_batch
    termination.deferred = True
    trainer.run(trainer.config.training.epochs, step_done, epoch_done)
    termination.deferred = False


def with_time_step(config: Config, find_dt: Callable[[], float]) -> Config:
    """Replaces dt="auto" by the number that ``find_dt`` returns."""
    if config.model_options.get("dt") != AUTO:
        return config
    return dataclasses.replace(config, model_options={**config.model_options, "dt": find_dt()})


def suggested_time_step(config: Config, splits: Splits) -> float:
    """The time step that ``suggest_dt`` finds for sequences of the validation set."""
    batch = splits.valid.batch(torch.arange(min(SEQUENCES, len(splits.valid))), -1)
    alpha, patch = config.model_options.get("alpha", 1.0), config.model_options.get("patch", 1)
    hop = frame_sizes(config.model_options.get("frames", ()))[1]
    if hop or not batch.u.is_floating_point():  # the layers' input is not known yet: energies, or vectors of words
        return suggest_dt(-(-len(batch.u) // (patch * max(1, hop))), alpha=alpha)
    u, lengths = patched(batch.u, batch.lengths, patch)
    longest = len(u) if lengths is None else int(lengths.max())
    shortest = len(u) if lengths is None else int(lengths.min())
    if config.training.standardise:
        u = (u - u.mean((0, 1))) / u.std((0, 1)).clamp_min(1e-12)
    return suggest_dt(longest, alpha=alpha, input=u[:shortest])


def _complete(run: Run, before: Config, config: Config, test: bool) -> bool:
    """Whether a run has nothing left to do. Raises ``BadValue`` if its settings differ."""
    if different := differences(before, config):
        raise BadValue(f"resume: the run in {run.path} has other settings: {'; '.join(different)}")
    unchanged = (before.budget, before.training.epochs) == (config.budget, config.training.epochs)
    return run.finished and unchanged and ("test" in run.result or not test)


def _resumable(run: Run, config: Config) -> dict[str, Any] | None:
    """The run's checkpoint; None if the run was killed before its first."""
    path = run.path / "last.ckpt"
    if not path.exists():
        return None
    checkpoint = _checkpoint.read_checkpoint(path)
    if different := differences(Config.from_dict(checkpoint["config"]), config):
        raise BadCheckpoint(f"checkpoint: {path} belongs to another run: {'; '.join(different)}. Nothing was changed.")
    done = len(checkpoint["history"])
    if config.training.epochs < done:
        raise BadValue(f"epochs: expected at least the {done} that the run has, got {config.training.epochs}")
    return checkpoint


def _standardise(network: Network, splits: Splits) -> None:
    targets = getattr(splits.train, "target", None)
    if not isinstance(network, models.Regressor) or targets is None:
        raise BadValue("standardise: expected a regression whose training set has a ``target``")
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


def _finish(folder: Path, trainer: TaskTrainer, splits: Splits | None) -> None:
    """Writes the result; with the splits, evaluates the test set first."""
    best, last = trainer.best_row, trainer.history[-1]
    metrics = {"valid": best["valid"]}
    arrays: dict[str, np.ndarray] = {}
    if splits is not None:
        trainer.network.load_state_dict(trainer.best_weights)
        metrics["test"], arrays = evaluate_split(trainer.network, trainer.task, trainer.config, splits, "test")
    if arrays:
        with atomic_write(folder / "predictions.npz") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    result = {
        "best_epoch": trainer.best_epoch,
        **metrics,
        "seconds": last["seconds"],
        "epochs": trainer.epoch,
        "stopped": "budget" if trainer.epoch < trainer.config.training.epochs else "all epochs",
        "weights_sha256": hashlib.sha256((folder / "best.safetensors").read_bytes()).hexdigest(),
    }
    write_json(folder / "result.json", result)
