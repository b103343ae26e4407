"""Compares the estimators with MiniRocket, an LSTM and guessing: ``python -m benchmarks.estimators``.

All methods use their defaults. Writes results/estimators.json after every fit, and resumes where it was stopped. Each
method, set and seed runs in a separate process with one thread, whose peak memory is recorded; times are CPU seconds
for fit and prediction.
"""

from __future__ import annotations

import itertools
import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from sklearn.dummy import DummyClassifier, DummyRegressor

from benchmarks import record
from benchmarks.series import NAMES, RATES, Split, padded, splits
from unicornn._training.seeds import seeded
from unicornn.baselines import MODELS
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor, _network
from unicornn.lab.bench._measure import peak
from unicornn.models import Network, count

BUDGET = 30.0  # CPU seconds for each network, including the LSTM

Predictions = dict[str, np.ndarray]  # by method


def guess(split: Split, seed: int, regress: bool) -> Predictions:
    """The most frequent class, or the mean."""
    model = (DummyRegressor if regress else DummyClassifier)().fit(split.X, split.y)
    return {"guess": model.predict(split.X_test)}


def fitted(split: Split, regress: bool, model: str, **options: Any) -> Any:
    kind = UnICORNNRegressor if regress else UnICORNNClassifier
    return kind(model, **options).fit(split.X, split.y, groups=split.groups)


def bank(split: Split, seed: int, regress: bool) -> Predictions:
    """The estimator with its defaults."""
    return {"bank": fitted(split, regress, "bank", random_state=seed).predict(split.X_test)}


def both(split: Split, seed: int, regress: bool) -> Predictions:
    """The trained network alone, and the mean of its predictions or probabilities and the bank's.

    The latter is ``model="both"`` with the whole budget for the network.
    """
    network, bank = (fitted(split, regress, model, random_state=seed, budget=BUDGET) for model in ("network", "bank"))
    alone = network.predict(split.X_test)
    if regress:
        return {"network": alone, "both": (alone + bank.predict(split.X_test)) / 2}
    odds = network.predict_proba(split.X_test) + bank.predict_proba(split.X_test)
    return {"network": alone, "both": network.classes_[odds.argmax(1)]}


def minirocket(split: Split, seed: int, regress: bool) -> Predictions:
    """aeon's MiniRocket with ridge regression; shorter series are padded with zeros."""
    from aeon.classification.convolution_based import MiniRocketClassifier
    from aeon.regression.convolution_based import MiniRocketRegressor

    X, X_test = padded(split.X, split.X_test)
    model = (MiniRocketRegressor if regress else MiniRocketClassifier)(random_state=seed)
    return {"minirocket": model.fit(X, split.y).predict(X_test)}


def lstm(split: Split, seed: int, regress: bool) -> Predictions:
    """An LSTM with as many parameters as the default network, trained in the same way; reads its last output."""

    def network(d: int, outputs: int, dt: float, settings: Any) -> Network:
        with seeded(settings.seed):
            size = count(ours(d, outputs, dt, settings))
            m = next(m for m in range(2, 999) if count(Network(MODELS["lstm"](d, m), outputs)) >= size)
            rnn = MODELS["lstm"](d, m)
            rnn.dt = (dt,)  # the estimator reports the time step
            return Network(rnn, outputs)

    ours, _network.build_network = _network.build_network, network
    try:
        model = fitted(split, regress, "network", frames=0, dt=0.1, random_state=seed, budget=BUDGET)
    finally:
        _network.build_network = ours
    return {"lstm": model.predict(split.X_test)}


METHODS: dict[str, Callable[[Split, int, bool], Predictions]] = {
    "guess": guess, "bank": bank, "minirocket": minirocket, "both": both, "lstm": lstm,
}  # fmt: skip


def measure(name: str, method: str, seed: int, folder: Path) -> dict[str, Any]:
    """Sizes of the set, and by method: accuracy or root mean squared error, CPU seconds, peak megabytes."""
    torch.set_num_threads(1)
    _network.clock = time.process_time  # so that other processes do not reduce the budget
    regress, every = name in RATES, splits(name, folder)
    off: dict[str, list[np.ndarray]] = {}
    start = time.process_time()
    for split in every:
        for own, guesses in METHODS[method](split, seed, regress).items():
            error = (guesses - split.y_test) ** 2 if regress else guesses == split.y_test
            off.setdefault(own, []).append(error)
    costs = {"seconds": (time.process_time() - start) / len(every), "megabytes": round(peak())}
    means = {own: float(np.concatenate(errors).mean()) for own, errors in off.items()}
    X = every[0].X
    return {"sizes": {"n": len(X), "N": max(map(len, X)), "d": X[0].shape[1]}} | {
        own: {"score": mean**0.5 if regress else mean, **costs} for own, mean in means.items()
    }


def in_new_process(call: Callable[..., Any], *args: Any) -> Any:
    """The result of a call in a separate process, or None if it fails. Forks where that is safe, to save imports."""
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(1, context) as pool:
        try:
            return pool.submit(call, *args).result()
        except Exception as error:  # also if the process was killed
            print(*args, f"failed: {error}", flush=True)
            return None


def main(data: record.Data, seeds: int = 5, out: Path = record.RESULTS / "estimators.json") -> None:
    sets = record.load_results(out, {"sets": {}})["sets"]
    for seed, method, name in itertools.product(range(seeds), METHODS, NAMES):
        known = sets.setdefault(name, {})
        if (seed > 0 and method == "guess") or len(known.get(method, {"scores": []})["scores"]) > seed:
            continue
        found = in_new_process(measure, name, method, seed, data) or {"sizes": known.get("sizes")}
        known["sizes"] = found.pop("sizes")
        for own, result in found.items():
            lists = known.setdefault(own, {"scores": [], "seconds": [], "megabytes": 0})
            lists["scores"].append(result["score"])
            lists["seconds"].append(result["seconds"])
            lists["megabytes"] = max(lists["megabytes"], result["megabytes"])
            print(seed, name, own, result, flush=True)
        record.save_results(out, "estimators", {"threads": 1, "budget": BUDGET, "sets": sets})


if __name__ == "__main__":
    typer.run(main)
