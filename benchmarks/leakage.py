"""Does ``fit`` warn of near-duplicates on both sides of a split? ``python -m benchmarks.leakage FOLDER``.

The default estimators are fitted with the other side of a split as ``validation_data``. PhysioNet's BIDMC recordings
(in the data folder) are cut into windows of 32 s that start every 3 s, of which the first 20 of each recording are
used: a random fifth of the windows is left out, or a random fifth of the patients. FOLDER has datasets with their
published splits, as for ``benchmarks.archive``: the test split is left out. Writes results/leakage.json after every
fit, and resumes where it was stopped.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer

from benchmarks import record
from benchmarks.estimators import in_new_process
from benchmarks.series import RATES, SAMPLES, Split, read_split
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor
from unicornn.estimators._leakage import count_equal
from unicornn.lab import tasks
from unicornn.lab.data import Source
from unicornn.lab.tasks.bidmc import SAME_PATIENT, N

EACH, LEFT_OUT = 20, 0.2  # windows of a recording; share of windows or patients


def rates(rate: str, by: str, folder: Path) -> Split:
    """Windows of all recordings, split ``by`` "window" or "patient"."""
    found = tasks.find(RATES[rate])
    train: Any = found.load(Source(folder), found.defaults, 0).train
    every = train.base
    recording = np.asarray(every.begin) // SAMPLES
    rows = np.concatenate([np.flatnonzero(recording == i)[:EACH] for i in np.unique(recording)])
    rows = rows[np.isfinite(every.target[rows].numpy())]  # some have no respiratory rate
    patient = np.array([SAME_PATIENT.get(i + 1, i + 1) for i in recording[rows].tolist()])
    unit = patient if by == "patient" else rows
    units = np.random.RandomState(0).permutation(np.unique(unit))
    test = np.isin(unit, units[: round(LEFT_OUT * len(units))])
    X, y = [every.values[start : start + N] for start in every.begin[rows]], every.target[rows].numpy()
    kept, left = np.flatnonzero(~test), np.flatnonzero(test)
    return Split([X[i] for i in kept], y[kept], [X[i] for i in left], y[left])


def measure(split: Split) -> dict[str, Any]:
    """The largest gap and the distance before it, the number of equal series, the score, and the warning if any."""
    torch.set_num_threads(1)
    kind = UnICORNNRegressor if split.y.dtype.kind == "f" else UnICORNNClassifier
    known = np.isin(split.y_test, split.y) | (kind is UnICORNNRegressor)
    X, y = [split.X_test[i] for i in np.flatnonzero(known)], split.y_test[known]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = kind(random_state=0).fit(split.X, split.y, validation_data=(X, y))
    error = model.predict(X) - y if kind is UnICORNNRegressor else None
    score = model.score(X, y) if error is None else float(np.sqrt((error**2).mean()))
    own = [str(each.message) for each in caught if str(each.message).startswith("validation_data: ")]
    gap, near = model._clusters
    return {
        "fit": len(split.X), "left_out": len(X), "score": score, "gap": gap, "near": near,
        "equal": count_equal(split.X, X), "warning": own[0].partition(": ")[2] if own else "",
    }  # fmt: skip


def measure_rates(rate: str, by: str, folder: Path) -> dict[str, Any]:
    return measure(rates(rate, by, folder))


def measure_dataset(train: Path) -> dict[str, Any]:
    split = read_split(train.parent, train.name.rpartition("_TRAIN")[0])
    split.y, split.y_test = split.y.astype(str), split.y_test.astype(str)
    return measure(split)


def main(folder: Path, data: record.Data, out: Path = record.RESULTS / "leakage.json") -> None:
    known = record.load_results(out, {"bidmc": {}, "datasets": {}})
    bidmc, datasets = known["bidmc"], known["datasets"]
    jobs = [
        (bidmc, f"{rate}, by {by}", (measure_rates, rate, by, data)) for rate in RATES for by in ("window", "patient")
    ]
    trains = sorted(folder.rglob("*_TRAIN.ts*"))
    jobs += [(datasets, path.name.rpartition("_TRAIN")[0], (measure_dataset, path)) for path in trains]
    for results, name, job in jobs:
        if name not in results and (found := in_new_process(*job)):
            results[name] = found
            print(name, found, flush=True)
            alarms = {
                "count": len(datasets),
                "warned": sorted(key for key, each in datasets.items() if each["warning"]),
                "largest_gap": max((each["gap"] for each in datasets.values()), default=0.0),
            }
            record.save_results(out, "leakage FOLDER", {"bidmc": bidmc, "datasets": datasets, "summary": alarms})


if __name__ == "__main__":
    typer.run(main)
