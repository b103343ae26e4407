"""Checkpoints: a digest, a line of JSON, and tensors. Damaged files are rejected; nothing in one is executed."""

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
from unicornn.lab._run_folder import NUMBER, Types, check_types
from unicornn.lab.data._archives import ordinary

VERSION = 1
ABOUT: dict[str, Types] = {
    "version": (int,), "config": (dict,), "step": (int,), "seconds": NUMBER, "history": (list,), "sums": (list,),
}  # fmt: skip
ROW = {"epoch", "seconds", "lr", "train_loss", "valid_loss", "valid"}


class Checkpoint(NamedTuple):
    """``about`` has plain values (the configuration, the history, ...), ``tensors`` has tensors by name."""

    about: dict[str, Any]
    tensors: dict[str, Tensor]


def write(path: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint atomically."""
    tensors = {name: t.detach().contiguous() for name, t in checkpoint.tensors.items()}
    about = {"version": VERSION} | checkpoint.about
    content = json.dumps(about).encode() + b"\n" + safetensors.torch.save(tensors)
    with atomic_write(path) as file:
        file.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)


def read(path: Path) -> Checkpoint:
    """Reads a checkpoint to the CPU. Raises ``BadCheckpoint`` for anything that ``write`` did not write."""
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
        values = check_types(path, parse_json(about.decode()), ABOUT, {})
        if values["version"] != VERSION:
            raise ValueError(f"expected version {VERSION}, got {values['version']}")
        if len(values["sums"]) != 2 or not all(map(_is_row, values["history"])):
            raise ValueError("its history is not a table of epochs")
        return Checkpoint(values, safetensors.torch.load(tensors))
    except (ValueError, RecursionError, SafetensorError) as error:
        raise BadCheckpoint(f"checkpoint: {path} was not written by `unicornn train`: {error}") from None


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and row.keys() >= ROW and all(isinstance(value, NUMBER) for value in row.values())
