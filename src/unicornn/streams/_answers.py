"""What a stream says of a sequence: the output of a layer, what a network reads off it, what an estimator predicts."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from unicornn import _readouts
from unicornn._fitted import is_estimator
from unicornn._layer import UnICORNN
from unicornn._ops.cpu import launch
from unicornn.errors import BadType, BadValue
from unicornn.models import Classifier, Network, Regressor, TextClassifier

Array = np.ndarray[Any, Any]
_KINDS = "a UnICORNN, a network of unicornn.models with one, or a fitted estimator"


@dataclass
class Answers:
    """A model as a stream sees it.

    rnn: its layers, or None of an estimator that looks at a window as a whole. readouts: what is read off them. d: the
    channels of a sample, or 0 where samples are words. patch: how many samples make a step. prepare: samples (k, d) as
    the layers' inputs (k, d'). answers: features (n, f) as answers (n, …). predictions: answers as predictions.
    fingerprint: of all that the answers depend on. number: the dtype in which samples are taken, if it is not the
    layers'. gaps: whether a sample may be NaN. whole: without layers, what is said of a window (window, d), and shape.
    """

    rnn: UnICORNN | None
    readouts: tuple[str, ...]
    d: int
    patch: int
    prepare: Callable[[Array], Array]
    answers: Callable[[Array], Array]
    predictions: Callable[[Array], Any]
    fingerprint: str
    number: Any = None
    gaps: bool = False
    whole: tuple[Callable[[Array], Array], tuple[int, ...]] | None = None


def answers_of(model: Any, readout: Any) -> Answers:
    """The answers of a layer, a network or an estimator."""
    if isinstance(model, UnICORNN):
        names = _readouts.readouts("last" if readout is None else readout)
        _check(model)
        return Answers(model, names, model.input_size, 1, _same, _same, _same, _digest(model, names))
    if readout is not None:
        raise BadValue(f"readout: expected None for {type(model).__name__}, which has its own, got {readout!r}")
    if isinstance(model, Network):
        return _of_network(model)
    if is_estimator(model):
        if hasattr(model, "models_"):
            alone = tuple(model.models_) == ("network",) and model.missing == "error"
            return _of_estimator(model) if alone and model._network.features.segments == 1 else _of_windows(model)
        raise BadValue(f"model: expected {_KINDS}, got a {type(model).__name__} that is not fitted")
    raise BadType(f"model: expected {_KINDS}, got {type(model).__name__}")


def _check(rnn: Any) -> None:
    if not isinstance(rnn, UnICORNN):
        raise BadType(f"model: expected {_KINDS}, got a network of {type(rnn).__name__}")
    if rnn.bidirectional:
        raise BadValue("model: expected one direction, got both, one of which starts at the end of the stream")


def _same(x: Array) -> Array:
    return x


def _of_network(model: Network) -> Answers:
    _check(model.rnn)
    rnn: Any = model.rnn
    features = model.features
    if features.segments > 1:
        raise BadValue(f"model: expected segments=1, for a stream has no end to cut it by, got {features.segments}")
    if features.mirrored:
        raise BadValue("model: expected mirrored=False, for a stream is read once, not twice, got True")
    number = np.float64 if rnn.w[0].dtype == torch.float64 else np.float32
    W, b = (t.detach().cpu().numpy().astype(number) for t in (model.readout.weight, model.readout.bias))
    centre, scale = _standardisation(model, number)

    def read(F: Array) -> Array:
        F = np.ascontiguousarray((F - centre) * scale)
        out = np.empty((len(F), len(W)), number)
        product = launch.kernel("unicornn._ops.cpu.step_kernels", "product")  # the same bits for any number of rows
        launch.call(product, torch.float64 if number is np.float64 else torch.float32, F, W, out, False)
        out += b
        if isinstance(model, Regressor):
            out = number(model.mean) + number(model.deviation) * out
            out = out[:, 0] if out.shape[1] == 1 else out
        return out

    def best(answers: Array) -> Array:
        return answers.argmax(-1) if isinstance(model, Classifier) else answers

    prepare, d = _same, rnn.input_size // model.patch
    if isinstance(model, TextClassifier):
        vectors, d = model.embedding.weight.detach().cpu().numpy().astype(number), 0

        def prepare(x: Array) -> Array:
            if x.min() < 0 or x.max() >= len(vectors):
                raise BadValue(f"samples: expected words from 0 to {len(vectors) - 1}, got {x.min()} to {x.max()}")
            return vectors[x[:, 0]]

    return Answers(rnn, features.readouts, d, model.patch, prepare, read, best, _digest(model, features.readouts))


def _standardisation(model: Network, number: Any) -> tuple[Array, Array]:
    """Mean and 1 / deviation of the features: 0 and 1 but for energies and states."""
    end = model.features.size
    centre, scale = np.zeros(end, number), np.ones(end, number)
    for name in ("standardise_state", "standardise"):  # the state is the last of the features, after the energies
        norm: Any = getattr(model.features, name, None)
        if norm is not None:
            own = slice(end - norm.num_features, end)
            centre[own] = norm.running_mean.cpu().numpy()
            scale[own] = 1 / np.sqrt(norm.running_var.cpu().numpy().astype(np.float64) + norm.eps)
            end = own.start
    return centre, scale


def _of_estimator(model: Any) -> Answers:
    found = _of_network(model._network)
    network, scaling, classes = found.answers, model._scaling, getattr(model, "classes_", None)

    def read(F: Array) -> Array:
        out = network(F).astype(np.float64)
        if classes is None:
            out = model._centre + model._spread * out
            return out[:, 0] if model._flat else out
        e = np.exp(out - out.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def best(answers: Array) -> Any:
        return answers if classes is None else classes[answers.argmax(-1)]

    facts = [found.fingerprint, scaling.mean.tolist(), scaling.deviation.tolist(), model._saved_target()]
    found.fingerprint = hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()
    found.prepare, found.answers, found.predictions = functools.partial(_scaled, scaling), read, best
    found.number = np.float64
    return found


def _of_windows(model: Any) -> Answers:
    """A bank hears windows of all octaves, pieces are cut by the end, and gaps are filled with values seen later: all
    need the samples."""
    gaps, classes, fingerprint = model.missing != "error", getattr(model, "classes_", None), model._fingerprint()
    d = model.n_channels_ // 3 if gaps else model.n_channels_  # two more for each channel with gaps
    own = {"bank": getattr(model, "_bank", model), "network": model}
    scalings = [own[name]._scaling for name in model.models_]
    model = copy.deepcopy(model).set_params(layout="channels_last")

    def prepare(u: Array) -> Array:
        for scaling in scalings:  # what is too large would be refused with its window, much later
            _scaled(type(scaling)(scaling.mean[:d], scaling.deviation[:d]), np.nan_to_num(u, posinf=np.inf))
        return u

    def answer(x: Array) -> Array:
        return (model.predict if classes is None else model.predict_proba)([x])[0]

    def best(answers: Array) -> Any:
        return answers if classes is None else classes[answers.argmax(-1)]

    shape = () if classes is None and model._flat else (model._outputs(),)
    whole = answer, shape
    return Answers(None, (), d, 1, prepare, _same, best, fingerprint, np.float64, gaps, whole)


def _scaled(scaling: Any, u: Array) -> Array:
    try:
        return scaling(u)
    except BadValue as error:
        raise BadValue(str(error).replace("X:", "samples:", 1)) from None


def _digest(model: nn.Module, readouts: tuple[str, ...]) -> str:
    """Of the settings and of every parameter."""
    rnn: Any = model if isinstance(model, UnICORNN) else model.rnn
    settings = [type(model).__name__, rnn.num_layers, rnn.skip_layers, *rnn.dt, rnn.alpha, readouts]
    digest = hashlib.sha256(repr([*settings, getattr(model, "patch", 1)]).encode())
    for name, t in model.state_dict().items():
        digest.update(f"{name} {t.dtype} {tuple(t.shape)}".encode())
        digest.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
