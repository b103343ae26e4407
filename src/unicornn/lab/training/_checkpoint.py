"""Checkpoints: a digest, a line of JSON, and tensors. A damaged one is refused, and nothing in one is ever executed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from unicornn._files import atomic_write, parse_json
from unicornn.errors import BadCheckpoint, CorruptData
from unicornn.lab._run_folder import NUMBER, Kinds, typed
from unicornn.lab.data._archives import ordinary

ABOUT: dict[str, Kinds] = {"config": (dict,), "step": (int,), "seconds": NUMBER, "history": (list,), "sums": (list,)}


class Checkpoint(NamedTuple):
    """``about`` is plain values (the configuration, the history, ...), ``tensors`` are by name."""

    about: dict[str, Any]
    tensors: dict[str, Tensor]


def write(path: Path, checkpoint: Checkpoint) -> None:
    """Whole, or not at all."""
    tensors = {name: t.detach().contiguous() for name, t in checkpoint.tensors.items()}
    content = json.dumps(checkpoint.about).encode() + b"\n" + safetensors.torch.save(tensors)
    with atomic_write(path) as file:
        file.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)


def read(path: Path) -> Checkpoint:
    """A checkpoint of ours, on the CPU."""
    try:
        digest, _, content = ordinary(path).read_bytes().partition(b"\n")
    except (OSError, CorruptData) as error:
        raise BadCheckpoint(f"checkpoint: cannot read {path}: {error}") from None
    if hashlib.sha256(content).hexdigest().encode() != digest:
        raise BadCheckpoint(
            f"checkpoint: {path} is damaged, or was not written by `unicornn train`: its digest does not match. "
            "Nothing was changed."
        )
    about, _, tensors = content.partition(b"\n")
    try:
        values = typed(path, parse_json(about.decode()), ABOUT, {})
        if len(values["sums"]) != 4 or not all(map(_is_row, values["history"])):
            raise ValueError("its history is no table of epochs")
        return Checkpoint(values, safetensors.torch.load(tensors))
    except (ValueError, RecursionError, SafetensorError) as error:
        raise BadCheckpoint(f"checkpoint: {path} was not written by `unicornn train`: {error}") from None


def _is_row(row: Any) -> bool:
    numbers = isinstance(row, dict) and all(isinstance(value, NUMBER) for value in row.values())
    return numbers and {"epoch", "seconds", "lr", "train_loss", "valid_loss", "valid"} <= row.keys()
