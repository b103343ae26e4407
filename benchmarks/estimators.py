"""The estimators with their defaults beside MiniRocket, an LSTM and guessing: ``python -m benchmarks.estimators``.

Writes results/estimators.json after every set, and goes on where it was stopped. Each method and set has a process of
its own, one thread, whose peak memory is measured; times are of the processor, for fit and prediction together.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.series import NAMES, RATES, Split, splits
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor, _network
from unicornn.lab._environment import environment
from unicornn.lab._whole_files import write_json
from unicornn.lab.bench._measure import peak

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "results" / "estimators.json"
METHODS = ("guess", "bank", "minirocket", "network", "both", "lstm")
BUDGET = 60.0  # seconds for each network, an LSTM too


def guess(split: Split, seed: int, regress: bool) -> np.ndarray:
    """The commonest class, or the mean."""
    if regress:
        return np.full(len(split.X_test), split.y.mean())
    names, counts = np.unique(split.y, return_counts=True)
    return np.full(len(split.X_test), names[counts.argmax()])


def estimator(model: str) -> Callable[[Split, int, bool], np.ndarray]:
    def run(split: Split, seed: int, regress: bool) -> np.ndarray:
        kind = UnICORNNRegressor if regress else UnICORNNClassifier
        fitted = kind(model, random_state=seed, budget=BUDGET).fit(split.X, split.y, groups=split.groups)
        return fitted.predict(split.X_test)

    return run


def minirocket(split: Split, seed: int, regress: bool) -> np.ndarray:
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
    return model.predict(rocket.transform(filled(split.X_test)))


def lstm(split: Split, seed: int, regress: bool) -> np.ndarray:
    """Of as many parameters as the default network, trained in the same way, read off at its last step."""
    from unicornn.baselines import MODELS
    from unicornn.models import Network, count

    def network(d: int, outputs: int, dt: float, settings: Any) -> Network:
        with _network.own_random_numbers(settings.seed):
            size = count(ours(d, outputs, dt, settings))
            m = next(m for m in range(2, 999) if count(Network(MODELS["lstm"](d, m), outputs)) >= size)
            return Network(MODELS["lstm"](d, m), outputs)

    ours, _network.network = _network.network, network
    kind = UnICORNNRegressor if regress else UnICORNNClassifier
    try:
        fitted = kind("network", dt=0.1, random_state=seed, budget=BUDGET).fit(split.X, split.y, groups=split.groups)
    finally:
        _network.network = ours
    return fitted.predict(split.X_test)


RUN = {
    "guess": guess, "bank": estimator("bank"), "minirocket": minirocket, "network": estimator("network"),
    "both": estimator("both"), "lstm": lstm,
}  # fmt: skip


def measure(name: str, method: str, seeds: list[int], folder: Path) -> dict[str, Any]:
    """Accuracy, or root mean squared error, of each seed; seconds of the processor, and megabytes at the peak."""
    torch.set_num_threads(1)
    regress, every = name in RATES, splits(name, folder)
    scores, seconds = [], []
    for seed in seeds:
        start, right, total = time.process_time(), 0.0, 0
        for split in every:
            guesses = RUN[method](split, seed, regress)
            off = (guesses - split.y_test) ** 2 if regress else guesses == split.y_test
            right, total = right + float(np.sum(off)), total + len(off)
        scores.append((right / total) ** 0.5 if regress else right / total)
        seconds.append((time.process_time() - start) / len(every))
    sizes = {"n": len(every[0].X), "N": max(len(x) for x in every[0].X), "d": every[0].X[0].shape[1]}
    return {"scores": scores, "seconds": seconds, "megabytes": round(peak()), **sizes}


def _apart(name: str, method: str, seeds: int, folder: Path) -> dict[str, Any] | None:
    """What a process of its own measured, or None if it failed. It is forked, so that nothing is imported again."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=lambda: send.send(measure(name, method, list(range(seeds)), folder)))
    process.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:
        print(f"{name}, {method}: failed", flush=True)
        return None
    finally:
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("UNICORNN_DATA"), help="the data folder")
    parser.add_argument("--sets", nargs="*", default=list(NAMES), metavar="SET")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    if options.data is None:
        parser.error("--data: expected the data folder, or UNICORNN_DATA, got neither")
    found = {"command": "python -m benchmarks.estimators", "sets": {}}
    if RESULT.exists():
        found = json.loads(RESULT.read_text())
    for name in options.sets:
        for method in options.methods:
            known = found["sets"].setdefault(name, {})
            wanted = 1 if method == "guess" else options.seeds
            if len(known.get(method, {"scores": []})["scores"]) >= wanted:
                continue
            result = _apart(name, method, wanted, Path(options.data))
            if result is None:
                continue
            known[method] = result
            found |= {**environment(), "threads": 1, "budget": BUDGET}
            write_json(RESULT, found)
            print(name, method, np.mean(known[method]["scores"]).round(3), flush=True)


if __name__ == "__main__":
    main()
