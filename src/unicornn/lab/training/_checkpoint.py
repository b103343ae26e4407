"""Checkpoints: written whole or not at all, read without unpickling anything but tensors and plain values."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins.io import CheckpointIO

from unicornn.errors import BadCheckpoint
from unicornn.lab._run_folder import written_whole


class WholeCheckpoints(CheckpointIO):
    """Lightning's checkpoints as single files that are complete or absent."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        with written_whole(Path(path)) as file:
            torch.save(checkpoint, file)

    def load_checkpoint(
        self, path: Any, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        return read(Path(path))

    def remove_checkpoint(self, path: Any) -> None:
        Path(path).unlink(missing_ok=True)


def read(path: Path) -> dict[str, Any]:
    """A checkpoint of ours, on the CPU."""
    if not path.is_file():
        raise BadCheckpoint(f"checkpoint: there is no {path}; the run was stopped before its first epoch ended")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, ValueError, pickle.UnpicklingError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        raise BadCheckpoint(
            f"checkpoint: {path} is damaged or not one of ours ({reason}). Nothing was changed."
        ) from None
    if not isinstance(checkpoint, dict) or "unicornn" not in checkpoint:
        raise BadCheckpoint(f"checkpoint: {path} was not written by `unicornn train`. Nothing was changed.")
    return checkpoint
