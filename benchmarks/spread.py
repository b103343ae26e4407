"""Ranges from which ``init="spread"`` draws c: ``python -m benchmarks.spread``.

Short trainings on five small tasks with several ranges of c, including Appendix A's, and otherwise equal settings.
Scores (accuracy or explained variance) are on validation series, never on a test set. Writes results/spread.json after
every training, and skips what the file already contains.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import GroupShuffleSplit

from benchmarks.series import splits
from unicornn import _layer
from unicornn._files import write_json
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor
from unicornn.lab import tasks
from unicornn.lab._environment import environment
from unicornn.lab.data import Source

RESULT = Path(__file__).parent.parent / "results" / "spread.json"
RANGES = ((-0.1, 0.1), (-5.0, 2.0), (-3.0, 1.0), (-7.0, 2.0), (-5.0, 0.0), (-3.0, 3.0))
LABELLED = tuple[list[np.ndarray], np.ndarray]


def _loaded(name: str, folder: Path, train: int, valid: int, **options: Any) -> tuple[LABELLED, LABELLED]:
    """The first sequences of a task's training and validation parts."""
    task = tasks.find(name)
    parts = task.load(Source(folder), {o: values[0] for o, values in task.options.items()} | options, 0)

    def first(split: Any, n: int) -> LABELLED:
        batch = split.batch(torch.arange(min(n, len(split))), 0)
        return list(batch.u.transpose(0, 1).numpy()), batch.target.numpy()

    return first(parts.train, train), first(parts.valid, valid)


def _halves(X: list[np.ndarray], y: np.ndarray, groups: np.ndarray) -> tuple[LABELLED, LABELLED]:
    """Two halves of the series; every group is in one of them."""
    a, b = next(GroupShuffleSplit(1, test_size=0.5, random_state=0).split(X, y, groups))
    return ([X[i] for i in a], y[a]), ([X[i] for i in b], y[b])


def _averaged(x: np.ndarray, k: int) -> np.ndarray:
    return x[: len(x) // k * k].reshape(-1, k, x.shape[1]).mean(1)


def images(folder: Path) -> tuple[LABELLED, LABELLED]:
    """Permuted pixels, four per step."""
    train, valid = _loaded("psmnist", folder, 4000, 1000)
    return tuple(([x.reshape(-1, 4) for x in X], y) for X, y in (train, valid))  # type: ignore[return-value]


def vowels(folder: Path) -> tuple[LABELLED, LABELLED]:
    split = splits("JapaneseVowels", folder)[0]
    return _halves(split.X, split.y, np.arange(len(split.y)))


def rates(folder: Path) -> tuple[LABELLED, LABELLED]:
    """Half of the training patients for validation; eight samples averaged into one step."""
    split = splits("heart rate", folder)[0]
    return _halves([_averaged(x, 8) for x in split.X], split.y, np.asarray(split.groups))


def worms(folder: Path) -> tuple[LABELLED, LABELLED]:
    """Quarters of the first fold's training recordings, four frames averaged into one step."""
    split = splits("worms44", folder)[0]
    quarters = [part for x in split.X for part in np.split(_averaged(x, 4), 4)]
    return _halves(quarters, np.repeat(split.y, 4), np.repeat(np.arange(len(split.y)), 4))


TASKS: dict[str, tuple[Callable[[Path], tuple[LABELLED, LABELLED]], dict[str, Any]]] = {
    "psMNIST, four pixels a step": (images, {"dt": 0.482, "alpha": 12.53, "readout": "last", "max_epochs": 8}),
    "adding problem, N = 200": (
        lambda folder: _loaded("adding", folder, 2000, 500, N=200, sequences=2000, held_out=500),
        {"dt": 0.05, "alpha": 0.3, "max_epochs": 25},
    ),
    "JapaneseVowels": (vowels, {"dt": 0.5, "max_epochs": 60}),
    "heart rate by patient": (rates, {"dt": 0.5, "max_epochs": 40}),
    "worms44, quarters": (worms, {"dt": 0.3, "max_epochs": 60}),
}


def measure(data: tuple[LABELLED, LABELLED], options: dict[str, Any], ends: tuple[float, float], seed: int) -> float:
    """Validation score of a network whose initial c lies between ``ends``."""
    (X, y), valid = data
    usual = _layer.INITS["spread"]
    _layer.INITS["spread"] = ends
    try:
        kind = UnICORNNClassifier if y.dtype.kind in "iU" else UnICORNNRegressor
        model = kind("network", random_state=seed, patience=options["max_epochs"], **options)
        return float(model.fit(X, y, validation_data=valid).score(*valid))
    finally:
        _layer.INITS["spread"] = usual


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("UNICORNN_DATA"), help="the data folder")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    if options.data is None:
        parser.error("--data: expected the data folder, or UNICORNN_DATA, got neither")
    torch.set_num_threads(1)
    results: dict[str, Any] = {
        "command": "python -m benchmarks.spread",
        "protocol": __doc__,
        "tasks": {},
        "seconds": 0.0,
    }
    if options.out.exists():
        results = json.loads(options.out.read_text(encoding="utf-8"))
    data = {name: TASKS[name][0](options.data) for name in options.tasks}
    for seed, name, ends in itertools.product(range(options.seeds), options.tasks, RANGES):
        settings = TASKS[name][1]
        task = results["tasks"].setdefault(name, {"settings": settings, "scores": {}})
        known = task["scores"].setdefault("{:g} to {:g}".format(*ends), [])
        if len(known) > seed:
            continue
        begin = time.process_time()
        known.append(measure(data[name], settings, ends, seed))
        results["seconds"] += (seconds := time.process_time() - begin)
        print(name, ends, seed, known[-1], f"{seconds:.1f} s", flush=True)
        write_json(options.out, results | environment() | {"threads": 1})


if __name__ == "__main__":
    main()
