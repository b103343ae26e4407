"""The model of a stream: from samples to the input of its layers, and from features to answers and predictions."""

from __future__ import annotations

import copy
import functools
import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from unicornn import _checks as checks
from unicornn._fitted import FittedNetwork, check_fitted, is_estimator
from unicornn._layer import UnICORNN
from unicornn.errors import BadType, BadValue
from unicornn.models import Classifier, Network, TextClassifier
from unicornn.readouts import Readout, parse
from unicornn.streams._engine import Array, Engine, product
from unicornn.streams._frames import FrameStates, can_be_carried
from unicornn.streams._sequences import CarriedStates, KeptSamples, Sequences, StaggeredStates

LARGEST = 1e9  # sample of a bank, whose features square it


def _unchanged(x: Array) -> Array:
    return x


@dataclass
class StreamModel:
    """A model as a stream uses it.

    fingerprint: digest of everything on which the answers depend. d: number of channels of a sample; 0 for words.
    dtype: numpy dtype in which samples are read. readout: the features of the layers. patch: number of samples in a
    step. prepare: samples (k, d) to the input of the layers. answers: features (n, f) to answers (n, …). predictions:
    answers to predictions. gaps: whether NaN is a valid sample. windowed: makes the states for a window, a hop and a
    history. carried: makes those without a window, from the hop and the history, if it is possible. hop: number of
    samples between answers without a window; None for an answer after every sample. any_hop: whether it may be changed.
    """

    fingerprint: str
    d: int
    dtype: Any
    readout: Readout | None = None
    patch: int = 1
    prepare: Callable[[Array], Array] = _unchanged
    answers: Callable[[Array], Array] = _unchanged
    predictions: Callable[[Array], Any] = _unchanged
    gaps: bool = False
    windowed: Callable[[int, int, int], Sequences] | None = None
    carried: Callable[[Any, int], Sequences] | None = None
    hop: int | None = None
    any_hop: bool = False

    def read(self, rnn: Any, readout: Readout) -> StreamModel:
        """The same model, which reads these layers."""
        patch, self.readout = self.patch, readout
        self.carried = lambda _, history: CarriedStates(Engine(rnn, readout), patch, history)
        self.windowed = lambda window, hop, history: StaggeredStates(
            Engine(rnn, readout), window // patch, hop // patch, patch, history
        )
        return self

    def predict_windows(self, answer: Callable[[Array], Array], shape: tuple[int, ...]) -> None:
        """Answers come from whole windows (window, d)."""
        self.windowed = lambda window, hop, history: KeptSamples(window, hop, history, self.d, answer, shape)

    def checked_hop(self, window: Any, hop: Any) -> Any:
        """A valid hop for a stream with these arguments."""
        if window is not None:
            checks.integer("window", window, 1, checks.SIZE)
            hop = checks.integer("hop", window if hop is None else hop, 1)
            for name, value in (("window", window), ("hop", hop)):
                if value % self.patch:
                    raise BadValue(f"{name}: expected a multiple of the model's patch ({self.patch}), got {value}")
            return hop
        if self.carried is None:
            raise BadValue(
                "window: expected a number of samples for an estimator with a bank that is not live, with segments, "
                "scale='series' or missing='mask', and for frames that are centred or of other models: they need whole "
                "series, got None"
            )
        if self.any_hop:
            return checks.integer("hop", self.hop if hop is None else hop, 1)
        if hop not in (None, self.hop):
            raise BadValue(f"hop: expected None without a window, or {self.hop}, got {checks.describe(hop)}")
        return self.hop


def stream_model(model: Any, readout: Any, window: Any = None) -> StreamModel:
    """The stream's view of a layer, a network or a fitted estimator. ``readout`` is for layers only."""
    if isinstance(model, UnICORNN):
        read = parse("last" if readout is None else readout)
        _check(model, read)
        return StreamModel(_digest(model, repr(read)), model.input_size, _np_dtype(model.w[0])).read(model, read)
    if not isinstance(model, Network) and not is_estimator(model):
        expected = "a UnICORNN, a network of unicornn.models with one, or a fitted estimator"
        raise BadType(f"model: expected {expected}, got {type(model).__name__}")
    if readout is not None:
        raise BadValue(f"readout: expected None for {type(model).__name__}, which has its own, got {readout!r:.80}")
    if isinstance(model, Network):
        return _of_network(model)
    check_fitted(model)
    models = tuple(model.models_) if model.missing == "error" and model.scale_ == "dataset" else ()
    if models == ("network",) and _is_carried(model._network):
        return _of_estimator(model)
    if models == ("bank",) and model._bank.live and window is None:
        return _of_live_bank(model)
    return _of_windows(model)


def _is_carried(network: Network) -> bool:
    if network.beside is not None:
        return False
    if network.frames:
        return can_be_carried(network)
    return not any(part.unsupported("stream") for part in network.readout.parts)


def _check(rnn: Any, readout: Readout) -> None:
    if not isinstance(rnn, UnICORNN):
        raise BadType(f"model: expected a network with a UnICORNN, got one with {type(rnn).__name__}")
    if rnn.bidirectional:
        raise BadValue("model: expected one direction, got both, one of which starts at the end of the stream")
    readout.check("stream", "model")


def _np_dtype(parameter: torch.Tensor) -> Any:
    return np.float64 if parameter.dtype == torch.float64 else np.float32


def _of_network(model: Network) -> StreamModel:
    if not model.frames:
        _check(model.rnn, model.readout)
    model = copy.deepcopy(model).eval().requires_grad_(False).cpu()
    rnn: Any = model.rnn
    dtype = _np_dtype(model.linear.weight)
    kind = torch.float64 if dtype is np.float64 else torch.float32
    hidden, linear = ([t.to(kind) for t in each.parameters()] for each in (model.hidden, model.linear))
    mean, scale = (t.numpy().astype(dtype) for t in model.features.standardisation())

    def answers(F: Array) -> Array:
        features = (F - mean) * scale
        if hidden:
            features = (torch.from_numpy(product(features, hidden[0])) + hidden[1]).relu().numpy()
        return model.finish(torch.from_numpy(product(features, linear[0])) + linear[1]).numpy()

    def predictions(answers: Array) -> Array:
        return answers.argmax(-1) if isinstance(model, Classifier) else answers

    d = int((*model.frames, rnn)[0].input_size) // model.patch
    found = StreamModel(_digest(model, repr([*model.frames, model.readout])), d, dtype, model.readout, model.patch)
    found.predictions = predictions
    if model.frames:
        shape = model.finish(torch.zeros(1, len(linear[1]))).shape[1:]
        found.predict_windows(functools.partial(_output, model), shape)
        if can_be_carried(model):
            hops: list[Any] = [level.hop for level in model.frames]
            found.carried, found.hop = lambda _, history: FrameStates(model, answers, history), math.prod(hops)
    else:
        found.read(rnn, model.readout).answers = answers
    if isinstance(model, TextClassifier):
        found.d, found.prepare = 0, functools.partial(_embed, model)
    return found


@torch.no_grad()
def _output(model: Network, x: Array) -> Array:
    """The answer for prepared samples x (N, d)."""
    u = torch.from_numpy(x).to(model.linear.weight)
    return model.finish(model.scores(u[:, None]))[0].numpy()


def _embed(model: TextClassifier, x: Array) -> Array:
    words = model.embedding.num_embeddings
    if x.min() < 0 or x.max() >= words:
        raise BadValue(f"samples: expected words from 0 to {words - 1}, got {x.min()} to {x.max()}")
    return model.prepare(torch.from_numpy(x))[:, 0].numpy()


def _of_estimator(model: Any) -> StreamModel:
    network = FittedNetwork.from_estimator(model, "a stream")
    found = _of_network(network)
    found.fingerprint = _digest(network, repr([network.readout, model._saved_target()]))
    found.dtype = np.float64
    found.prepare, found.predictions = functools.partial(_scale, model._scaling), _predictions(model)
    return found


def _of_live_bank(model: Any) -> StreamModel:
    """A bank whose features can be updated sample by sample."""
    from unicornn.streams._bank import PooledWindows  # imports scikit-learn

    fingerprint, model = model._fingerprint(), copy.deepcopy(model)

    def prepare(u: Array) -> Array:
        x = _scale(model._bank._scaling, u)
        if (np.abs(x) > LARGEST).any():
            raise BadValue(
                f"samples: expected numbers up to {LARGEST:g} deviations of the training set, got larger ones"
            )
        return x

    found = StreamModel(fingerprint, model.n_channels_, np.float64, prepare=prepare, predictions=_predictions(model))
    found.carried, found.any_hop = functools.partial(PooledWindows, model), True
    found.hop = min(layer.view.hop * layer.view.pace for layer in model._bank._layers)
    return found


def _of_windows(model: Any) -> StreamModel:
    """Banks use windows of all octaves, segments depend on the end, and gaps are filled with later values: all of them
    need the samples of a window."""
    gaps, fingerprint = model.missing != "error", model._fingerprint()
    d = model.n_channels_ // 3 if gaps else model.n_channels_  # two more for each channel with gaps
    owners = {"bank": getattr(model, "_bank", model), "network": model}
    scalings = [owners[name]._scaling for name in model.models_]
    model = copy.deepcopy(model).set_params(layout="channels_last")

    def prepare(u: Array) -> Array:
        for scaling in scalings:  # otherwise too large values would be rejected with their window, much later
            _scale(type(scaling)(scaling.mean[:d], scaling.deviation[:d]), np.nan_to_num(u, posinf=np.inf))
        return u

    classify = hasattr(model, "classes_")

    def answer(x: Array) -> Array:
        return (model.predict_proba if classify else model.predict)([x])[0]

    found = StreamModel(fingerprint, d, np.float64, prepare=prepare, predictions=_predictions(model), gaps=gaps)
    found.predict_windows(answer, () if not classify and model._flat else (model._outputs(),))
    return found


def _predictions(estimator: Any) -> Callable[[Array], Any]:
    classes = getattr(estimator, "classes_", None)
    return lambda answers: answers if classes is None else classes[answers.argmax(-1)]


def _scale(scaling: Any, u: Array) -> Array:
    try:
        return scaling(u)
    except BadValue as error:
        raise BadValue(str(error).replace("X:", "samples:", 1)) from None


def _digest(model: nn.Module, extra: str) -> str:
    """SHA-256 of the settings and of all parameters."""
    rnn: Any = model if isinstance(model, UnICORNN) else model.rnn
    settings: list[Any] = [type(model).__name__, extra]
    settings += [rnn.num_layers, rnn.skip_layers, *rnn.dt, rnn.alpha] if isinstance(rnn, UnICORNN) else [repr(rnn)]
    digest = hashlib.sha256(repr([*settings, getattr(model, "patch", 1)]).encode())
    for name, t in model.state_dict().items():
        digest.update(f"{name} {t.dtype} {tuple(t.shape)}".encode())
        digest.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
