"""Calls of the public library with one argument replaced by an arbitrary value."""

from __future__ import annotations

import contextlib
import random
import warnings
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn

from unicornn import State, UnICORNN, UnICORNNCell, export, functional, load_model, models, suggest_dt, theory
from unicornn.baselines import MODELS
from unicornn.errors import UnicornnError
from unicornn.estimators import OscillatorBank, UnICORNNClassifier, UnICORNNRegressor
from unicornn.functional import Weights
from unicornn.lab._networks import constructor_settings, model_class

N, b, d, m, L = 5, 2, 3, 4, 3
u = torch.linspace(-1, 1, N * b * d).view(N, b, d)
y = torch.linspace(-1, 1, L * b * m).view(L, b, m)
layer, cell = UnICORNN(d, m, L), UnICORNNCell(d, m)
FINAL = layer(u)[1].detach()
WEIGHTS = Weights(*[[t.detach() for t in letter] for letter in layer.weights[:4]])
NETWORK = models.Classifier(UnICORNN(d, m), 2)
ORBIT = theory.orbits(layer, u)[0]
SERIES, CLASSES = np.linspace(-1, 1, 8 * N).reshape(8, N), np.array([0, 1] * 4)
FITTED = UnICORNNClassifier(random_state=0).fit(SERIES, CLASSES)

VALUES: list[Any] = [
    None, True, False, -1, 0, 1, 2, 3, 10**400, 2.5, 0.5, -0.5, float("nan"), float("inf"), -float("inf"), 1j,
    Fraction(1, 2), "", "all", "last", "x", "cpu", "1", b"all", [], (), {}, set(), object(), print, int, Ellipsis,
    [1.0], [1, 2], (0.1, 0.2, 0.3), ["a"], [None], [None, None], np.float64(0.5), np.int64(3), np.ones(3),
    np.array("x"), torch.tensor(0.5), torch.tensor([2, 3]), torch.tensor([0, 9]), torch.tensor([5, 6]),
    torch.zeros(0), torch.zeros(0, b, d), torch.zeros(N, 0, d), torch.zeros(N, b, 0), torch.zeros(0, d),
    torch.zeros(d), u, u[0], u[:, 0], u.double(), u.long(), u.bool(), u.to("meta"), u.to(torch.complex64), u.half(),
    u[..., :2], u.to_sparse(), u[None], (y, y), (y,), (y, y, y), (y, None), (y, y.double()), (y[:1], y[:1]), [y, y],
    y, State(y, y), State(y), State(), State(y, y, grid=torch.zeros(1, dtype=torch.uint8)), State(y, y,
    mask=torch.ones(1)), FINAL, FINAL.y, torch.float32, torch.float64, torch.int64, torch.complex64, torch.float16,
    torch.device("cpu"), "meta", "cuda:99", "paper", "spread", "mean", "energy", "reversible", "stored", "reference",
    "triton", "lstm", WEIGHTS, tuple(WEIGHTS), WEIGHTS._replace(w=[]), WEIGHTS._replace(V=WEIGHTS.V[:1]),
    WEIGHTS._replace(b=None), WEIGHTS._replace(c=[None] * L), WEIGHTS._replace(Lambda=[]), WEIGHTS._replace(Lambda=3),
    WEIGHTS._replace(Lambda=[None, torch.zeros(m, d), None]), WEIGHTS._replace(w=[torch.zeros(m, m)] * L),
    WEIGHTS._replace(V=[torch.zeros(m)] * L), WEIGHTS.map(torch.Tensor.double), WEIGHTS.map(torch.Tensor.long), layer,
    UnICORNN(d, m, bidirectional=True), cell, NETWORK, nn.LSTM(d, m), nn.Linear(d, m), MODELS["gru"], MODELS["gru"](d,
    m), ORBIT,
]  # fmt: skip


ALSO = {"u": "input"}
"""Another name of an argument in errors."""


@dataclass
class Target:
    """A function to call, with its name in reports and valid arguments."""

    name: str
    call: Any
    arguments: dict[str, Any]


def targets() -> list[Target]:
    common = {"dropout": 0.0, "batch_first": False, "device": None, "dtype": None}
    sizes = {"input_size": d, "hidden_size": m}
    flags = {"learn_dt": True, "bidirectional": False}
    own = {"dt": 0.1, "alpha": 1.0, "gradient": "reversible", "backend": "auto"}
    run = {"state": (y, y), "lengths": [5, 2], "output": "all"}
    fading = {"horizon": None}
    sequence = {"layer": layer, "input": u, "state": None}
    found = [
        Target(
            "UnICORNN",
            UnICORNN,
            sizes | {"num_layers": 2, "skip_layers": 0, "init": "paper"} | flags | own | common | fading,
        ),
        Target("layer", layer, {"input": u} | run),
        Target("layer.step", layer.step, {"input_n": u[0], "state": (y, y)}),
        Target("layer.inverse", layer.inverse, {"input": u, "state": (y, y), "lengths": None}),
        Target("UnICORNNCell", UnICORNNCell, sizes | own | {"learn_dt": True, "device": None, "dtype": None}),
        Target("cell", cell, {"input": u[0], "state": (y[0], y[0])}),
        Target(
            "functional.unicornn",
            functional.unicornn,
            {"input": u, "weights": WEIGHTS, "mask": None} | run | own | fading,
        ),
        Target(
            "functional.step",
            functional.step,
            {"input": u[0], "weights": WEIGHTS, "state": None, "mask": None} | own | fading,
        ),
        Target(
            "functional.inverse",
            functional.inverse,
            {"input": u, "weights": WEIGHTS, "state": (y, y), "dt": 0.1, "alpha": 1.0, "lengths": None, "mask": None},
        ),
        Target("functional.time_steps", functional.time_steps, {"c": list(WEIGHTS.c), "dt": 0.1}),
        Target("functional.pick_backend", functional.pick_backend, {"backend": "auto", "device": torch.device("cpu")}),
        Target("State.to", FINAL.to, {"device": "cpu"}),
        Target("Network", models.Network, {"rnn": layer, "outputs": 2, "patch": 1, "readout": "last"}),
        Target("network", NETWORK, {"u": u, "lengths": None, "bptt": 0}),
        Target("patched", models.patched, {"u": u, "lengths": None, "k": 2}),
        Target(
            "TextClassifier",
            models.TextClassifier,
            {"rnn": layer, "outputs": 2, "vectors": torch.randn(9, d), "embedding_dropout": 0.0},
        ),
        Target("standardise", models.Regressor(UnICORNN(d, m), 1).standardise, {"targets": torch.linspace(0, 1, 9)}),
        Target("suggest_dt", suggest_dt, {"length": 9, "alpha": 1.0, "growth": 2.0, "input": None}),
        Target("theory.gradient_growth", theory.gradient_growth, dict(sequence)),
        Target("count", models.count, {"network": NETWORK}),
        Target("theory.bounds", theory.bounds, {"layer": layer, "N": 5, "target": 0.0}),
        Target("theory.gradient_profile", theory.gradient_profile, {"module": layer, "input": u, "chunk": 3}),
        Target(
            "theory.lyapunov_exponent",
            theory.lyapunov_exponent,
            {"module": layer, "input": u.repeat(20, 1, 1), "size": 1e-7, "period": 2},
        ),
    ]
    for name in ("orbits", "hamiltonian", "jacobian", "reconstruction_error"):
        found.append(Target(f"theory.{name}", getattr(theory, name), dict(sequence)))
    for method in ("exact", "path", "formula"):
        arguments = sequence | {"target": 0.0, "method": method}
        found.append(Target(f"theory.contributions, {method}", theory.contributions, arguments))
    for name, model in MODELS.items():
        if name == "sign-ncde":
            continue
        found.append(Target(name, model, sizes | {"num_layers": 1} | common | defaults(name)))
        baseline = model(d, m, L)
        state = tuple(torch.zeros(L, b, width) for width in baseline.state_widths)
        found.append(Target(f"{name}()", baseline, {"input": u} | run | {"state": state}))
    found.append(Target("export.onnx", exported, {"model": NETWORK, "kind": "sequence"}))
    return found + estimators()


def estimators() -> list[Target]:
    """The scikit-learn estimators: fit with one of the settings or arguments replaced."""

    def fit(kind: Any, arguments: dict[str, Any]) -> Any:
        def call(**given: Any) -> None:
            of_fit = {name: given.pop(name) for name in arguments}
            kind(**given).fit(**of_fit)

        return call

    def partial(kind: Any) -> Any:
        return lambda **given: kind(hidden_size=2, dt=0.1, random_state=0).partial_fit(**given)

    small = {"model": "network", "hidden_size": 2, "num_layers": 1, "max_epochs": 1, "patience": 1, "dt": 0.1}
    both = {"X": SERIES, "y": CLASSES, "sample_weight": None}
    more = both | {"validation_data": None, "groups": None}
    found = [
        Target("OscillatorBank", fit(OscillatorBank, {"X": SERIES}), OscillatorBank().get_params() | {"X": SERIES}),
        Target("bank.transform", FITTED._bank.transform, {"X": SERIES}),
        Target("load_model", lambda source: load_model(source), {"source": frozen()}),
    ]
    for kind in (UnICORNNClassifier, UnICORNNRegressor):
        found.append(Target(kind.__name__, fit(kind, more), kind().get_params() | small | more))
        found.append(Target(f"{kind.__name__}.partial_fit", partial(kind), both))
    for name in ("predict", "predict_proba", "decision_function", "transform"):
        found.append(Target(f"{name}", getattr(FITTED, name), {"X": SERIES}))
    return found


def frozen() -> str:
    return str(Path(__file__).parent / "estimators/frozen")


def exported(model: Any, kind: Any) -> None:
    """Exports up to the point where the file would be made, which takes seconds."""
    with contextlib.suppress(ExportStarted):
        export.onnx(model, "never.onnx", kind)


class ExportStarted(Exception):
    """The export itself is tested elsewhere."""


def _started(*_: Any, **__: Any) -> None:
    raise ExportStarted


def defaults(name: str) -> dict[str, Any]:
    """The hyperparameters of a baseline."""
    outside = ("hidden_size", "num_layers", "dropout")
    return {k: v for k, v in constructor_settings(model_class(name)).items() if k not in outside}


def describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"tensor{tuple(value.shape)} {value.dtype} {value.device} {value.layout}"
    if isinstance(value, State):
        return f"State of {len(value)}"
    if isinstance(value, nn.Module):
        return type(value).__name__
    if isinstance(value, (tuple, list)) and any(isinstance(t, torch.Tensor) for t in value):
        return f"{type(value).__name__} of {[describe(t) for t in value]}"
    return ("1" + "0" * 9 + "…") if type(value) is int and value > 10**100 else f"{type(value).__name__} {value!r:.40}"


def attempt(target: Target, name: str, value: Any) -> str:
    """The outcome of a call: "named" (an error that names the argument), "accepted", or a description."""
    torch.manual_seed(0)
    with mock.patch.object(torch.onnx, "export", _started), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            target.call(**target.arguments | {name: value})
        except UnicornnError as error:
            said = str(error).split(":")[0]
            words = {word.split("[")[0].split(".")[0] for word in said.replace(",", " ").split()}
            if {name, ALSO.get(name)} & words or (name == "weights" and words & {"w", "V", "b", "c", "Lambda"}):
                return "named"
            if isinstance(value, (torch.Tensor, Weights, nn.Module)) and words & {*target.arguments, "input"}:
                return "named"  # possibly valid, but not with the other arguments
            return f"names {said[:60]!r}, not the argument"
        except ImportError as error:
            return "named" if str(error).startswith("backend:") else f"{type(error).__name__}: {error}"
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:90]!r}".replace("\n", " ")
    return "accepted"


def draw(count: int, seed: int) -> list[tuple[Target, str, Any]]:
    make, all_targets = random.Random(seed), targets()
    calls = []
    for _ in range(count):
        target = make.choice(all_targets)
        calls.append((target, make.choice(list(target.arguments)), make.choice(VALUES)))
    return calls


OPTIONAL = ("state", "lengths", "mask", "device", "dtype")
"""Arguments that may always be None."""


def is_valid(name: str, usual: Any, value: Any) -> bool:
    """Whether a value may be accepted in place of the usual one: of the same kind, and finite if it is a number."""
    if value is None:
        return usual is None or name in OPTIONAL
    if isinstance(usual, np.ndarray) or name in ("X", "sample_weight", "validation_data", "groups"):
        if isinstance(value, (Fraction, int, float, np.number)):
            return name == "sample_weight"  # one for all series
        return isinstance(value, (np.ndarray, torch.Tensor, list, tuple))
    if isinstance(value, np.number):
        value = value.item()  # estimators accept them, since searches draw them
    if name in ("random_state", "verbose"):
        return isinstance(value, int)
    if name in ("class_weight", "quantiles"):
        return isinstance(value, (dict, list, tuple))
    if name == "input" and isinstance(value, torch.Tensor):
        return True
    if name == "device":
        return isinstance(value, (str, torch.device))
    if name == "dtype":
        return isinstance(value, torch.dtype) and value.is_floating_point
    if name == "lengths":
        return isinstance(value, (list, tuple)) or (isinstance(value, torch.Tensor) and value.dtype == torch.int64)
    if name in ("state", "c", "weights"):
        return isinstance(value, (list, tuple))
    if name in ("dt", "target", "mask", "horizon") and isinstance(value, (list, tuple, torch.Tensor)):
        return True  # one per layer, or per sequence and neuron
    if name == "output" and isinstance(value, torch.Tensor):
        return value.dtype == torch.int64
    if isinstance(usual, bool):
        return isinstance(value, bool)
    if isinstance(usual, (int, float)) or usual is None:
        integral = isinstance(usual, int) and name not in ("alpha", "dt", "S")
        real = isinstance(value, int) or (isinstance(value, float) and not integral)
        return real and not isinstance(value, bool) and abs(value) < 10**300
    if isinstance(usual, str) and name == "readout":
        return isinstance(value, str)
    for kind in (str, torch.Tensor, nn.Module, theory.Orbit, dict):
        if isinstance(usual, kind):
            return isinstance(value, kind)
    return False
