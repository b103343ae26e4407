"""One self-contained HTML page with a network's weights, some samples, and the few lines of JavaScript that run it."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import torch
from torch import Tensor

import unicornn
from unicornn import UnICORNN, models
from unicornn._files import atomic_write
from unicornn._readouts import SMALL
from unicornn._state import UNIT
from unicornn.errors import BadType, BadValue

FRAMES = 600
"""Of a sequence played at the speed with which the page begins: ten seconds."""


class Sample(NamedTuple):
    """A sequence to be shown.

    Args:
        name: what it is called in the list.
        u: (N, d).
        target: the number of its class, or the number to be predicted; None if it is not known.

    Example:
        >>> import torch
        >>> from unicornn.lab.show import Sample
        >>> Sample("a ramp", torch.linspace(0, 1, 50)[:, None], 3).u.shape
        torch.Size([50, 1])
    """

    name: str
    u: Tensor
    target: float | None = None


def show(
    network: models.Network,
    samples: Sequence[Sample],
    path: str | Path,
    *,
    title: str = "A network of oscillators",
    classes: Sequence[str] | None = None,
    note: str = "",
) -> Path:
    """Writes the page: no request, readable offline, on a phone and by keyboard.

    Args:
        network: of ``unicornn.models``, with a UnICORNN in one direction, read off at the end of a sequence.
        samples: at least one; each is run by Python too, and the page compares its own answers.
        path: of the page, which is there whole or not at all.
        title: its heading.
        classes: the names of the classes, for a classifier.
        note: what else is to be said below the title.

    Returns: the path.

    Example:
        >>> import tempfile, torch
        >>> from unicornn import UnICORNN, models
        >>> from unicornn.lab.show import Sample, show
        >>> network = models.Classifier(UnICORNN(2, 8), 3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = show(network, [Sample("noise", torch.randn(100, 2))], folder + "/page.html", classes="abc")
        ...     "oscillator" in page.read_text()
        True
    """
    path = Path(path)
    rnn = network.rnn
    if not isinstance(rnn, UnICORNN) or isinstance(network, models.TextClassifier):
        raise BadType(f"network: expected a network of signals with a UnICORNN, got {type(network).__name__}")
    if rnn.bidirectional or network.every_step:
        raise BadValue("network: expected one direction and a readout at the end of a sequence, got another")
    if network.features.mirrored:
        raise BadValue("network: expected mirrored=False, for the page shows a sequence once, got True")
    if not samples:
        raise BadValue("samples: expected at least one, got none")
    outputs = network.readout.out_features
    if classes is not None and len(classes) != outputs:
        raise BadValue(f"classes: expected {outputs} names, one for each output, got {len(classes)}")
    d = rnn.input_size // network.patch
    for i, sample in enumerate(samples):
        if sample.u.dim() != 2 or sample.u.shape[1] != d or not len(sample.u):
            raise BadValue(f"samples[{i}].u: expected shape (N, {d}), got {tuple(sample.u.shape)}")
        if not bool(sample.u.isfinite().all()):
            raise BadValue(f"samples: expected finite numbers in {sample.name!r}, got NaN or infinity")
    answers = [_answer(network, sample.u) for sample in samples]
    longest = max(len(sample.u) for sample in samples) / network.patch
    speeds = [0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128]
    data = {
        "network": _network(network, rnn, d),
        "classes": None if classes is None else list(classes),
        "outputs": ["prediction"] if outputs == 1 else [f"output {k + 1}" for k in range(outputs)],
        "range": _range([v for answer in answers for v in answer], [s.target for s in samples]),
        "speed": min(speeds, key=lambda speed: abs(speed - longest / FRAMES)),
        "samples": [
            {"name": s.name, "u": _numbers(s.u), "length": len(s.u), "target": s.target, "output": answer}
            for s, answer in zip(samples, answers, strict=True)
        ],
    }
    here = resources.files("unicornn.lab.show")
    page = Template(here.joinpath("page.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(title),
        subtitle=html.escape("; ".join(filter(None, (_subtitle(network, rnn, d), note)))),
        version=unicornn.__version__,
        data=json.dumps(data, allow_nan=False).replace("<", "\\u003c"),
        script="\n".join(here.joinpath(name).read_text(encoding="utf-8") for name in ("network.js", "player.js")),
    )
    with atomic_write(path, "w") as file:
        file.write(page)
    return path


def _network(network: models.Network, rnn: UnICORNN, d: int) -> dict[str, Any]:
    features, dtype = network.features, rnn.w[0].dtype
    layers = [
        {
            "w": _numbers(rnn.w[l]),
            "V": _numbers(rnn.V[l]),
            "b": _numbers(rnn.b[l]),
            "a": (rnn.dt[l] * torch.sigmoid(rnn.c[l].detach().double())).tolist(),
            "Lambda": None if rnn.Lambda[l] is None else _numbers(rnn.Lambda[l]),
        }
        for l in range(rnn.num_layers)
    ]
    centre, scale = (network.mean, network.deviation) if isinstance(network, models.Regressor) else (0.0, 1.0)
    return {
        "layers": layers,
        "d": d,
        "patch": network.patch,
        "alpha": rnn.alpha,
        "skip_layers": rnn.skip_layers,
        "unit": UNIT[torch.float32 if dtype != torch.float64 else dtype],
        "small": SMALL,
        "readouts": list(features.readouts),
        "segments": features.segments,
        "segment_pool": features.segment_pool,
        "segment_start": features.segment_start,
        "standardise": _standardisation(getattr(features, "standardise", None)),
        "standardise_state": _standardisation(getattr(features, "standardise_state", None)),
        "readout": {"weight": _numbers(network.readout.weight), "bias": _numbers(network.readout.bias)},
        "centre": float(centre),
        "scale": float(scale),
    }


def _standardisation(norm: Any) -> dict[str, Any] | None:
    if norm is None:
        return None
    return {"mean": norm.running_mean.tolist(), "variance": norm.running_var.tolist(), "eps": norm.eps}


@torch.no_grad()
def _answer(network: models.Network, u: Tensor) -> list[float]:
    training = network.training
    network.eval()
    try:
        like = network.readout.weight
        return network(u[:, None].to(like)).reshape(-1).tolist()
    finally:
        network.train(training)


def _numbers(t: Tensor) -> str:
    return base64.b64encode(t.detach().cpu().float().contiguous().numpy().astype("<f4").tobytes()).decode()


def _range(answers: list[float], targets: list[float | None]) -> list[float]:
    known = answers + [t for t in targets if t is not None]
    return [min(known), max(known)]


def _subtitle(network: models.Network, rnn: UnICORNN, d: int) -> str:
    layers = "one layer" if rnn.num_layers == 1 else f"{rnn.num_layers} layers"
    return (
        f"{layers} of {rnn.hidden_size} undamped oscillators, driven by {d} channel{'s' if d > 1 else ''}; "
        f"{models.count(network):,} parameters; read off: {' and '.join(network.features.readouts)}"
    )
