"""Checks of a task's data before the first epoch; errors name the split and the sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from unicornn.errors import BadType, BadValue
from unicornn.lab.data._files import Source
from unicornn.lab.tasks._base import Batch, Splits, Task

SPLITS = ("train", "valid", "test")


def load_checked(
    task: Task, source: Source, options: Mapping[str, Any], seed: int, names: Sequence[str] = SPLITS
) -> Splits:
    """The task's splits, after checking the options and the splits in ``names``: sequences, shapes and targets.

    The others are not accessed: a search does not even count the test set.
    """
    splits = task.load(source, task.check(options), seed)
    if not isinstance(splits, Splits):
        raise BadType(f"load: expected Splits of {task.name}, got {type(splits).__name__}")
    for name in names:
        split, draw = getattr(splits, name), 0 if name == "train" else -1
        if len(split) < 1:
            raise BadValue(f"{name}: expected at least one sequence, got none")
        _check_sample(task, name, split.batch(torch.tensor([0]), draw))
        targets = getattr(split, "target", None)
        if targets is not None:
            _check_targets(task, name, targets)
        else:
            for index in range(len(split)):
                _check_targets(task, name, split.batch(torch.tensor([index]), draw).target, index)
    return splits


def _check_sample(task: Task, name: str, batch: Batch) -> None:
    """Shapes and dtypes of the first sample."""
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
        raise BadValue(f"{name}: expected one target per sequence, got shape {shape} for sample 0")


def _check_targets(task: Task, name: str, target: Tensor, sample: int | None = None) -> None:
    """Classes must be in range and numbers finite; targets of all samples, or of one whose index is given."""
    if task.kind == "classify":
        if target.is_floating_point() or target.dtype == torch.bool:
            raise BadType(f"{name}: expected classes as integers, got {target.dtype}")
        good, expected = (target >= 0) & (target < task.outputs), f"classes from 0 to {task.outputs - 1}"
    else:
        good, expected = target.isfinite(), "finite targets"
    if not good.all():
        where = tuple((~good).nonzero()[0].tolist())
        sample = where[0] if sample is None else sample
        raise BadValue(f"{name}: expected {expected}, got {target[where].item():g} in sample {sample}")
