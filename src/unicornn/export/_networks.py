"""Layers and networks as ONNX files, traced from the equations in ``_ops.reference``.

States are in float64 whatever the dtype of the input. ``python -m benchmarks.export`` measures why: after 2,000 steps
with psMNIST's settings, outputs differ by more than 1e-5 with float32 states, and by less than 1e-6 with float64.
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unicornn._fitted import FittedNetwork, is_estimator
from unicornn._layer import UnICORNN
from unicornn._ops import reference
from unicornn._state import State
from unicornn._torch_internals import scan
from unicornn._weights import time_steps
from unicornn.errors import BadType, BadValue, ExportFailed
from unicornn.frames import Frames
from unicornn.models import Network, TextClassifier
from unicornn.readouts import EveryStep, log_energies

TOLERANCE, MOST_ROUNDING = 1e-5, 1e-4
"""Accepted difference between file and model, relative to the largest output, or to 1; and the largest rounding error
of the model with which they can be compared."""
STEPS, FEWEST_STEPS, EXAMPLE_STEPS = 2000, 16, 4
"""Number of steps over which a new file is compared with the model, the least number, and that of the traced example:
the exporter takes dimensions of size 1 for constants."""


class _Direction(NamedTuple):
    """The coefficients of all layers in one direction, as ``reference.drive`` reads them."""

    w: Tensor
    V: list[Tensor]
    b: Tensor
    a: Tensor
    Lambda: list[Tensor]
    alpha: Tensor

    @property
    def S(self) -> int:
        return len(self.V) - len(self.Lambda)


class _TracedLayer(UnICORNN):
    """A layer in operations that torch's exporter can translate: a scan of ``reference.step`` for sequences with
    lengths, and a single call of it without lengths, for one step.

    The exact states are in ``exact``: ``before`` if the caller has set one, ``after`` the run.
    """

    exact: SimpleNamespace
    exact_a: Tensor
    exact_alpha: Tensor

    @classmethod
    def replace_in(cls, model: nn.Module) -> tuple[Any, Any]:
        """A copy of the model whose layers are traced, and these layers."""
        model = copy.deepcopy(model)
        for rnn in _every_layer(model):
            rnn.__class__ = cls
            rnn.exact = SimpleNamespace(before=None)  # the exporter rejects modules that change their tensors
            # Tensors, because the exporter rounds Python numbers to float32.
            rnn.register_buffer("exact_a", time_steps(rnn.weights.c, rnn._dt, torch.float64))
            rnn.register_buffer("exact_alpha", torch.tensor(rnn.alpha, dtype=torch.float64))
        for level in getattr(model, "frames", ()):
            level.__class__ = _TracedFrames
        return model, _layers(model)

    def forward(  # type: ignore[override]
        self, input: Tensor, state: Any = None, lengths: Tensor | None = None, output: str = "all"
    ) -> tuple[Tensor, State]:
        D, dtype = 2 if self.bidirectional else 1, input.dtype
        start = self.exact.before
        if state is not None:  # the state after the previous segment, before it was rounded
            start = self.exact.after
        n = torch.arange(input.shape[0], device=input.device)[:, None]
        running = None if lengths is None else (n < lengths)[:, :, None]
        backwards = None if lengths is None else torch.where(n < lengths, lengths - 1 - n, n)[:, :, None]
        below, ys, zs = [input], [], []
        for l in range(self.num_layers):
            outputs = []
            for direction in range(D):
                k, i = self._coefficients(direction, D), D * l + direction
                x = reference.drive(l, below, k)
                if direction:
                    assert backwards is not None
                    x = x.gather(0, backwards.expand(-1, -1, x.shape[2]))
                y, z = (
                    x.new_zeros(x.shape[1:], dtype=torch.float64) if start is None else start[part][i]
                    for part in range(2)
                )
                y, z, out = _run(l, x, y, z, k, running)
                if direction:
                    assert backwards is not None
                    out = out.gather(0, backwards.expand(-1, -1, out.shape[2]))
                outputs.append(out if running is None else torch.where(running, out, 0.0))
                ys.append(y)
                zs.append(z)
            below.append(outputs[0] if D == 1 else torch.cat(outputs, 2))
        self.exact.after = State(torch.stack(ys), torch.stack(zs))
        rounded = self.exact.after.map(lambda t: t.to(dtype))
        return (below[-1] if output == "all" else torch.cat(list(rounded.y[-D:]), 1)), rounded

    def _coefficients(self, direction: int, D: int) -> _Direction:
        """The coefficients of all layers in one direction."""
        w, V, b, _, Lambda = self.weights
        matrices = [matrix for matrix in Lambda or () if matrix is not None]
        return _Direction(
            torch.stack(list(w))[direction::D],
            list(V)[direction::D],
            torch.stack(list(b))[direction::D],
            self.exact_a[direction::D],
            matrices[direction::D],
            self.exact_alpha,
        )


class _TracedFrames(Frames):
    """Frames as copies of the signal, for any N and b: the exporter cannot translate views that overlap."""

    def _resolution(self, layer: nn.Module, W: int, u: Tensor) -> Tensor:
        (N, b, d), hop = u.shape, self.hop
        F = (N + hop - 1) // hop
        padded = nn.functional.pad(u, (0, 0, 0, 0, W - hop, hop - 1))
        steps = torch.arange(W)[:, None] + hop * torch.arange(F)
        views = padded[steps].reshape(W, F * b, d)
        _, state = layer(views, lengths=torch.full((F * b,), W), output="last")
        return log_energies(layer, state, self.floor).reshape(F, b, -1)


def _run(
    l: int, x: Tensor, y: Tensor, z: Tensor, k: _Direction, running: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer l over its drive x (N, b, m): the final y and z, and the outputs in the dtype of x."""
    w, a = k.w[l], k.a[l]
    if running is None:
        y, z = reference.step(torch.tanh(w * y + x[0]), y, z, a, k.alpha)
        return y, z, y[None].to(x.dtype)

    def step(carry: tuple[Tensor, Tensor], now: tuple[Tensor, Tensor]) -> Any:
        (y, z), (x_n, inside) = carry, now
        y_n, z_n = reference.step(torch.tanh(w * y + x_n), y, z, a, k.alpha)
        y_n, z_n = torch.where(inside, y_n, y), torch.where(inside, z_n, z)
        return (y_n, z_n), y_n.to(x_n.dtype, copy=True)  # a copy: a scan rejects aliases

    (y, z), outputs = scan(step, (y, z), (x, running), dim=0)
    return y, z, outputs


class _Sequence(nn.Module):
    """The file for whole sequences: its inputs, how it is traced, and how it runs."""

    inputs, shapes = ("u", "lengths"), ({0: "N", 1: "b"}, {0: "b"})

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.rnn = _TracedLayer.replace_in(model)
        self.every_output = isinstance(model, UnICORNN) or model.readout == EveryStep()
        self.outputs = ("output", "y", "z") if isinstance(model, UnICORNN) else ("output",)

    def forward(self, u: Tensor, lengths: Tensor) -> Any:
        if isinstance(self.model, UnICORNN):
            return self.model(u, None, lengths)[0], *self.rnn.exact.after
        return self.model(u, lengths).to(self.rnn.w[0].dtype)

    def example(self, u: Tensor) -> tuple[Tensor, ...]:
        """Inputs with sequences u (N, b, ·), of which the last has N/2 steps."""
        N, b = u.shape[:2]
        return u, torch.tensor([N] * (b - 1) + [max(N // 2, 1)])

    def expected(self, model: Any, u: Tensor) -> Tensor:
        """The model's output for these inputs."""
        output = model(u, lengths=self.example(u)[1])
        return output[0] if isinstance(model, UnICORNN) else output

    def run(self, session: Any, u: Tensor) -> Tensor:
        """The file's output for these inputs."""
        return self._call(session, self.example(u))[0]

    def _call(self, session: Any, tensors: tuple[Tensor, ...]) -> list[Tensor]:
        named = {name: t.numpy() for name, t in zip(self.inputs, tensors, strict=True)}
        return [torch.from_numpy(array) for array in session.run(None, named)]


class _Step(_Sequence):
    """The file for one step."""

    inputs, shapes = ("u", "y", "z"), ({0: "b"}, {1: "b"}, {1: "b"})  # type: ignore[assignment]

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.outputs = ("output", "y_next", "z_next")

    def forward(self, u: Tensor, y: Tensor, z: Tensor) -> Any:  # type: ignore[override]
        self.rnn.exact.before = y, z
        output = self.expected(self.model, u[None])
        return (output[0] if self.every_output else output).to(self.rnn.w[0].dtype), *self.rnn.exact.after

    def example(self, u: Tensor) -> tuple[Tensor, ...]:
        """The first step of u (N, b, ·), and the state at rest."""
        rest = torch.zeros(self.rnn.num_layers, u.shape[1], self.rnn.hidden_size, dtype=torch.float64)
        return u[0], rest, rest.clone()

    def expected(self, model: Any, u: Tensor) -> Tensor:
        output = model(u)
        return output[0] if isinstance(model, UnICORNN) else output

    def run(self, session: Any, u: Tensor) -> Tensor:
        outputs, (_, y, z) = [], self.example(u)
        for u_n in u:
            output, y, z = self._call(session, (u_n, y, z))
            outputs.append(output)
        return torch.stack(outputs) if self.every_output else output


KINDS: dict[str, type[_Sequence]] = {"sequence": _Sequence, "step": _Step}


def _layers(model: Any) -> Any:
    return model.rnn if isinstance(model, Network) else model


def _hop(model: Any) -> int:
    """Number of samples from one step of the recurrent layers to the next, apart from patches."""
    return math.prod(level.hop for level in getattr(model, "frames", ()))


def _every_layer(model: Any) -> list[Any]:
    """The recurrent layers, and those of frames."""
    return [layer for level in getattr(model, "frames", ()) for layer in level.layers] + [_layers(model)]


def _prepared(model: Any, kind: str) -> Any:
    """A copy of the model as the file describes it, if a file of this kind is possible."""
    if is_estimator(model):
        model = FittedNetwork.from_estimator(model, "an ONNX file")
    rnn = _layers(model)
    if not all(isinstance(layer, UnICORNN) for layer in _every_layer(model)):
        what = type(model).__name__ + (f" of {type(rnn).__name__}" if isinstance(model, Network) else "")
        raise BadType(
            f"model: expected a UnICORNN, a network of unicornn.models with one, or a fitted estimator, got {what}"
        )
    if rnn.w[0].dtype not in (torch.float32, torch.float64):
        raise BadType(f"model: expected float32 or float64 parameters (use model.float()), got {rnn.w[0].dtype}")
    if kind == "step" and rnn.bidirectional:
        raise BadValue("kind: expected 'sequence' for both directions, one of which starts at the end, got 'step'")
    if isinstance(model, Network):
        model.check(kind, "kind")
    if kind == "step" and isinstance(model, TextClassifier) and model.patch > 1:
        raise BadValue(f"kind: expected 'sequence' for text in patches of {model.patch} words, got 'step'")
    model = copy.deepcopy(model).eval().requires_grad_(False).cpu()
    _layers(model).batch_first = False
    if kind == "step" and isinstance(model, Network):
        model.patch = 1  # the input of a step is a whole patch
    return model


def write(model: Any, path: Path, kind: str) -> None:
    """Writes the file of a layer, a network or an estimator with a single network, and compares it with the model."""
    model = _prepared(model, kind)
    traced = KINDS[kind](model)
    with _quiet_exporter(), torch.no_grad():
        program = torch.onnx.export(
            traced, traced.example(_noise(model, EXAMPLE_STEPS * _hop(model), b=3)), dynamo=True, verbose=False,
            input_names=traced.inputs, output_names=traced.outputs, dynamic_shapes=traced.shapes,
        )  # fmt: skip
    assert program is not None
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    RemoveUnusedNodesPass()(program.model)  # onnxruntime warns about unused nodes
    for name, values in getattr(model, "names", {}).items():
        program.model.metadata_props[f"unicornn.{name}"] = json.dumps(values)
    program.save(str(path), external_data=False)
    _compare(path, model, traced)


def _noise(model: Any, N: int, b: int) -> Tensor:
    """Random input (N, b, d), or words (N, b)."""
    generator, rnn = torch.Generator().manual_seed(0), _layers(model)
    if isinstance(model, TextClassifier):
        return torch.randint(model.embedding.num_embeddings, (N, b), generator=generator)
    d, dtype = _every_layer(model)[0].input_size // getattr(model, "patch", 1), rnn.w[0].dtype
    u = torch.randn(N, b, d, generator=generator, dtype=dtype)
    return (model.input_mean + model.input_deviation * u).to(dtype) if isinstance(model, FittedNetwork) else u


def _compare(path: Path, model: Any, traced: _Sequence) -> None:
    """Raises an error if the file's output in onnxruntime differs from the model's."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    u, wanted, rounding = _reproducible(model, traced)
    error, tolerance = _difference(traced.run(session, u), wanted), max(TOLERANCE, 10 * rounding)
    if not error <= tolerance:
        raise ExportFailed(
            f"path: expected a file that agrees with the model to {tolerance:.2g} over {len(u)} steps, got {error:.2g}"
        )


@torch.no_grad()
def _reproducible(model: Any, traced: _Sequence) -> tuple[Tensor, Tensor, float]:
    """Input of up to 2,000 steps, the model's output, and what rounding does to it: its distance to the output of the
    model in float64, and the effect of changing V by one rounding error, whichever is larger."""
    exact, perturbed, generator = copy.deepcopy(model).double(), copy.deepcopy(model), torch.Generator().manual_seed(0)
    for V in (V for layer in _every_layer(perturbed) for V in layer.V):
        V.mul_(1 + torch.finfo(V.dtype).eps * torch.randn(V.shape, generator=generator).sign())
    segments = model.readout.segments * model.patch if isinstance(model, Network) else 1
    fewest = max(FEWEST_STEPS, 2 * segments)  # half as many in the shortest sequence
    N = 2 * max(STEPS, fewest)
    while True:
        N = max(N // 2, fewest)
        u = _noise(model, N, b=2)
        wanted = traced.expected(model, u)
        rounding = max(
            _difference(traced.expected(perturbed, u), wanted),
            _difference(traced.expected(exact, u.double() if u.is_floating_point() else u), wanted),
        )
        if fewest >= N or rounding <= MOST_ROUNDING:
            break
    if N < STEPS:
        logging.getLogger("unicornn").warning(
            "unicornn: the file was compared with the model over %d steps of noise: over more steps, rounding alone "
            "changes the model's output by more than %g", N, MOST_ROUNDING,
        )  # fmt: skip
    return u, wanted, rounding


def _difference(got: Tensor, wanted: Tensor) -> float:
    """Largest difference relative to the largest wanted value, or to 1."""
    return float((got - wanted).abs().max()) / max(1.0, float(wanted.abs().max()))


@contextlib.contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Silences the exporter's messages about missing packages and the names of axes."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            log.setLevel(level)
