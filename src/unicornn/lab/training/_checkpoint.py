"""Checkpoints: a digest, then plain values and tensors. Damaged files are rejected; nothing in one is executed."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import torch

from unicornn._files import atomic_write
from unicornn.errors import BadCheckpoint

VERSION = 1


def write_checkpoint(path: Path, checkpoint: dict[str, Any]) -> None:
    """Writes a checkpoint atomically."""
    buffer = io.BytesIO()
    torch.save({"version": VERSION} | checkpoint, buffer)
    with atomic_write(path) as file:
        file.write(hashlib.sha256(buffer.getbuffer()).hexdigest().encode() + b"\n")
        file.write(buffer.getbuffer())


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Reads a checkpoint to the CPU. Raises ``BadCheckpoint`` for anything that ``write_checkpoint`` did not write."""
    digest, _, content = path.read_bytes().partition(b"\n")
    if hashlib.sha256(content).hexdigest().encode() != digest:
        raise BadCheckpoint(
            f"checkpoint: {path} is damaged, or was not written by `unicornn train`: its digest does not match. "
            "Nothing was changed."
        )
    checkpoint: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    if checkpoint["version"] != VERSION:
        raise BadCheckpoint(f"checkpoint: expected version {VERSION} of {path}, got {checkpoint['version']}")
    return checkpoint
