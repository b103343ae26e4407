"""dt=auto: the time step that suits the length and the kind of a task's sequences."""

from __future__ import annotations

import dataclasses

import torch

from unicornn import suggest_dt
from unicornn.lab.tasks._base import Splits
from unicornn.lab.training._config import AUTO, Config
from unicornn.models import patched

SEQUENCES = 4


def with_time_step(config: Config, splits: Splits) -> Config:
    """The config with a number for dt="auto": what ``suggest_dt`` finds for sequences of the validation set."""
    options = config.model_options
    if options.get("dt") != AUTO:
        return config
    batch = splits.valid.batch(torch.arange(min(SEQUENCES, len(splits.valid))), -1)
    alpha, patch = options.get("alpha", 1.0), options.get("patch", 1)
    if not batch.u.is_floating_point():  # words, which have no strength before they are embedded
        return _with(config, suggest_dt(-(-len(batch.u) // patch), alpha=alpha))
    u, lengths = patched(batch.u, batch.lengths, patch)
    longest = len(u) if lengths is None else int(lengths.max())
    shortest = len(u) if lengths is None else int(lengths.min())
    if config.training.standardise:
        u = (u - u.mean((0, 1))) / u.std((0, 1)).clamp_min(1e-12)
    return _with(config, suggest_dt(longest, alpha=alpha, input=u[:shortest]))


def with_time_step_of(config: Config, old: Config) -> Config:
    """The config with the number that a run began with for dt="auto"."""
    return _with(config, old.model_options["dt"]) if config.model_options.get("dt") == AUTO else config


def _with(config: Config, dt: float) -> Config:
    return dataclasses.replace(config, model_options={**config.model_options, "dt": dt})
