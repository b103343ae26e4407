"""One self-contained HTML page with the weights of a network, some samples, and the JavaScript that runs it."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unicornn import UnICORNN, models
from unicornn._features import DEVIATION_EPS
from unicornn._ops.reference import ENERGY_FLOOR
from unicornn._state import UNIT
from unicornn.errors import BadType, BadValue
from unicornn.lab.report import _render

FRAMES = 600
"""Number of frames of a sequence at the initial speed: ten seconds."""
SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128]
"""Steps per frame."""


class Sample(NamedTuple):
    """A sequence on the page.

    Args:
        name: Name in the list.
        u: Signal (N, d).
        target: Index of its class, or the number to be predicted; None if unknown.

    Example:
        >>> import torch
        >>> from unicornn.lab.show import Sample
        >>> Sample("a ramp", torch.linspace(0, 1, 50)[:, None], 3).u.shape
        torch.Size([50, 1])
    """

    name: str
    u: Tensor
    target: float | None = None


def write_page(
    network: models.Network,
    samples: Sequence[Sample],
    path: str | Path,
    *,
    title: str = "A network of oscillators",
    classes: Sequence[str] | None = None,
    note: str = "",
) -> Path:
    """Writes the page. It makes no requests and works offline, on a phone and with a keyboard.

    Args:
        network: Network of ``unicornn.models`` with a UnICORNN in one direction, and a readout at the end.
        samples: At least one sample. The page compares its answers with those of Python.
        path: HTML file to write. It is written completely or not at all.
        title: Heading of the page.
        classes: Names of the classes if the network is a classifier.
        note: Addition to the line below the title.

    Returns: the path.

    Example:
        >>> import tempfile, torch
        >>> from unicornn import UnICORNN, models
        >>> from unicornn.lab.show import Sample, write_page
        >>> network = models.Classifier(UnICORNN(2, 8), 3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = write_page(network, [Sample("noise", torch.randn(100, 2))], folder + "/page.html", classes="abc")
        ...     "oscillator" in page.read_text()
        True
    """
    levels: list[Any] = list(network.frames)
    rnn: Any = network.rnn
    layers = [*(layer for level in levels for layer in level.layers), rnn]
    if not all(isinstance(layer, UnICORNN) for layer in layers) or isinstance(network, models.TextClassifier):
        raise BadType(f"network: expected a network of signals with a UnICORNN, got {type(network).__name__}")
    if any(layer.bidirectional for layer in layers):
        raise BadValue("network: expected one direction, got both")
    network.check("page", "network")
    outputs, d = network.linear.out_features, layers[0].input_size // network.patch
    if classes is not None and len(classes) != outputs:
        raise BadValue(f"classes: expected {outputs} names, one for each output, got {len(classes)}")
    if not samples:
        raise BadValue("samples: expected at least one, got none")
    for i, sample in enumerate(samples):
        if sample.u.dim() != 2 or sample.u.shape[1] != d or not len(sample.u):
            raise BadValue(f"samples[{i}].u: expected shape (N, {d}), got {tuple(sample.u.shape)}")
        if not bool(sample.u.isfinite().all()):
            raise BadValue(f"samples: expected finite numbers in {sample.name!r}, got NaN or infinity")
    mean, deviation = _target_scale(network)
    answers = [(mean + deviation * _scores(network, sample.u)).tolist() for sample in samples]
    known = [*(v for answer in answers for v in answer), *(s.target for s in samples if s.target is not None)]
    longest = max(len(sample.u) for sample in samples) / network.patch / math.prod(level.hop for level in levels)
    data = {
        "network": _network_data(network, rnn, d) | {"mean": mean.tolist(), "deviation": deviation.tolist()},
        "classes": None if classes is None else list(classes),
        "outputs": ["prediction"] if outputs == 1 else [f"output {k + 1}" for k in range(outputs)],
        "range": [min(known), max(known)],
        "speeds": SPEEDS,
        "speed": min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - longest / FRAMES)),
        "samples": [
            {"name": s.name, "u": _base64(s.u), "length": len(s.u), "target": s.target, "output": answer}
            for s, answer in zip(samples, answers, strict=True)
        ],
    }
    stack = "one layer" if rnn.num_layers == 1 else f"{rnn.num_layers} layers"
    subtitle = (
        f"{stack} of {rnn.hidden_size} undamped oscillators, driven by {d} channel{'s' if d > 1 else ''}; "
        f"{models.count(network):,} parameters; readout: {network.readout!r}"
    )
    return _render.write_page(
        Path(path), "show.html", title=title, subtitle="; ".join(filter(None, (subtitle, note))), data=data,
        script=read_scripts("network.js", "canvas.js", "player.js"),
    )  # fmt: skip


def read_scripts(*names: str) -> str:
    """Scripts of this folder, one after the other."""
    folder = resources.files("unicornn.lab.show")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def _network_data(network: models.Network, rnn: UnICORNN, d: int) -> dict[str, Any]:
    """The network as network.js takes it."""
    centre, scale = network.features.standardisation()
    return _layers_data(rnn) | {
        "levels": [_frames_data(level) for level in network.frames],
        "d": d,
        "patch": network.patch,
        "small": ENERGY_FLOOR,
        "spread": DEVIATION_EPS,
        "readouts": [{"name": part.name, **vars(part)} for part in network.readout.parts],
        "segments": network.readout.segments,
        "from_rest": network.readout.from_rest,
        "centre": centre.tolist(),
        "scale": scale.tolist(),
        "head": [
            {"weight": _base64(layer.weight), "bias": _base64(layer.bias)}
            for layer in (*network.hidden, network.linear)
            if isinstance(layer, nn.Linear)
        ],
    }


def _layers_data(rnn: UnICORNN) -> dict[str, Any]:
    return {
        "layers": [
            {
                **{name: _base64(getattr(rnn, name)[l]) for name in ("w", "V", "b")},
                "a": (rnn.dt[l] * torch.sigmoid(rnn.c[l].detach().double())).tolist(),
                "Lambda": None if rnn.Lambda[l] is None else _base64(rnn.Lambda[l]),
            }
            for l in range(rnn.num_layers)
        ],
        "alpha": rnn.alpha,
        "skip_layers": rnn.skip_layers,
        "unit": UNIT[torch.float64 if rnn.w[0].dtype == torch.float64 else torch.float32],
    }


def _frames_data(frames: Any) -> dict[str, Any]:
    return {
        "resolutions": [_layers_data(layer) for layer in frames.layers],
        "length": frames.length,
        "hop": frames.hop,
        "floor": max(frames.floor, ENERGY_FLOOR),
        "centred": frames.centre,
        "centre": frames.norm.running_mean.tolist(),
        "scale": (frames.norm.running_var.double() + frames.norm.eps).rsqrt().tolist(),
    }


def _target_scale(network: models.Network) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each output: scores are in these units."""
    numbers = (
        torch.as_tensor(getattr(network, name, default)) for name, default in (("mean", 0.0), ("deviation", 1.0))
    )
    mean, deviation = (t.double().cpu().expand(network.linear.out_features) for t in numbers)
    return mean, deviation


@torch.no_grad()
def _scores(network: models.Network, u: Tensor) -> Tensor:
    training = network.training
    network.eval()
    try:
        return network.scores(u[:, None].to(network.linear.weight))[0].cpu()
    finally:
        network.train(training)


def _base64(t: Tensor) -> str:
    """Numbers in float32, little-endian."""
    return base64.b64encode(t.detach().cpu().float().contiguous().numpy().astype("<f4").tobytes()).decode()
