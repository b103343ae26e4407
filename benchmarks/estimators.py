"""The estimators with their defaults beside MiniRocket, an LSTM and guessing: ``python -m benchmarks.estimators``.

Writes results/estimators.json after every fit, and goes on where it was stopped. Each method, set and seed has a
process of its own, one thread, whose peak memory is measured; times are of the processor, for fit and prediction.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.series import NAMES, RATES, Split, splits
from unicornn._files import write_json
from unicornn._training.seeds import seeded
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor, _network
from unicornn.lab._environment import environment
from unicornn.lab.bench._measure import peak

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "results" / "estimators.json"
METHODS = ("guess", "bank", "minirocket", "both", "lstm")
BUDGET = 30.0  # seconds of the processor for each network, an LSTM too

Predictions = dict[str, np.ndarray]  # by method


def guess(split: Split, seed: int, regress: bool) -> Predictions:
    """The commonest class, or the mean."""
    if regress:
        return {"guess": np.full(len(split.X_test), split.y.mean())}
    names, counts = np.unique(split.y, return_counts=True)
    return {"guess": np.full(len(split.X_test), names[counts.argmax()])}


def bank(split: Split, seed: int, regress: bool) -> Predictions:
    """The estimator with its defaults."""
    kind = UnICORNNRegressor if regress else UnICORNNClassifier
    return {"bank": kind(random_state=seed).fit(split.X, split.y, groups=split.groups).predict(split.X_test)}


def both(split: Split, seed: int, regress: bool) -> Predictions:
    """The trained network, and it and the bank together: the mean of their predictions or probabilities, as
    ``model="both"`` has it, but with all of the budget for the network."""
    kind = UnICORNNRegressor if regress else UnICORNNClassifier
    network, bank = (
        kind(model, random_state=seed, budget=BUDGET).fit(split.X, split.y, groups=split.groups)
        for model in ("network", "bank")
    )
    alone = network.predict(split.X_test)
    if regress:
        return {"network": alone, "both": (alone + bank.predict(split.X_test)) / 2}
    odds = network.predict_proba(split.X_test) + bank.predict_proba(split.X_test)
    return {"network": alone, "both": network.classes_[odds.argmax(1)]}


def minirocket(split: Split, seed: int, regress: bool) -> Predictions:
    """aeon's, with ridge regression as its authors have it; shorter series are filled up with zeros."""
    from aeon.transformations.collection.convolution_based import MiniRocket
    from sklearn.linear_model import RidgeClassifierCV, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    N = max(len(x) for x in split.X + split.X_test)

    def filled(X: list[np.ndarray]) -> np.ndarray:
        u = np.zeros((len(X), X[0].shape[1], N), np.float32)
        for padded, x in zip(u, X, strict=True):
            padded[:, : len(x)] = x.T
        return u

    rocket = MiniRocket(random_state=seed)
    head = (RidgeCV if regress else RidgeClassifierCV)(np.logspace(-3, 3, 10))
    model = make_pipeline(StandardScaler(with_mean=False), head).fit(rocket.fit_transform(filled(split.X)), split.y)
    return {"minirocket": model.predict(rocket.transform(filled(split.X_test)))}


def lstm(split: Split, seed: int, regress: bool) -> Predictions:
    """Of as many parameters as the default network, trained in the same way, read off at its last step."""
    from unicornn.baselines import MODELS
    from unicornn.models import Network, count

    def network(d: int, outputs: int, dt: float, settings: Any) -> Network:
        with seeded(settings.seed):
            size = count(ours(d, outputs, dt, settings))
            m = next(m for m in range(2, 999) if count(Network(MODELS["lstm"](d, m), outputs)) >= size)
            return Network(MODELS["lstm"](d, m), outputs)

    ours, _network.build_network = _network.build_network, network
    kind = UnICORNNRegressor if regress else UnICORNNClassifier
    try:
        fitted = kind("network", dt=0.1, random_state=seed, budget=BUDGET).fit(split.X, split.y, groups=split.groups)
    finally:
        _network.build_network = ours
    return {"lstm": fitted.predict(split.X_test)}


RUN: dict[str, Callable[[Split, int, bool], Predictions]] = {
    "guess": guess, "bank": bank, "minirocket": minirocket, "both": both, "lstm": lstm,
}  # fmt: skip


def measure(name: str, method: str, seed: int, folder: Path) -> dict[str, dict[str, Any]]:
    """By method: accuracy, or root mean squared error; the processor's seconds for a fit and its predictions, and
    megabytes at the peak."""
    torch.set_num_threads(1)
    _network.clock = time.process_time  # on a busy machine too, each network has its share
    regress, every = name in RATES, splits(name, folder)
    off: dict[str, list[np.ndarray]] = {}
    start = time.process_time()
    for split in every:
        for own, guesses in RUN[method](split, seed, regress).items():
            error = (guesses - split.y_test) ** 2 if regress else guesses == split.y_test
            off.setdefault(own, []).append(error)
    seconds = (time.process_time() - start) / len(every)
    scores = {own: float(np.concatenate(errors).mean()) for own, errors in off.items()}
    return {
        own: {"score": mean**0.5 if regress else mean, "seconds": seconds, "megabytes": round(peak())}
        for own, mean in scores.items()
    }


def sizes(name: str, folder: Path) -> dict[str, int]:
    """How many series are fitted, how long the longest is, and how many channels it has."""
    X = splits(name, folder)[0].X
    return {"n": len(X), "N": max(len(x) for x in X), "d": X[0].shape[1]}


def _tell(send: Connection, call: Callable[..., Any], *given: Any) -> None:
    """At the top of the module, where a process that is not forked finds it."""
    send.send(call(*given))


def _apart(call: Callable[..., Any], *given: Any) -> Any:
    """What a process of its own returned, or None if it failed. Where forking is safe it is forked, so that nothing is
    imported again."""
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_tell, args=(send, call, *given))
    process.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:
        print(*given, "failed", flush=True)
        return None
    finally:
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("UNICORNN_DATA"), help="the data folder")
    parser.add_argument("--out", type=Path, default=RESULT, help="a JSON file; what is in it is not measured again")
    parser.add_argument("--sets", nargs="*", default=list(NAMES), metavar="SET")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    if options.data is None:
        parser.error("--data: expected the data folder, or UNICORNN_DATA, got neither")
    found: dict[str, Any] = {"command": "python -m benchmarks.estimators", "sets": {}}
    if options.out.exists():
        found = json.loads(options.out.read_text(encoding="utf-8"))
    for seed, method, name in itertools.product(range(options.seeds), options.methods, options.sets):
        known = found["sets"].setdefault(name, {})
        if (seed > 0 and method == "guess") or len(known.get(method, {"scores": []})["scores"]) > seed:
            continue
        if "sizes" not in known:
            known["sizes"] = _apart(sizes, name, options.data)
        for own, result in (_apart(measure, name, method, seed, options.data) or {}).items():
            lists = known.setdefault(own, {"scores": [], "seconds": [], "megabytes": 0})
            lists["scores"].append(result["score"])
            lists["seconds"].append(result["seconds"])
            lists["megabytes"] = max(lists["megabytes"], result["megabytes"])
            print(seed, name, own, result, flush=True)
        found |= {**environment(), "threads": 1, "budget": BUDGET}
        write_json(options.out, found)


if __name__ == "__main__":
    main()
