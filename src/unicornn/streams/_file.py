"""A stream as a safetensors file: keys, states in grid units, and what they belong to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from unicornn import _checks as checks
from unicornn._files import atomic_write
from unicornn._layer import UnICORNN
from unicornn.errors import BadCheckpoint, BadType, BadValue, StreamFull
from unicornn.streams._answers import answers_of

FORMAT, VERSION = "unicornn.streams", 1
SETTINGS = ("capacity", "full", "idle")


def save(stream: Any, path: Path) -> Path:
    from safetensors.numpy import save as to_bytes

    keys = list(stream._slots)
    for key in keys:
        if type(key) not in (str, int):
            raise BadType(f"key: expected strings or integers in a stream that is saved, got {checks.describe(key)}")
    slots = np.fromiter(stream._slots.values(), np.int64, len(keys))
    engine, lanes, windows = stream._engine, stream._lanes, stream._windows
    rows = (slots[:, None] * lanes + np.arange(lanes)).reshape(-1)
    arrays = {
        "keys": np.frombuffer(json.dumps(keys).encode(), np.uint8),
        **engine.saved(rows),
        "waiting": stream._waiting[slots],
        "waits": stream._waits[slots],
        "n": np.zeros(0, np.int64) if windows is None else windows.n[slots],
    }
    about = {
        "format": FORMAT,
        "version": VERSION,
        "model": stream._model.fingerprint,
        "readouts": stream._model.readouts,
        "window": None if windows is None else [windows.window, windows.every],
    }
    content = to_bytes({k: np.ascontiguousarray(v) for k, v in arrays.items()}, {"about": json.dumps(about)})
    _write(path, content)
    return path


def _write(path: Path, content: bytes) -> None:
    """The file is there whole, or as it was before; also if the process is killed, or the disk is full."""
    if path.exists() and not path.is_file():  # a device would be replaced
        raise BadValue(f"path: expected the path of a file to write, got {str(path)!r}, which is none")
    try:
        with atomic_write(path) as file:
            file.write(content)
    except OSError as error:
        raise BadValue(f"path: expected a file that can be written, got {str(path)!r}: {error.strerror}") from error


def load(cls: Any, path: Path, model: Any, options: dict[str, Any]) -> Any:
    from safetensors import SafetensorError, safe_open

    options = dict(options)
    unknown = sorted(set(options) - set(SETTINGS))
    if unknown:
        raise BadType(f"options: expected {', '.join(SETTINGS)}, got {unknown[0]!r}")
    try:
        with safe_open(str(path), framework="numpy") as file:
            about = json.loads((file.metadata() or {}).get("about", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as error:
        raise BadCheckpoint(f"path: expected a stream's file, got {str(path)!r}: {error}") from error
    if about.get("format") != FORMAT:
        raise BadCheckpoint(f"path: expected a stream's file, got {str(path)!r}, which is something else")
    if about.get("version") != VERSION:
        raise BadCheckpoint(f"path: expected version {VERSION} of a stream's file, got {about.get('version')!r}")
    try:
        return _restored(cls, model, options, about, arrays)
    except (KeyError, ValueError, IndexError, TypeError) as error:
        if isinstance(error, (BadValue, BadType)):
            raise
        raise BadCheckpoint(f"path: expected a whole stream's file, got {str(path)!r}: {error}") from error


def _restored(cls: Any, model: Any, options: dict[str, Any], about: Any, arrays: dict[str, Any]) -> Any:
    found = answers_of(model, tuple(about["readouts"]) if isinstance(model, UnICORNN) else None)
    if found.fingerprint != about["model"]:
        raise BadCheckpoint("model: expected the one with which the stream was saved, got another one")
    if about["window"] is not None:
        options["window"], options["every"] = (found.patch * count for count in about["window"])
    own = found.readouts if isinstance(model, UnICORNN) else None
    stream = cls(model, readout=own, **options)
    keys = json.loads(arrays["keys"].tobytes())
    if stream.capacity is not None and len(keys) > stream.capacity:
        raise StreamFull(f"capacity: expected at least the {len(keys)} sequences in the file, got {stream.capacity}")
    if not keys:
        return stream
    slots, engine = stream._enter(keys), stream._engine
    rows = (slots[:, None] * stream._lanes + np.arange(stream._lanes)).reshape(-1)
    engine.restore(rows, arrays)
    stream._waiting[slots], stream._waits[slots] = arrays["waiting"], arrays["waits"]
    if stream._windows is not None:
        stream._windows.n[slots] = arrays["n"]
    stream._touch(slots)
    return stream
