"""Calls of the public library with one argument replaced by an invalid or arbitrary value: errors name it."""

import random
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from unicornn import State, UnICORNN, UnICORNNCell, functional, models, readouts, suggest_dt, theory
from unicornn.baselines import MODELS
from unicornn.errors import UnicornnError
from unicornn.estimators import OscillatorBank, UnICORNNClassifier, UnICORNNRegressor
from unicornn.functional import Weights
from unicornn.lab._networks import constructor_settings, model_class
from unicornn.streams import Stream

N, b, d, m, L = 5, 2, 3, 4, 3
u = torch.linspace(-1, 1, N * b * d).view(N, b, d)
y = torch.linspace(-1, 1, L * b * m).view(L, b, m)
layer, cell = UnICORNN(d, m, L), UnICORNNCell(d, m)
FINAL = layer(u)[1].detach()
WEIGHTS = Weights(*[[t.detach() for t in letter] for letter in layer.weights[:4]])
NETWORK = models.Classifier(UnICORNN(d, m), 2)
TEXT = models.TextClassifier(UnICORNN(d, m), 2, vectors=torch.randn(9, d))
SERIES, CLASSES = np.linspace(-1, 1, 8 * N).reshape(8, N), np.array([0, 1] * 4)

VALUES: list[Any] = [
    None, True, -1, 0, 2, 10**400, 2**31, 2.5, float("nan"), float("inf"), 1j, "", "x", b"all", (), {}, object(), print,
    int, [1.0], [None], np.float64(0.5), np.ones(3), np.array("x"), np.array([None]), {"a": None}, [[]], "a\0b",
    torch.tensor(0.5), torch.tensor([0, 9]), torch.zeros(0), torch.zeros(0, b, d), u, u[0], u.double(), u.long(),
    u.to("meta"), u.to(torch.complex64), u.to_sparse(), u[..., :2], u[None], (y, y), (y,), (y, None), (y, y.double()),
    y, State(y, y), State(y), State(y, y, grid=torch.zeros(1)), FINAL, torch.float32, torch.int64, torch.device("cpu"),
    "meta", "cuda:99", "mean", "stored", "triton", WEIGHTS, WEIGHTS._replace(w=[]), WEIGHTS._replace(b=None),
    WEIGHTS._replace(V=[torch.zeros(m)] * L), WEIGHTS.map(torch.Tensor.long), layer, NETWORK, nn.LSTM(d, m),
    MODELS["gru"], MODELS["gru"](d, m), pack_padded_sequence(u, torch.tensor([N, 2])),
    PackedSequence(u[:, 0], torch.tensor([1, 2])),
]  # fmt: skip


@dataclass
class Target:
    """A function to call, with its name in reports and valid arguments."""

    name: str
    call: Any
    arguments: dict[str, Any]


def targets() -> list[Target]:
    sizes, flags = {"input_size": d, "hidden_size": m}, {"learn_dt": True, "bidirectional": False}
    common = {"dropout": 0.0, "batch_first": False, "device": None, "dtype": None}
    own = {"dt": 0.1, "alpha": 1.0, "gradient": "reversible", "backend": "auto"}
    run = {"state": (y, y), "lengths": [5, 2], "output": "all"}
    sequence = {"layer": layer, "input": u, "state": None}
    stack = {"num_layers": 2, "skip_layers": 0, "init": "paper", "horizon": None} | flags | common
    stream, text = Stream(layer, window=4, hop=2), {"rnn": layer, "outputs": 2, "vectors": torch.randn(9, d)}
    with_weights = {"weights": WEIGHTS, "mask": None, "horizon": None} | own
    found = [
        Target("UnICORNN", UnICORNN, sizes | stack | own),
        Target("layer", layer, {"input": u} | run),
        Target("bidirectional", UnICORNN(d, m, 1, bidirectional=True), {"input": u} | run | {"state": (y[:2], y[:2])}),
        Target("gru layer", MODELS["gru"](d, m), {"input": u, "state": (y[:1],), "lengths": [5, 2], "output": "all"}),
        Target("layer.step", layer.step, {"input_n": u[0], "state": (y, y)}),
        Target("layer.inverse", layer.inverse, {"input": u, "state": (y, y), "lengths": None}),
        Target("UnICORNNCell", UnICORNNCell, sizes | own | {"learn_dt": True, "device": None, "dtype": None}),
        Target("cell", cell, {"input": u[0], "state": (y[0], y[0])}),
        Target("functional.unicornn", functional.unicornn, {"input": u} | run | with_weights),
        Target("functional.step", functional.step, {"input": u[0], "state": None} | with_weights),
        Target("functional.time_steps", functional.time_steps, {"c": list(WEIGHTS.c), "dt": 0.1, "dtype": None}),
        Target("State.to", FINAL.to, {"device": "cpu"}),
        Target("network", NETWORK, {"u": u, "lengths": None, "bptt": 0}),
        Target("text", TEXT, {"u": torch.zeros(N, b).long(), "lengths": None, "bptt": 0}),
        Target("patched", models.patched, {"u": u, "lengths": None, "k": 2}),
        Target("TextClassifier", models.TextClassifier, text | {"embedding_dropout": 0.0}),
        Target("suggest_dt", suggest_dt, {"length": 9, "alpha": 1.0, "growth": 2.0, "input": None}),
        Target("theory.bounds", theory.bounds, {"layer": layer, "N": 5, "target": 0.0}),
        Target("theory.contributions", theory.contributions, sequence | {"target": 0.0, "method": "exact"}),
        Target("log_energies", readouts.log_energies, {"rnn": layer, "state": FINAL}),
        Target("stream.push", stream.push, {"samples": {"a": u[0, 0]}, "return_all": False}),
        Target("stream.predict_one", stream.predict_one, {"key": "a", "x": u[0, 0]}),
    ]
    module = {"module": nn.LSTM(d, m), "input": torch.randn(400, 1, d)}
    found.append(Target("theory.gradient_profile", theory.gradient_profile, module | {"chunk": 20}))
    found.append(Target("theory.lyapunov_exponent", theory.lyapunov_exponent, dict(module)))
    for name in ("orbits", "hamiltonian", "jacobian", "reconstruction_error", "gradient_growth"):
        found.append(Target(f"theory.{name}", getattr(theory, name), dict(sequence)))
    for name, model in MODELS.items():
        if name != "sign-ncde":
            outside = ("hidden_size", "num_layers", "dropout")
            settings = {k: v for k, v in constructor_settings(model_class(name)).items() if k not in outside}
            found.append(Target(name, model, sizes | {"num_layers": 1} | common | settings))
    settings = {"readout": "last", "window": 4, "hop": 2, "capacity": 5, "on_full": "evict", "ttl": 1.0}
    found.append(Target("Stream", Stream, {"model": layer} | settings))
    found.append(Target("Stream of a network", Stream, {"model": NETWORK}))
    patches = models.Classifier(UnICORNN(2 * d, m), 2, patch=2)
    found.append(Target("Stream of patches", Stream, {"model": patches, "window": 8}))
    options = {"rnn": layer, "outputs": 2, "patch": 1, "readout": "last", "readout_init": "zero", "head_size": 0}
    found += [Target(k.__name__, k, dict(options)) for k in (models.Classifier, models.SequenceToSequence)]
    energy = {"segments": 1, "from_rest": False, "pool": "mean", "mirrored": False, "norm": "batch"}
    return [*found, Target("Energy", readouts.Energy, energy), *estimators()]


def estimators() -> list[Target]:
    """``fit`` with one of the settings or arguments replaced."""
    fitted = UnICORNNClassifier(random_state=0).fit(SERIES, CLASSES)
    small = {"model": "network", "hidden_size": 2, "num_layers": 1, "max_epochs": 1, "patience": 1, "dt": 0.1}
    both = {"X": SERIES, "y": CLASSES, "sample_weight": None, "validation_data": None, "groups": None}

    def fit(kind: Any, *arguments: str) -> Any:
        def call(**given: Any) -> Any:
            of_fit = {name: given.pop(name) for name in arguments}
            return kind(**given).fit(**of_fit)

        return call

    found = [
        Target("OscillatorBank", fit(OscillatorBank, "X"), OscillatorBank().get_params() | {"X": SERIES}),
        Target("bank.transform", fitted._bank.transform, {"X": SERIES}),
        Target("predict_proba", fitted.predict_proba, {"X": SERIES}),
    ]
    for kind in (UnICORNNClassifier, UnICORNNRegressor):
        found.append(Target(kind.__name__, fit(kind, *both), kind().get_params() | small | both))
    return found


def problem(target: Target, name: str, value: Any, valid: bool = True) -> str | None:
    """What is wrong with the error of a call, or with its absence unless the value may be ``valid``."""
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.call(**target.arguments | {name: value})
    except UnicornnError as error:
        words = {word.split("[")[0].split(".")[0] for word in str(error).split(":")[0].replace(",", " ").split()}
        named = {name, {"u": "input", "x": "samples"}.get(name)} | (
            set(Weights._fields) if name == "weights" else set()
        )
        if valid and isinstance(value, (torch.Tensor, Weights, nn.Module, PackedSequence, type(None))):
            named |= {*target.arguments, "input"}  # possibly valid, but not with the other arguments
        return None if named & words else f"does not name the argument: {str(error)[:80]}"
    except ImportError as error:
        return None if str(error).startswith("backend:") else repr(error)
    except Exception as error:
        return repr(error)[:120]
    return None if valid else "accepted"


def problems(count: int, seed: int) -> list[str]:
    make, found = random.Random(seed), set()
    every = [
        target for target in targets() if "module" not in target.arguments
    ]  # foreign modules have their own errors
    for _ in range(count):
        target, value = make.choice(every), make.choice(VALUES)
        name = make.choice(list(target.arguments))
        if wrong := problem(target, name, value):
            found.add(f"{target.name}({name}={type(value).__name__} {str(value)[:40]!r}): {wrong}")
    return sorted(found)


NAN, INF = float("nan"), float("inf")
PACKED = pack_padded_sequence(u, torch.tensor([N, 2]))
WRONG_ORDER = PackedSequence(PACKED.data, PACKED.batch_sizes, torch.tensor([0, 0]), torch.tensor([0, 0]))
CALL = {
    "input": [u[..., :2], u[:0], u.double(), u.to("meta"), PACKED._replace(data=PACKED.data[:, :2]), WRONG_ORDER],
    "lengths": [[6], [5, 6], [0, 5]], "output": ["first", torch.tensor([5]), torch.zeros(2, 3, dtype=torch.long)],
}  # fmt: skip
LAYERS = [nn.LSTM(d, m), UnICORNN(d, m, bidirectional=True)]
STATES = [State(*FINAL, **{"grid": FINAL.grid, "rest": FINAL.rest} | other) for other in (
    {"grid": FINAL.grid.int()}, {"grid": FINAL.grid[:, :1]}, {"rest": torch.zeros(2, L, 1, m)},
)]  # fmt: skip
READOUTS = [
    "energies", "", 3, None, "last+", "last-mean", "energy(3)", "energy(pieces=3)", "__import__('os')",
    "energy(segments=__import__('os'))",
]  # fmt: skip
REJECTED: dict[str, dict[str, list[Any]]] = {
    "UnICORNN": {
        "input_size": [0], "hidden_size": [-3, True], "num_layers": [0], "alpha": [-1, NAN], "dropout": [1.0],
        "dt": [0.0, -0.1, NAN, INF, (0.1,), "0.1"], "horizon": [0, -1.0, NAN, INF, [1.0], "long"], "init": ["wide"],
        "skip_layers": [1], "gradient": ["inverse"], "backend": ["cuda"],
    },
    "layer": CALL | {"state": [y, (y[:1], y), (y, y.double()), *STATES]},
    "bidirectional": CALL | {"state": [y, (y[:1], y[:2]), (y[:2], y[:2].double())]},
    "gru layer": {"input": [u[..., :2]], "output": ["first"], "lengths": [[5, 6]], "state": [(y, y), (y[:1, :1],)]},
    "layer.step": {"input_n": [u, u[0, :, :2]], "state": [y]},
    "cell": {"input": [u], "state": [(y[0], y), 3]},
    "functional.unicornn": {
        "weights": [WEIGHTS._replace(V=WEIGHTS.V[:1]), WEIGHTS._replace(V=[WEIGHTS.V[0]] * L), tuple(WEIGHTS),
                    WEIGHTS._replace(Lambda=[None, torch.rand(m, d), torch.rand(m, d)])],
        "mask": [torch.ones(2, 2)],
    },
    "functional.step": {"input": [u]},
    "text": {"u": [torch.tensor([[3, 9]]), torch.tensor([[-1]]), torch.tensor([3]), torch.zeros(3, 2)]},
    "TextClassifier": {"vectors": [torch.randn(9, d + 1), torch.randn(d), torch.randint(9, (9, d)), [[0.0] * d]]},
    "theory.contributions": {"target": [torch.zeros(2), "0"], "method": ["all"]},
    "suggest_dt": {"length": [0], "growth": [0.0], "input": [torch.zeros(10)]},
    "theory.gradient_profile": {"input": [u[0]], "module": [nn.Linear(d, m)], "chunk": [0]},
    "theory.lyapunov_exponent": {"input": [u[0], u], "module": [nn.Linear(d, m)]},
    **{f"theory.{name}": {"layer": LAYERS} for name in ("orbits", "gradient_growth", "reconstruction_error")},
    "Classifier": {"head_size": [-1, 2.0], "readout_init": ["ones"], "readout": READOUTS},
    "SequenceToSequence": {"readout": ["mean", "energy", "state"]},
    "Energy": {"segments": [0], "pool": ["max"]},
    "lstm": {"input_size": [0], "hidden_size": [0], "num_layers": [0], "dropout": [1.0]},
    "lem": {"dt": [1.5]}, "lipschitz": {"beta": [0.4]}, "exprnn": {"init": ["haar"]},
    "indrnn": {"connection": ["skip"]}, "lru": {"r_min": [1.0], "r_max": [1.1], "state_size": [2**31]},
    "linoss": {"discretisation": ["explicit"]},
    "Stream": {"model": LAYERS, "readout": ["nothing"]},
    "Stream of a network": {
        "model": [models.Classifier(MODELS["lstm"](d, m), 2)]
        + [models.Classifier(UnICORNN(d, m), 2, readout=f"energy({each})") for each in ("segments=2", "mirrored=True")],
        "readout": ["energy"], "hop": [3], "window": [0], "capacity": [0], "on_full": ["wait"], "ttl": [-1.0],
    },
    "Stream of patches": {"window": [9], "hop": [3]},
    "UnICORNNClassifier": {
        "model": ["tree"], "scale": ["none"], "dt": ["small"], "validation_fraction": [1.5], "budget": [0],
        "max_epochs": [0], "n_jobs": [1.5], "class_weight": ["equal", {0: NAN, 1: 1}], "y": [["a"] * 8, CLASSES[:3]],
        "sample_weight": [np.full(8, NAN)], "groups": [[None] * 4 + [1] * 4, [1, 2]],
        "validation_data": [SERIES, (SERIES[:2], [0, 7])],
    },
    "OscillatorBank": {
        "n_oscillators": [0], "quantiles": [(0.5, 2)], "layout": ["time_first"], "missing": ["drop"],
        "X": [[np.zeros((3, 2)), np.zeros((3, 1))], [np.zeros((3, 2)), np.zeros((0, 2))], np.zeros((2, 3, 4, 5)),
              np.zeros((2, 0, 4)), [], np.zeros(5), pd.DataFrame({"a": [[1, 2], [3]], "b": [[1, 2], [3, 4]]})],
    },
}  # fmt: skip


def test_invalid_arguments_are_rejected():
    called = {target.name: target for target in targets()}
    for name, arguments in REJECTED.items():
        for argument, values in arguments.items():
            for value in values:
                wrong = problem(called[name], argument, value, valid=False)
                assert wrong is None, f"{name}({argument}={value}): {wrong}"


def test_a_few_hundred_invalid_calls():
    torch.use_deterministic_algorithms(False)  # filling memory with NaN takes time
    assert not problems(400, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_ten_thousand_invalid_calls(seed):
    torch.use_deterministic_algorithms(False)
    assert not problems(2000, seed)


@pytest.mark.filterwarnings("ignore")
def test_the_unchanged_calls_are_valid():
    for target in targets():
        target.call(**target.arguments)
