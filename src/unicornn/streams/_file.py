"""A stream as a safetensors file: keys, states in grid units, a description, and a digest of the whole file.

The digest is the SHA-256 of the file with zeros in the place of the digest.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from unicornn import _checks as checks
from unicornn._files import output_path
from unicornn._layer import UnICORNN
from unicornn.errors import BadCheckpoint, BadType, StreamFull
from unicornn.streams._engine import Array
from unicornn.streams._model import stream_model

FORMAT, VERSION = "unicornn.streams", 1
OPTIONS = ("capacity", "on_full", "ttl")
NO_DIGEST = b"0" * 64


def save_stream(stream: Any, path: str | Path) -> Path:
    from safetensors.numpy import save as to_bytes

    keys, model = list(stream._slots), stream._model
    for key in keys:
        if type(key) not in (str, int):
            raise BadType(f"key: expected strings or integers in a stream that is saved, got {checks.describe(key)}")
    slots = np.fromiter(stream._slots.values(), np.int64, len(keys))
    arrays = {"keys": np.frombuffer(json.dumps(keys).encode(), np.uint8), **stream._sequences.saved(slots)}
    about = {
        "format": FORMAT,
        "version": VERSION,
        "model": model.fingerprint,
        "readout": repr(model.readout),
        "window": stream.window,
        "hop": stream.hop,
        "history": stream.history,
    }
    metadata = {"about": json.dumps(about), "sha256": NO_DIGEST.decode()}
    content = to_bytes({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata)
    with output_path(path) as temporary:
        temporary.write_bytes(content.replace(NO_DIGEST, hashlib.sha256(content).hexdigest().encode(), 1))
    return Path(path)


def load_stream(cls: Any, path: str | Path, model: Any, options: dict[str, Any]) -> Any:
    if not isinstance(path, (str, Path)):
        raise BadType(f"path: expected the path of a stream file, got {checks.describe(path)}")
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise BadType(f"options: expected {', '.join(OPTIONS)}, got {unknown[0]!r}")
    try:
        about, arrays = _read(Path(path))
        keys = json.loads(arrays.pop("keys").tobytes())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadCheckpoint(f"path: expected an undamaged stream file, got {str(path)!r}: {error}") from error
    found = stream_model(model, about.get("readout") if isinstance(model, UnICORNN) else None, about.get("window"))
    if found.fingerprint != about.get("model"):
        raise BadCheckpoint("model: expected the one with which the stream was saved, got another one")
    readout = found.readout if isinstance(model, UnICORNN) else None
    settings = {name: about.get(name) for name in ("window", "hop", "history")}
    stream = cls(model, readout=readout, **settings, **options)
    if stream.capacity is not None and len(keys) > stream.capacity:
        raise StreamFull(f"capacity: expected at least the {len(keys)} sequences in the file, got {stream.capacity}")
    if keys:
        slots = stream._enter(keys)
        stream._sequences.restore(slots, arrays)
        stream._touch(slots)
    return stream


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """The description and the arrays of a file. Raises ValueError if it is damaged or something else."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    content = path.read_bytes()
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    metadata = json.loads(header)["__metadata__"]
    about = json.loads(metadata["about"])
    if about["format"] != FORMAT:
        raise ValueError(f"its format is {about['format']!r:.40}, not {FORMAT!r}")
    if about["version"] != VERSION:
        raise ValueError(f"its version is {about['version']!r:.40}, not {VERSION}")
    digest = str(metadata["sha256"]).encode()
    if hashlib.sha256(content.replace(digest, NO_DIGEST, 1)).hexdigest().encode() != digest:
        raise ValueError("its digest does not match its content")
    try:
        return about, from_bytes(content)
    except SafetensorError as error:
        raise ValueError(str(error)) from error
