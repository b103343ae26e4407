"""dt=auto: a time step that suits the task's sequences."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch

from unicornn import suggest_dt
from unicornn.lab.tasks._base import Splits
from unicornn.lab.training._config import AUTO, Config
from unicornn.models import patched

SEQUENCES = 4  # of the validation set, in which the growth of gradients is measured


def with_time_step(config: Config, find_dt: Callable[[], float]) -> Config:
    """Replaces dt="auto" by the number that ``find_dt`` returns."""
    if config.model_options.get("dt") != AUTO:
        return config
    return dataclasses.replace(config, model_options={**config.model_options, "dt": find_dt()})


def suggested_time_step(config: Config, splits: Splits) -> float:
    """The time step that ``suggest_dt`` finds for sequences of the validation set."""
    batch = splits.valid.batch(torch.arange(min(SEQUENCES, len(splits.valid))), -1)
    alpha, patch = config.model_options.get("alpha", 1.0), config.model_options.get("patch", 1)
    if not batch.u.is_floating_point():  # words: their vectors are not known yet
        return suggest_dt(-(-len(batch.u) // patch), alpha=alpha)
    u, lengths = patched(batch.u, batch.lengths, patch)
    longest = len(u) if lengths is None else int(lengths.max())
    shortest = len(u) if lengths is None else int(lengths.min())
    if config.training.standardise:
        u = (u - u.mean((0, 1))) / u.std((0, 1)).clamp_min(1e-12)
    return suggest_dt(longest, alpha=alpha, input=u[:shortest])
