"""A task's data, looked at before the first epoch: a mistake is named then, with its split and its sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from unicornn.errors import BadType, BadValue
from unicornn.lab.data._files import Source
from unicornn.lab.tasks._base import Batch, Split, Splits, Task

SPLITS = ("train", "valid", "test")


def load_checked(
    task: Task, source: Source, options: Mapping[str, Any], seed: int, names: Sequence[str] = SPLITS
) -> Splits:
    """The task's splits, of which these have been looked at: at least one sequence each, all targets as they should be.

    The others are left alone: a search does not even count the test set.

    Example:
        >>> from unicornn.lab import tasks
        >>> from unicornn.lab.data import Source
        >>> from unicornn.lab.tasks._checked import load_checked
        >>> len(load_checked(tasks.find("digits"), Source(), {}, seed=0).test)
        360
    """
    splits = task.load(source, options, seed)
    if not isinstance(splits, Splits):
        raise BadType(f"load: expected Splits of {task.name}, got {type(splits).__name__}")
    for name in names:
        split = getattr(splits, name)
        if len(split) < 1:
            raise BadValue(f"{name}: expected at least one sequence, got none")
        _check_batch(task, name, split.batch(torch.tensor([0]), 0 if name == "train" else -1))
        _check_targets(task, name, split)
    return splits


def _check_batch(task: Task, name: str, batch: Batch) -> None:
    """The form of the first sample."""
    features = "" if task.text else f", {task.d}"
    if batch.u.dim() != (2 if task.text else 3) or (not task.text and batch.u.shape[2] != task.d):
        raise BadValue(f"{name}: expected u of shape (N, b{features}), got {tuple(batch.u.shape)} in sample 0")
    if task.text == batch.u.is_floating_point():
        kind = "integers" if task.text else "floating-point numbers"
        raise BadType(f"{name}: expected u to be {kind}, got {batch.u.dtype} in sample 0")
    if len(batch.u) < 1:
        raise BadValue(f"{name}: expected at least one step, got none in sample 0")
    shape = tuple(batch.target.shape)
    if task.kind == "forecast" and shape != (len(batch.u), 1, task.outputs):
        raise BadValue(f"{name}: expected a target of shape (N, b, {task.outputs}), got {shape} in sample 0")
    if task.kind != "forecast" and shape[:1] != (1,):
        raise BadValue(f"{name}: expected one target for each sequence, got shape {shape} for one")


def _check_targets(task: Task, name: str, split: Split) -> None:
    """Classes within range, and numbers that are finite; of all samples."""
    everything = getattr(split, "target", None)
    if everything is not None:
        return _check_some(task, name, everything)
    for index in range(len(split)):
        _check_some(task, name, split.batch(torch.tensor([index]), 0 if name == "train" else -1).target, index)


def _check_some(task: Task, name: str, target: Tensor, sample: int | None = None) -> None:
    """The targets of all samples, or of one whose number is given."""
    if task.kind == "classify":
        if target.is_floating_point() or target.dtype == torch.bool:
            raise BadType(f"{name}: expected classes as integers, got {target.dtype}")
        good, what = (target >= 0) & (target < task.outputs), f"classes from 0 to {task.outputs - 1}"
    else:
        good, what = target.isfinite(), "finite targets"
    if good.all():
        return
    where = tuple((~good).nonzero()[0].tolist())
    which = where[0] if sample is None else sample
    raise BadValue(f"{name}: expected {what}, got {target[where].item():g} in sample {which}")
