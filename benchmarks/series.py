"""Data sets on which the estimators are compared; for the files see the data folder's README."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from unicornn.lab import tasks
from unicornn.lab.data import Source
from unicornn.lab.data._archives import members
from unicornn.lab.data._formats import read_npz
from unicornn.lab.fit import read

UCR = (
    "ACSF1", "Computers", "EOGHorizontalSignal", "Earthquakes", "Haptics", "InsectEPGRegularTrain",
    "RefrigerationDevices", "ShapeletSim",
)  # fmt: skip
UEA = ("AtrialFibrillation", "Epilepsy", "JapaneseVowels")
RATES = {"respiratory rate": "bidmc-rr", "heart rate": "bidmc-hr"}
NAMES = (*UCR, *UEA, "worms44", "bearings", *RATES)
FRAMES, WINDOW, EVERY, FOLDS, SAMPLES = 17_984, 12_000, 6, 5, 60_001


@dataclass
class Split:
    """Series to fit, with their groups if any, and series to predict."""

    X: list[np.ndarray]
    y: np.ndarray
    X_test: list[np.ndarray]
    y_test: np.ndarray
    groups: np.ndarray | None = None


def padded(*parts: list[np.ndarray]) -> list[np.ndarray]:
    """Lists of series (N_i, d) as aeon's arrays (n, d, N), with zeros after the end of each series."""
    N = max(len(x) for part in parts for x in part)
    return [np.stack([np.pad(x.T, ((0, 0), (0, N - len(x)))) for x in part]).astype(np.float32) for part in parts]


def splits(name: str, folder: Path) -> list[Split]:
    """The splits of a data set: one, or five folds of the worms."""
    if name in UCR:
        return [archived_split(folder / "ucr" / "ucr8.tar.xz", name)]
    if name in UEA:
        return [read_split(folder / "uea", name)]
    if name == "worms44":
        return _worms(folder)
    return [_bearings(folder)] if name == "bearings" else [_rates(RATES[name], folder)]


def read_split(folder: Path, name: str) -> Split:
    """The published split of a data set, from NAME_TRAIN and NAME_TEST as .ts or .tsv files."""
    train, test = (read(next(folder.glob(f"{name}_{part}.ts*"))) for part in ("TRAIN", "TEST"))
    return Split(train.series, np.asarray(train.target), test.series, np.asarray(test.target))


def archived_split(archive: Path, name: str) -> Split:
    """The same from .tsv files in an archive."""
    with tempfile.TemporaryDirectory() as folder:
        for path, content in members(archive, f"{name}_TRAIN.tsv", f"{name}_TEST.tsv"):
            (Path(folder) / Path(path).name).write_bytes(content)
        return read_split(Path(folder), name)


def _recordings(path: Path) -> tuple[list[np.ndarray], Any]:
    arrays = read_npz(path)
    values = arrays["values"].reshape(len(arrays["values"]), -1)
    return np.split(values, np.cumsum(arrays["lengths"])[:-1]), arrays


def _worms(folder: Path) -> list[Split]:
    """Recordings cut to one length, because the length would reveal the class; five stratified folds."""
    series, arrays = _recordings(folder / "worms44" / "worms44.npz")
    long = [i for i, x in enumerate(series) if len(x) >= FRAMES]
    X, y = [series[i][:FRAMES] for i in long], arrays["labels"][long]
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(y, y)
    return [Split([X[i] for i in a], y[a], [X[i] for i in b], y[b]) for a, b in folds]


def _bearings(folder: Path) -> Split:
    """Windows of one second; three loads for training, the fourth for testing."""
    series, arrays = _recordings(folder / "bearings" / "bearings.npz")
    split = Split([], np.array([]), [], np.array([]))
    labels: tuple[list[int], list[int]] = ([], [])
    for x, label, load in zip(series, arrays["labels"], arrays["loads"], strict=True):
        test = bool(load == arrays["loads"].max())
        windows = [x[start : start + WINDOW] for start in range(0, len(x) - WINDOW + 1, WINDOW)]
        (split.X_test if test else split.X).extend(windows)
        labels[test].extend([int(label)] * len(windows))
    split.y, split.y_test = np.array(labels[0]), np.array(labels[1])
    return split


def _rates(task: str, folder: Path) -> Split:
    """Every sixth window of 32 s, split by patient."""
    found = tasks.find(task)
    both = found.load(Source(folder), found.defaults | {"split": "patient"}, 0)

    def windows(split: Any) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
        rows, every = split.rows[::EVERY], split.base
        X = [every.values[begin : begin + 4000] for begin in every.begin[rows]]
        return X, every.target[rows].numpy(), every.begin[rows] // SAMPLES

    X, y, groups = windows(both.train)
    X_test, y_test, _ = windows(both.test)
    return Split(X, y, X_test, y_test, groups)
