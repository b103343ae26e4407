"""Functions and commands to call, with valid arguments, and arbitrary values."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import warnings
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from unicornn import State, UnICORNN, UnICORNNCell, export, functional, load_model, models, readouts, suggest_dt, theory
from unicornn.baselines import MODELS
from unicornn.errors import UnicornnError
from unicornn.estimators import OscillatorBank, UnICORNNClassifier, UnICORNNRegressor
from unicornn.functional import Weights
from unicornn.lab import bench as benchmark
from unicornn.lab import cli, search, training
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
PACKED = pack_padded_sequence(u, torch.tensor([N, 2]))
ORBIT = theory.orbits(layer, u)[0]
SERIES, CLASSES = np.linspace(-1, 1, 8 * N).reshape(8, N), np.array([0, 1] * 4)
FITTED = UnICORNNClassifier(random_state=0).fit(SERIES, CLASSES)


def unusual_tensors() -> list[torch.Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are deprecated, or prototypes
        quantised = torch.quantize_per_tensor(u, 0.1, 0, torch.qint8)
        return [quantised, torch.nested.nested_tensor([u[:, 0], u[:2, 0]])]


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
    m), ORBIT, 2**31, 2**40, u.bfloat16(), *unusual_tensors(), torch.zeros(N, b).long(),
    PACKED, PackedSequence(u[:0, 0], torch.zeros(0).long()),
    PackedSequence(u[:, 0], torch.tensor([1, 2])), np.array([None]), np.array(["a"] * d), {"a": [0.0] * d}, {"a": None},
    {(): u}, [[0.0] * d, [0.0]], [[]], "energy(segments=2)", "last(norm=start)", "a" * 300, "a\0b", "/dev/null/a",
]  # fmt: skip

TEXTS = [
    "", " ", "-", "--", "0", "1", "-1", "2147483648", "1e400", "nan", "inf", "1.5", "x", "y", "id", "a=b", "=",
    "lr=", "lr=x", "dt=nan", "readout=energy(", "readout=state", "hidden_size=2147483648", "head_size=-1", "a\0b",
    "\udcff", "ä\n", "[red]", "<b>", "a" * 300, ".", "/dev/null", "/dev/null/a", "/nowhere/a", "lstm",
    "bank", "network", "unicornn", "test", "step", "sequence", "digits-noise", "1h", "%s", "{}", "'", '"', "$HOME",
    "--help", "None", "True", "99999999999999999999",
]  # fmt: skip
"""Arguments of a command."""


@dataclass
class Target:
    """A function to call, with its name in reports and valid arguments."""

    name: str
    call: Any
    arguments: dict[str, Any]
    values: list[Any] = field(default_factory=lambda: VALUES)
    valid: bool = True
    """Whether the arguments are valid without a change."""


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
        Target("functional.time_steps", functional.time_steps, {"c": list(WEIGHTS.c), "dt": 0.1, "dtype": None}),
        Target("functional.pick_backend", functional.pick_backend, {"backend": "auto", "device": torch.device("cpu")}),
        Target("State.to", FINAL.to, {"device": "cpu"}),
        Target("network", NETWORK, {"u": u, "lengths": None, "bptt": 0}),
        Target("text", TEXT, {"u": torch.zeros(N, b).long(), "lengths": None, "bptt": 0}),
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
        Target(
            "theory.gradient_profile",
            theory.gradient_profile,
            {"module": layer, "input": u, "loss": torch.sum, "chunk": 3},
        ),
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
    found.append(Target("export.onnx", exported, {"model": NETWORK, "kind": "sequence", "path": "never.onnx"}))
    return found + networks() + streams() + estimators() + commands()


def networks() -> list[Target]:
    """Constructors of networks and readouts."""
    options = {"outputs": 2, "patch": 1, "readout": "last", "readout_init": "zero", "head_size": 0}
    kinds = (models.Network, models.Classifier, models.Regressor, models.SequenceToSequence)
    found = [Target(kind.__name__, kind, {"rnn": layer} | options) for kind in kinds]
    energy = {"segments": 1, "from_rest": False, "pool": "mean", "mirrored": False, "norm": "batch"}
    found.append(Target("Energy", readouts.Energy, energy))
    found += [Target(kind.__name__, kind, {"norm": "batch"}) for kind in (readouts.Last, readouts.FinalState)]
    found.append(Target("readouts.parse", readouts.parse, {"readout": "last"}))
    found.append(Target("log_energies", readouts.log_energies, {"rnn": layer, "state": FINAL}))
    return found


def streams() -> list[Target]:
    """Streams: their settings, samples, keys and files."""
    live = Stream(UnICORNN(d, m), window=4, hop=2)
    whole, text = Stream(FITTED, window=4), Stream(TEXT)
    model, folder = UnICORNN(d, m), Path(tempfile.mkdtemp(prefix="fuzz-"))
    path = Stream(model).save(folder / "stream.safetensors")

    def push(stream: Stream) -> Any:
        return lambda x, return_all: stream.push({"a": x}, return_all)

    def drop(key: Any) -> None:
        stream = Stream(model)
        stream.push({0: u[0, 0]})
        stream.drop(key)

    def corrected(method: str) -> Any:
        def call(**arguments: Any) -> None:
            stream = Stream(model, history=9)
            stream.push({0: u[:, 0]})
            getattr(stream, method)(**arguments)

        return call

    def save(path: Any) -> None:
        if not isinstance(path, str) or "/" in path:
            Stream(model).save(path)

    settings = {"readout": "last", "window": 4, "hop": 2, "capacity": 5, "on_full": "evict", "ttl": 1.0}
    return [
        Target("Stream", Stream, {"model": model} | settings),
        Target("stream.push", live.push, {"samples": {"a": u[0, 0]}, "return_all": False}),
        Target("stream.push, samples", push(live), {"x": u[0, 0], "return_all": False}),
        Target("stream.push, estimator", push(whole), {"x": np.zeros(1), "return_all": False}),
        Target("stream.push, words", push(text), {"x": 3, "return_all": False}),
        Target("stream.predict_one", live.predict_one, {"key": "a", "x": u[0, 0]}),
        Target("stream.drop", drop, {"key": 0}),
        Target("stream.undo", corrected("undo"), {"key": 0, "samples": 2}),
        Target("stream.correct", corrected("correct"), {"key": 0, "at": 2, "samples": u[0, 0]}),
        Target("stream.save", save, {"path": path}),
        Target("Stream.load", Stream.load, {"path": path, "model": model, "capacity": 5, "ttl": 1.0}),
    ]


class Refused(UnicornnError):
    """A command ended with a message."""


def commands() -> list[Target]:
    """The command line, up to the point where training starts."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    file = folder / "wide.csv"
    rows = ["y,0,1,2,3", *(f"{i % 2},{i},{i * i},1,{-i}" for i in range(8))]
    file.write_text("\n".join(rows))
    unlabelled = folder / "series.csv"
    unlabelled.write_text("\n".join(row.split(",", 1)[1] for row in rows))
    network = UnICORNNClassifier("network", hidden_size=2, max_epochs=1, segments=1, dt=0.1, random_state=0)
    network.fit(SERIES[:, :4], CLASSES).save_pretrained(folder / "model")

    def command(*fixed: Any) -> Any:
        def call(**given: str) -> None:
            words = [given.pop(name) for name in list(given) if not name.startswith("--")]
            out = (
                {}
                if "--out" in given or fixed[0] not in ("fit", "show", "report")
                else {"--out": str(folder / fixed[0])}
            )
            options = [f"{name}={value}" for name, value in (given | out).items()]
            run("unicornn", *map(str, fixed), *options, "--", *words)

        return call

    training_options = {"--model": "lstm", "--seed": "0", "--epochs": "1", "--budget": "1s", "--set": "lr=0.1"}
    return [
        Target("unicornn", lambda command: run("unicornn", command), {"command": "tasks"}, TEXTS),
        Target("unicornn fit", command("fit"), {"file": str(file), "--target": "y", "--model": "bank"}, TEXTS),
        Target(
            "unicornn predict", command("predict"), {"model": str(folder / "model"), "file": str(unlabelled)}, TEXTS
        ),
        Target("unicornn train", command("train"), {"name": "digits-noise"} | training_options, TEXTS),
        Target(
            "unicornn search",
            command("search"),
            {"name": "digits-noise", "--trials": "1", "--range": "lr=1,2", "--sampler": "tpe"} | training_options,
            TEXTS,
        ),
        Target("unicornn evaluate", command("evaluate"), {"run": str(folder), "--split": "test"}, TEXTS, valid=False),
        Target("unicornn diagnose", command("diagnose"), {"run": str(folder)}, TEXTS, valid=False),
        Target("unicornn report", command("report"), {"runs": str(folder)}, TEXTS, valid=False),
        Target("unicornn export", command("export"), {"model": str(folder / "model"), "--kind": "step"}, TEXTS),
        Target(
            "unicornn show",
            command("show"),
            {"model": str(folder / "model"), "file": str(unlabelled), "--samples": "2"},
            TEXTS,
        ),
        Target("unicornn bench", command("bench"), {"models": "lstm", "--length": "9", "--seconds": "1"}, TEXTS),
    ]


def run(*arguments: str) -> None:
    """Runs a command in this process; its training, search and measurements are not started."""
    silent = io.StringIO()
    with contextlib.ExitStack() as stack:
        for module, name in ((training, "train"), (search, "search"), (benchmark, "bench")):
            stack.enter_context(mock.patch.object(module, name, not_started))
        stack.enter_context(mock.patch.object(sys, "argv", list(arguments)))
        stack.enter_context(contextlib.redirect_stdout(silent))
        stack.enter_context(contextlib.redirect_stderr(silent))
        stack.enter_context(contextlib.suppress(Started))
        try:
            cli.main()
        except SystemExit as end:
            if end.code:
                raise Refused(silent.getvalue()) from None


def estimators() -> list[Target]:
    """The scikit-learn estimators: fit with one of the settings or arguments replaced."""

    def fit(kind: Any, arguments: dict[str, Any]) -> Any:
        def call(**given: Any) -> None:
            of_fit = {name: given.pop(name) for name in arguments}
            kind(**given).fit(**of_fit)

        return call

    def partial(kind: Any) -> Any:
        return lambda **given: kind("network", hidden_size=2, dt=0.1, random_state=0).partial_fit(**given)

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


def exported(model: Any, kind: Any, path: Any) -> None:
    """Exports up to the point where the file would be made, which takes seconds."""
    with contextlib.suppress(Started):
        export.onnx(model, path, kind)


class Started(Exception):
    """Long work has started, which is tested elsewhere."""


def not_started(*_: Any, **__: Any) -> None:
    raise Started


def defaults(name: str) -> dict[str, Any]:
    """The hyperparameters of a baseline."""
    outside = ("hidden_size", "num_layers", "dropout")
    return {k: v for k, v in constructor_settings(model_class(name)).items() if k not in outside}
