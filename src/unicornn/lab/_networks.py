"""Networks by the names of their models and settings, as tasks and the command line give them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn._layer import UnICORNN
from unicornn.errors import BadValue
from unicornn.frames import Frames, oscillators
from unicornn.lab.tasks._base import Number
from unicornn.models import Classifier, Network, Regressor, SequenceToSequence, TextClassifier

KINDS: dict[str, type[Network]] = {"classify": Classifier, "regress": Regressor, "forecast": SequenceToSequence}
FRAMES: dict[str, Any] = {
    "frame_size": (64,),
    "frame_model": "unicornn",
    "frame_centre": False,
}  # settings of the front end, if ``frames`` has one
FRAMES_NETWORK: dict[str, Any] = {
    "num_layers": 2, "dt": 0.5, "alpha": 1.0, "init": "spread", "b_init": 1.0, "dropout": 0.1,
    "readout": "mean+max+state", "readout_init": "zero",
}  # fmt: skip
"""Settings with which UnICORNN learned most tasks from frames."""
NOT_SETTINGS = ("self", "rnn", "outputs", "input_size", "bias", "batch_first", "bidirectional", "device", "dtype")


def model_class(model: str) -> type[nn.Module]:
    """The class of recurrent layers with this name: "unicornn" or one of ``unicornn.baselines.MODELS``."""
    from unicornn.baselines import MODELS

    known: dict[str, type[nn.Module]] = {"unicornn": UnICORNN, **MODELS}
    return known[checks.choice("model", model, ("unicornn", *MODELS))]


def model_settings(model: str) -> dict[str, Any]:
    """Settings of a model and their defaults: those of its layers and those of any ``Network``."""
    first: dict[str, Any] = {"dropout": 0.0, **FRAMES} | ({"b_init": 0.0} if model == "unicornn" else {})
    return first | constructor_settings(Network) | constructor_settings(model_class(model))


def frame_sizes(frames: Any) -> tuple[list[int], int]:
    """Lengths of frames, and the hop, of the setting ``frames``: (64, 256, 32), or 256 for a hop of half of it."""
    numbers = list(Number((), least=0).check("frames", frames))
    if not any(numbers):
        return [], 0
    return (numbers, max(1, numbers[0] // 2)) if len(numbers) == 1 else (numbers[:-1], numbers[-1])


def front_end(d: int, lengths: list[int], hop: int, *, frame_size: Any, frame_model: str, frame_centre: bool) -> Frames:
    """Frames of d features, with settings as on the command line."""
    sizes = Number((), least=1).check("frame_size", frame_size)
    if len(sizes) not in (1, len(lengths)):
        raise BadValue(f"frame_size: expected a number, or one for each of the frames {lengths}, got {frame_size}")
    layers = []
    for m, W in zip(sizes * (len(lengths) // len(sizes)), lengths, strict=True):
        layers.append(oscillators(d, m, W) if frame_model == "unicornn" else model_class(frame_model)(d, m))
    return Frames(layers, lengths, hop, centre=frame_centre)


def constructor_settings(kind: type[nn.Module]) -> dict[str, Any]:
    """Arguments of a constructor, with their defaults, except sizes and the form of the input."""
    arguments = inspect.signature(kind).parameters.values()
    named = [p for p in arguments if p.name not in NOT_SETTINGS and p.kind is not p.VAR_KEYWORD]
    return {p.name: None if p.default is p.empty else p.default for p in named}


def build_network(
    kind: str,
    model: str,
    d: int,
    outputs: int,
    settings: Mapping[str, Any],
    *,
    vectors: Tensor | None = None,
    embedding_dropout: float = 0.0,
) -> Network:
    """Builds the network of a task for d input features; with word vectors (words, d), a text classifier.

    ``settings`` are any of ``model_settings``. With ``b_init``, UnICORNN's biases b start from U(-b_init, b_init). From
    0 its layers are odd functions of their input (-u gives -y), and properties that do not depend on the input's sign
    are learned only as b grows.

    With ``frames`` (lengths of frames in steps, then the hop), the layers read frames of energies, see ``Frames``:
    those of ``frame_size`` neurons of ``frame_model``, a number for all lengths or one for each.
    """
    head = {name: settings[name] for name in constructor_settings(Network) if name in settings}
    layers = {name: value for name, value in settings.items() if name not in (*head, *FRAMES, "b_init")}
    width = d * head.get("patch", 1)
    lengths, hop = frame_sizes(head.pop("frames", ()))
    if lengths:
        head["frames"] = frames = front_end(
            width, lengths, hop, **{name: settings.get(name, FRAMES[name]) for name in FRAMES}
        )
        width = frames.size
    rnn = model_class(model)(width, **layers)
    if b_init := settings.get("b_init", 0.0):
        for b in rnn.b:  # type: ignore[union-attr]
            nn.init.uniform_(b, -b_init, b_init)
    if vectors is not None:
        return TextClassifier(rnn, outputs, vectors=vectors, embedding_dropout=embedding_dropout, **head)
    return KINDS[kind](rnn, outputs, **head)
