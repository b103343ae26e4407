"""Trained networks as ONNX files, for programs without PyTorch. Needs ``pip install 'unicornn[export]'``.

There are two kinds of file:

    sequence  u (N, b, d), lengths (b,) → output, and of a bare layer y, z; for any N and b. One Scan per layer.
    step      u (b, d), y, z (L, b, m) → output, y_next, z_next; for any b. The caller keeps the state between calls.

States are float64, whatever the dtype of the input. ``python -m benchmarks.export`` measures why: after 2,000 steps at
psMNIST's settings, outputs are off by more than 1e-5 with float32 states, and by less than 1e-6 with float64 ones.
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn._files import atomic_path
from unicornn._fitted import FittedNetwork, is_estimator
from unicornn._layer import UnICORNN
from unicornn._ops import reference
from unicornn._state import UNIT, State
from unicornn._torch_internals import scan
from unicornn.errors import BadType, BadValue, ExportFailed
from unicornn.models import Network, TextClassifier

KINDS = ("sequence", "step")
TOLERANCE = 1e-5
"""Of what a file gives in onnxruntime, relative to the largest output of the network, or to 1."""
STEPS, LEAST = 2000, 16
"""Over how many steps a new file is compared with the network, and at least."""


class _Traced(UnICORNN):
    """A layer in operations that torch's exporter can translate for any length: Eq. (6) inside of a scan.

    Its exact final state is left in ``held.after``.
    """

    held: SimpleNamespace

    def forward(  # type: ignore[override]
        self, input: Tensor, state: Any = None, lengths: Tensor | None = None, output: str = "all"
    ) -> tuple[Tensor, State]:
        u, D = input, 2 if self.bidirectional else 1
        N, batch = u.shape[0], u.shape[1]
        n = torch.arange(N, device=u.device)[:, None]
        ends = torch.full((batch,), N, device=u.device) if lengths is None else lengths
        running = n < ends
        back = torch.where(running, ends - 1 - n, n)[:, :, None]
        below, ys, zs = [u], [], []
        for l in range(self.num_layers):
            outputs = []
            for i in range(D * l, D * (l + 1)):
                x = _drive(self, i, below)
                x = x if i == D * l else x.gather(0, back.expand(-1, -1, x.shape[2]))
                y, z = (u.new_zeros(batch, self.hidden_size, dtype=torch.float64) for _ in range(2))
                if state is not None:  # the one in which these layers were left, before it was rounded
                    y, z = self.held.after.y[i], self.held.after.z[i]
                y, z, out = self._scan(i, x, running[:, :, None], y, z)
                out = out if i == D * l else out.gather(0, back.expand(-1, -1, out.shape[2]))
                outputs.append(torch.where(running[:, :, None], out, 0.0))
                ys.append(y)
                zs.append(z)
            below.append(outputs[0] if D == 1 else torch.cat(outputs, 2))
        self.held.after = exact = State(torch.stack(ys), torch.stack(zs))
        single = exact.map(lambda t: t.to(self.w[0].dtype))
        return (below[-1] if output == "all" else torch.cat(list(single.y[-D:]), 1)), single

    def _scan(self, i: int, x: Tensor, running: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        def step(carry: tuple[Tensor, Tensor], now: tuple[Tensor, Tensor]) -> Any:
            (y, z), (x_n, inside) = carry, now
            y_n, z_n = _one(self, i, x_n, y, z)
            y_n, z_n = torch.where(inside, y_n, y), torch.where(inside, z_n, z)
            return (y_n, z_n), y_n.to(x_n.dtype, copy=True)  # a scan wants no aliases

        (y, z), out = scan(step, (y, z), (x, running), dim=0)
        return y, z, out


class _OneStep(UnICORNN):
    """A layer that goes one step on from ``held.before``, (y, z) in float64, to ``held.after``."""

    held: SimpleNamespace

    def forward(  # type: ignore[override]
        self, input: Tensor, state: Any = None, lengths: Tensor | None = None, output: str = "all"
    ) -> tuple[Tensor, State]:
        below, ys, zs = [input[0]], [], []
        for l in range(self.num_layers):
            y, z = _one(self, l, _drive(self, l, below), self.held.before[0][l], self.held.before[1][l])
            below.append(y.to(input.dtype))
            ys.append(y)
            zs.append(z)
        self.held.after = exact = State(torch.stack(ys), torch.stack(zs))
        return (below[-1][None] if output == "all" else below[-1]), exact.map(lambda t: t.to(input.dtype))


def _one(layer: Any, i: int, x_n: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. (6) for layer and direction i, on the layer's grid: x_n (b, m) without the bias, y and z (b, m) float64."""
    dtype = x_n.dtype
    a = layer.exact_dt[i] * torch.sigmoid(layer.c[i].double())

    def rounded(increment: Tensor) -> Tensor:
        if dtype == torch.float64:  # whose grid is finer than float64 itself
            return increment
        return torch.round(increment / UNIT[dtype]) * UNIT[dtype]

    t = torch.tanh(layer.w[i] * y.to(dtype) + (x_n + layer.b[i])).double()
    return reference.step(t, y, z, a, layer.exact_alpha, rounded)


def _drive(layer: UnICORNN, i: int, below: list[Tensor]) -> Tensor:
    """V yˡ⁻¹ + Λ yˡ⁻ˢ⁻¹ of layer and direction i; ``below`` holds u, y¹, …, yˡ⁻¹."""
    l, Λ = i // (2 if layer.bidirectional else 1), layer.Lambda[i]
    x = below[l] @ layer.V[i].t()
    return x if Λ is None else x + below[l - layer.skip_layers] @ Λ.t()


class _Sequence(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.rnn = _with(model, _Traced)

    def forward(self, u: Tensor, lengths: Tensor) -> Any:
        if isinstance(self.model, UnICORNN):
            output, _ = self.model(u, None, lengths)
            return output, *self.rnn.held.after
        return self.model(u, lengths)


class _Step(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.rnn = _with(model, _OneStep)
        if isinstance(self.model, Network):
            self.model.patch = 1  # the step's input is a whole patch

    def forward(self, u: Tensor, y: Tensor, z: Tensor) -> Any:
        self.rnn.held.before = y, z
        if isinstance(self.model, UnICORNN):
            output = self.model(u[None], output="last")[0]
        else:
            output = self.model(u[None])
            output = output[0] if self.model.every_step else output
        return output, *self.rnn.held.after


def _with(model: nn.Module, kind: type[UnICORNN]) -> tuple[Any, Any]:
    """A copy of the model whose layers do their steps as ``kind`` does; and these layers."""
    model = copy.deepcopy(model).eval().requires_grad_(False).cpu()
    rnn: Any = model if isinstance(model, UnICORNN) else model.rnn
    rnn.__class__ = kind
    rnn.batch_first, rnn.held = False, SimpleNamespace()  # tensors kept in the module itself would disturb the exporter
    # As tensors, for the exporter rounds plain numbers to float32.
    rnn.register_buffer("exact_dt", torch.tensor(rnn._dt, dtype=torch.float64))
    rnn.register_buffer("exact_alpha", torch.tensor(rnn.alpha, dtype=torch.float64))
    return model, rnn


def _checked(model: Any, kind: str) -> UnICORNN:
    """The model's layers, if there can be such a file of it."""
    rnn = model.rnn if isinstance(model, Network) else model
    if not isinstance(rnn, UnICORNN):
        what = type(model).__name__ + (f" of {type(rnn).__name__}" if isinstance(model, Network) else "")
        raise BadType(
            f"model: expected a UnICORNN, a network of unicornn.models with one, or a fitted estimator, got {what}"
        )
    if kind == "step" and rnn.bidirectional:
        raise BadValue("kind: expected 'sequence' for both directions, one of which starts at the end, got 'step'")
    features = model.features if isinstance(model, Network) else None
    whole = features is not None and ("mean" in features.readouts or features.segments > 1 or features.mirrored)
    if kind == "step" and whole:
        raise BadValue(
            "kind: expected 'sequence' for a readout of the mean, over segments or mirrored, which no single state "
            "tells, got 'step'; an estimator fitted with segments=1 has steps"
        )
    return rnn


def onnx(model: Any, path: str | Path, kind: str = "sequence") -> Path:
    """Writes a layer, a network or an estimator as an ONNX file, and checks it against the model in onnxruntime.

    Args:
        model: a ``UnICORNN``, a network of ``unicornn.models`` with one, or an estimator fitted with model="network".
            Dropout is off in the file.
        path: of the file, which is there whole or not at all.
        kind: "sequence", for whole sequences, or "step", for live use.

    Inputs and outputs of the file, by name:
        sequence: u (N, b, d) and lengths (b,), int64, to output: (N, b, m) and the last y and z (L, b, m), float64, of
            a layer; what the network returns otherwise. u is (N, b), int64, for text. Sequences of fewer steps than
            a network has segments get no error, but an answer without meaning.
        step: u (b, d), y and z (L, b, m), float64, zero at first, to output, y_next and z_next. For a network with
            ``patch`` = k, u is (b, k·d).
        of an estimator: u is a series as it was given to ``fit``, in float32, for its standardisation is part of the
            file; output are the probabilities of the classes, or the predicted numbers. The file's metadata have the
            names, in JSON: "unicornn.classes", "unicornn.channels".

    Returns: the path.

    Raises ``ExportFailed`` if the file differs from the model by more than 1e-5 of its largest output over 2,000 steps;
    over fewer, and with a warning of the logger "unicornn", where rounding alone makes the model differ from itself.

    Example:
        >>> import tempfile, onnxruntime, torch
        >>> from unicornn import UnICORNN, export
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = export.onnx(UnICORNN(3, 8), folder + "/layer.onnx", kind="step")
        ...     session = onnxruntime.InferenceSession(path)
        >>> [value.name for value in session.get_outputs()]
        ['output', 'y_next', 'z_next']
    """
    checks.choice("kind", kind, KINDS)
    if is_estimator(model):
        model = FittedNetwork.of(model, "an ONNX file")
    rnn = _checked(model, kind)
    if not isinstance(path, (str, Path)) or (Path(path).exists() and not Path(path).is_file()):
        raise BadValue(f"path: expected the path of a file to write, got {path!r:.80}")
    path = Path(path)
    wrapped = (_Sequence if kind == "sequence" else _Step)(model)
    text = isinstance(model, TextClassifier)
    inputs = _inputs(model, rnn, text, kind, N=4, b=3)
    names = {"sequence": ["u", "lengths"], "step": ["u", "y", "z"]}[kind]
    outputs = ["output"]
    if kind == "step":
        outputs += ["y_next", "z_next"]
    elif model is rnn:
        outputs += ["y", "z"]
    b: Any = "b"
    shapes = {"sequence": ({0: "N", 1: b}, {0: b}), "step": ({0: b}, {1: b}, {1: b})}[kind]
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            wrapped, inputs, dynamo=True, dynamic_shapes=shapes, input_names=names, output_names=outputs, verbose=False
        )
    assert program is not None
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    RemoveUnusedNodesPass()(program.model)  # onnxruntime would complain about them
    for name, own in getattr(model, "about", {}).items():
        program.model.metadata_props[f"unicornn.{name}"] = json.dumps(own)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        program.save(str(temporary), external_data=False)
        _compare(temporary, model, rnn, text, kind)
    return path


def _inputs(model: nn.Module, rnn: UnICORNN, text: bool, kind: str, N: int, b: int) -> tuple[Tensor, ...]:
    """Random inputs of a file: N steps of sequences of which the last is half as long, or one step."""
    generator, dtype = torch.Generator().manual_seed(0), rnn.w[0].dtype
    patch = model.patch if isinstance(model, Network) and kind == "sequence" else 1
    if text:
        u = torch.randint(model.embedding.num_embeddings, (N, b), generator=generator)  # type: ignore[union-attr,arg-type]
    else:
        u = torch.randn(N, b, rnn.input_size // patch, generator=generator, dtype=dtype)
        if isinstance(model, FittedNetwork):
            u = (model.centre + model.spread * u).to(dtype)
    if kind == "sequence":
        return u, torch.tensor([N] * (b - 1) + [max(N // 2, 1)])
    state = torch.zeros(2, rnn.num_layers, b, rnn.hidden_size, dtype=torch.float64)
    return u if N > 4 else u[0], state[0], state[1]


def _compare(path: Path, model: Any, rnn: UnICORNN, text: bool, kind: str) -> None:
    """The file against the model, in onnxruntime."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs, wanted = _predictable(model, rnn, text, kind)
    u, *rest = (t.numpy() for t in inputs)
    if kind == "sequence":
        got = session.run(None, {"u": u, "lengths": rest[0]})[0]
    else:
        outputs, (y, z) = [], rest
        for u_n in u:
            output, y, z = session.run(None, {"u": u_n, "y": y, "z": z})
            outputs.append(output)
        got = np.stack(outputs) if isinstance(model, UnICORNN) or model.every_step else outputs[-1]
    error = _difference(torch.from_numpy(got), wanted)
    if not error <= TOLERANCE:
        raise ExportFailed(
            f"path: expected a file that agrees with the model to {TOLERANCE:g} over {len(u)} steps, got {error:.2g}"
        )


@torch.no_grad()
def _predictable(model: Any, rnn: UnICORNN, text: bool, kind: str) -> tuple[tuple[Tensor, ...], Tensor]:
    """Inputs over 2,000 steps and the model's output; or over as many fewer as it takes for the model to agree with
    itself: where rounding grows with the length, V changed by a rounding changes the output beyond recognition."""
    models = []
    for changed in (False, True):
        own = copy.deepcopy(model).eval().cpu()
        layers: Any = own if isinstance(own, UnICORNN) else own.rnn
        layers.batch_first = False
        if isinstance(own, Network) and kind == "step":
            own.patch = 1
        for V in layers.V if changed else ():
            V.mul_(
                1 + torch.finfo(V.dtype).eps * torch.randn(V.shape, generator=torch.Generator().manual_seed(0)).sign()
            )
        models.append(own)
    N = STEPS
    while True:
        inputs = _inputs(model, rnn, text, kind, N, b=2)
        lengths = inputs[1] if kind == "sequence" else None
        found = [own(inputs[0], lengths=lengths) for own in models]
        wanted, again = (output[0] if isinstance(model, UnICORNN) else output for output in found)
        if N <= LEAST or _difference(again, wanted) <= TOLERANCE / 10:  # the file rounds more often
            break
        N //= 2
    if N < STEPS:
        logging.getLogger("unicornn").warning(
            "unicornn: the file is compared with the model over %d steps of noise: over more, rounding alone changes "
            "the model's own output by more than %g", N, TOLERANCE,
        )  # fmt: skip
    return inputs, wanted


def _difference(got: Tensor, wanted: Tensor) -> float:
    """The largest, relative to the largest that was wanted, or to 1."""
    return float((got - wanted).abs().max()) / max(1.0, float(wanted.abs().max()))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's remarks on packages that are not there and on names of axes."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            log.setLevel(level)


__all__ = ["onnx"]
