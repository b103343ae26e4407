"""A run from its settings to its result: training, resuming, evaluating."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import safetensors
import safetensors.torch
import torch
from rich.console import Console
from torch import Tensor, nn

from unicornn import models
from unicornn.errors import BadValue, NotARun, RunExists
from unicornn.lab import tasks
from unicornn.lab._environment import command, environment
from unicornn.lab._run_folder import Run, write_json, written_whole
from unicornn.lab.data._files import Source
from unicornn.lab.tasks._base import Splits, Task
from unicornn.lab.training import _checkpoint as checkpoint
from unicornn.lab.training._batches import batches_of, loader, mixed
from unicornn.lab.training._callbacks import Record, ShownProgress, valid
from unicornn.lab.training._config import Config, defaults
from unicornn.lab.training._module import InTraining, metric, update, voted
from unicornn.models import Network


def train(
    config: Config,
    folder: str | Path,
    *,
    source: Source | None = None,
    resume: bool = False,
    devices: int = 1,
    console: Console | None = None,
    callbacks: Sequence[pl.Callback] = (),
    test: bool = True,
) -> Run:
    """Trains a network and leaves a run folder (_run_folder.py); the test set is looked at once, at the end.

    Args:
        config: from ``resolve``.
        folder: of the run.
        source: where the data is.
        resume: take up the run in the folder where its last complete epoch ended. The same settings as at first, but
            for more epochs or another budget.
        devices: processes on this machine, unless torchrun says how many there are.
        console: where progress is shown; None for none.
        callbacks: further ones of Lightning's kind.
        test: False leaves the test set alone: the result has no "test", and there are no predictions.

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
    folder, source = Path(folder), source or Source()
    task = tasks.find(config.task)
    first = rank() == 0
    if resume:
        _check_same(config, folder)
        old = Run(folder)
        same = _plain(config_of(old).as_dict()) == _plain(config.as_dict())
        if old.finished and same and ("test" in old.result or not test):
            return old
    elif first and (folder / "config.json").exists():
        raise RunExists(f"out: there is a run in {folder}; take it up with --resume, or name another folder with --out")

    resumed = resume and (folder / "last.ckpt").exists()  # if not: killed in its first epoch, from the start
    if resumed:
        done = len(checkpoint.read(folder / "last.ckpt")["unicornn"]["history"])  # before anything is changed
        if config.training.epochs < done:
            raise BadValue(f"epochs: expected at least the {done} that the run has, got {config.training.epochs}")
    splits = task.load(source, config.task_options, config.seed)
    network = build(task, config, splits.embedding)
    if config.training.standardise:
        _standardise(network, splits)
    if first:
        _write_config(folder, task, config, network)
        (folder / "result.json").unlink(missing_ok=True)
    module = InTraining(network, task, config)
    extra = [ShownProgress(console)] if console is not None else []
    with _quiet():
        trainer = _trainer(config, devices, [Record(folder), *extra, *callbacks])
        learn, validate = _loaders(splits, config, trainer)
        trainer.fit(module, learn, validate, ckpt_path=folder / "last.ckpt" if resumed else None)
    if torch.distributed.is_initialized():  # what is left is one process's work
        torch.distributed.destroy_process_group()
    if trainer.is_global_zero:
        _finish(folder, task, config, splits, module, test)
    return Run(folder)


def build(task: Task, config: Config, vectors: Tensor | None = None) -> Network:
    """The network of a run as it is before training: drawn from the run's seed."""
    torch.manual_seed(mixed(config.seed, -1))
    return models.build(
        task.kind, config.model, task.d, task.outputs, config.model_options,
        vectors=vectors, embedding_dropout=task.embedding_dropout,
    )  # fmt: skip


def _standardise(network: Network, splits: Splits) -> None:
    targets = getattr(splits.train, "target", None)
    if not isinstance(network, models.Regressor) or targets is None:
        raise BadValue("standardise: expected false but for regressions whose training set has a ``target``, got true")
    network.standardise(targets)


def load_network(run: Run | str | Path, vectors: Tensor | None = None) -> Network:
    """The network of a run with its best weights, in ``eval()``.

    Args:
        run: a run, or its folder.
        vectors: the word vectors of a text's task, (words, d); only their shape matters.

    Example:
        >>> import tempfile, torch
        >>> from unicornn.lab import tasks
        >>> from unicornn.lab.training import load_network, resolve, train
        >>> config = resolve(tasks.find("digits"), settings={"epochs": 1, "hidden_size": 8})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     network = load_network(train(config, folder + "/run"))
        >>> network(torch.rand(64, 5, 1)).shape
        torch.Size([5, 10])
    """
    run = run if isinstance(run, Run) else Run(run)
    config, path = config_of(run), run.path / "best.safetensors"
    try:
        weights = safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise NotARun(f"run: cannot read the weights in {path}: {error}") from None
    if vectors is None and "embedding.weight" in weights:
        vectors = weights["embedding.weight"]
    network = build(tasks.find(config.task), config, vectors)
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise NotARun(f"run: the weights in {path} are not those of its config.json: {error}") from None
    return network.eval()


def evaluate(
    run: Run | str | Path, part: str = "test", *, source: Source | None = None
) -> tuple[float, dict[str, np.ndarray]]:
    """The figure of a run's best weights on "train", "valid" or "test", and targets and predictions, (n,) each.

    Forecasts have no predictions.

    Example:
        >>> import tempfile
        >>> from unicornn.lab import tasks
        >>> from unicornn.lab.training import evaluate, resolve, train
        >>> config = resolve(tasks.find("digits"), settings={"epochs": 1, "hidden_size": 8})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     accuracy, arrays = evaluate(train(config, folder + "/run"), "valid")
        >>> arrays["prediction"].shape
        (360,)
    """
    run = run if isinstance(run, Run) else Run(run)
    config = config_of(run)
    task = tasks.find(config.task)
    splits = task.load(source or Source(), config.task_options, config.seed)
    return _evaluate(load_network(run), task, config, splits, part)


@torch.no_grad()
def _evaluate(
    network: nn.Module, task: Task, config: Config, splits: Splits, part: str
) -> tuple[float, dict[str, np.ndarray]]:
    network.eval()
    device = next(network.parameters()).device
    figure = metric(task.kind, task.outputs).to(device)
    data, pairs = getattr(splits, part), []
    batches = batches_of(data, config.training.eval_batch_size)
    for batch, _ in loader(data, batches):
        here = type(batch)(*(None if t is None else t.to(device) for t in batch))
        output = voted(task.kind, network(here.u, here.lengths), here)
        update(figure, task.kind, output, here)
        if task.kind != "forecast":
            pairs.append((batch.target, output.argmax(1).cpu() if task.kind == "classify" else output.cpu()))
    arrays = {}
    if pairs:
        targets, predictions = zip(*pairs, strict=True)
        back = torch.cat(batches.batches()).argsort()
        arrays = {"target": torch.cat(targets)[back].numpy(), "prediction": torch.cat(predictions)[back].numpy()}
    return figure.compute().item(), arrays


def _loaders(splits: Splits, config: Config, trainer: pl.Trainer) -> tuple[Any, Any]:
    training, place = config.training, {"rank": trainer.global_rank, "world": trainer.world_size}
    return (
        loader(splits.train, batches_of(splits.train, training.batch_size, config.seed, **place)),
        loader(splits.valid, batches_of(splits.valid, training.eval_batch_size, **place)),
    )


def _trainer(config: Config, devices: int, callbacks: list[pl.Callback]) -> pl.Trainer:
    world = int(os.environ.get("WORLD_SIZE", devices)) if "TORCHELASTIC_RUN_ID" in os.environ else devices
    local = int(os.environ.get("LOCAL_WORLD_SIZE", devices)) if "TORCHELASTIC_RUN_ID" in os.environ else devices
    return pl.Trainer(
        max_epochs=config.training.epochs,
        devices=local,
        num_nodes=world // local,
        strategy="ddp" if world > 1 else "auto",
        gradient_clip_val=config.training.clip or None,
        callbacks=callbacks,
        plugins=[checkpoint.WholeCheckpoints()],
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without Lightning's advice: on workers for data that is in memory, on hardware, on its own services."""
    logs = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning.*")
        warnings.filterwarnings("ignore", message=".*isinstance.treespec, LeafSpec.*")
        try:
            yield
        finally:
            for log, level in zip(logs, levels, strict=True):
                log.setLevel(level)


def rank() -> int:
    """Of this process, before Lightning has started the others."""
    return int(os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or 0)


def config_of(run: Run) -> Config:
    """Of a run; an option that its task did not have at the time is as by default."""
    config = Config.from_dict(run.config)
    return dataclasses.replace(config, task_options=defaults(tasks.find(config.task)) | dict(config.task_options))


def _check_same(config: Config, folder: Path) -> None:
    """A run is resumed with the settings that it began with; only its end may be moved."""
    old, new = config_of(Run(folder)).as_dict(), config.as_dict()
    for settings in (old, new):
        settings.pop("budget")
        settings["training"].pop("epochs")
    different = [
        f"{name} was {was}, is {now}" for name in old if (was := _plain(old[name])) != (now := _plain(new[name]))
    ]
    if different:
        raise BadValue(f"resume: the run in {folder} has other settings: {'; '.join(different)}")


def _plain(value: Any) -> Any:
    """As it would come back from JSON."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


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


def _finish(folder: Path, task: Task, config: Config, splits: Splits, module: InTraining, test: bool) -> None:
    top = task.metric.best(module.history, value=valid)
    assert top is not None  # at least one epoch was trained
    figures = {"valid": top["valid"]}
    arrays: dict[str, np.ndarray] = {}
    if test:
        figures["test"], arrays = _evaluate(load_network(folder), task, config, splits, "test")
    if arrays:
        with written_whole(folder / "predictions.npz") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    write_json(
        folder / "result.json",
        {
            "best_epoch": int(top["epoch"]),
            **figures,
            "seconds": module.history[-1]["seconds"],
            "epochs": len(module.history),
            "stopped": "budget" if module.history[-1]["epoch"] < config.training.epochs else "all epochs",
            "weights_sha256": hashlib.sha256((folder / "best.safetensors").read_bytes()).hexdigest(),
        },
    )
