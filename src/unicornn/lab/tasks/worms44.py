"""44 worms of five strains by the first ten minutes of their motion: of the same kind as EigenWorms, but another set.

Lengths differ by strain and would give the class away, so every recording is cut to its first 17,984 frames. One has
only 17,678; its length is honoured, as padding would be a mark that a network can see.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unicornn.errors import CorruptData
from unicornn.lab.data._files import File, Source
from unicornn.lab.data._formats import read_npz
from unicornn.lab.data._splits import stratified_folds
from unicornn.lab.tasks._base import Splits, Task, Training
from unicornn.lab.tasks._rows import Moments
from unicornn.lab.tasks._subsample import OPTIONS, VARIANTS, N, recordings

FOLDS = 5

FILE = File(
    "worms44/worms44.npz",
    about="six eigenworm amplitudes at 30 Hz of 44 worms of five strains (Brown et al., PNAS 2013) as arrays: values "
    "(all frames, 6) float32, lengths (44,), labels (44,), classes (5,)",
)


def _read(path: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """The recordings (N, 6), cut, and their classes (n,)."""
    values, lengths, labels = read_npz(path, "values", "lengths", "labels").values()
    if values.ndim != 2 or lengths.shape != labels.shape or lengths.sum() != len(values) or lengths.min() < 1:
        raise CorruptData(
            f"{path}: expected lengths and labels of one shape, and values of as many frames as the lengths add up to, "
            f"got lengths {lengths.shape} of sum {lengths.sum()}, labels {labels.shape}, values {values.shape}"
        )
    ends = np.cumsum(lengths)
    return [values[end - length : end][:N] for end, length in zip(ends, lengths, strict=True)], labels


def load(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    [path] = source.find(FILE)
    worms, labels = _read(path)
    lengths = np.array([len(worm) for worm in worms])
    u = np.zeros((len(worms), lengths.max(), worms[0].shape[1]), np.float32)
    for padded, worm in zip(u, worms, strict=True):
        padded[: len(worm)] = worm
    fold = stratified_folds(labels, FOLDS, options["split_seed"])
    test, valid = fold == options["fold"], fold == (options["fold"] + 1) % FOLDS
    if options["validation"] == "training":
        valid = train = ~test
    else:
        train = ~test & ~valid
    rows = [np.flatnonzero(split) for split in (train, valid, test)]
    classes = torch.from_numpy(labels.astype("int64"))
    return recordings(u, classes, lengths, Moments.of(worms), rows, options, seed)


TASK = Task(
    name="worms44",
    title="44 worms of five strains",
    kind="classify",
    load=load,
    d=6,
    outputs=5,
    size="44 recordings, N = 17,984, d = 6",
    models={
        "unicornn": {"hidden_size": 32, "num_layers": 2, "dt": (2.81e-5, 3.43e-2), "alpha": 0.0},
        "lstm": {"hidden_size": 32},
        "sign-ncde": {"hidden_size": 32},
        "exprnn": {"hidden_size": 64},
        "indrnn": {"hidden_size": 32, "num_layers": 2},
        "cornn": {"hidden_size": 32},
    },
    training=Training(lr=8.59e-3, batch_size=8, epochs=250),
    options={**OPTIONS, "fold": tuple(range(FOLDS)), "validation": ("fold", "training")},
    variants=VARIANTS,
    files=[FILE],
    protocol="Not EigenWorms, and never to be compared with its results: 44 other recordings of the same kind. Five "
    "stratified folds: one for test (fold=0 ... 4), the next for validation, three for training; channels standardised "
    "by the training set. With validation=training, all but the test fold are for training, and validation, on the "
    "same recordings, only says which weights have the least training loss. Hyperparameters are the paper's for "
    "EigenWorms.",
)
