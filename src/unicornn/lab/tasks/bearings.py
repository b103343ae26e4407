"""Which of eleven faults a ball bearing has, by its vibration.

Case Western Reserve University recorded every fault at four loads of the motor: the drive end, ten seconds at 12 kHz.
Windows of one recording in two splits would leak, so the test set is all of load 3: no network sees a neighbouring
window of it in training, and one that has learned the motor's speed instead of the fault fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn.errors import BadValue, CorruptData
from unicornn.lab.data._files import File, Source
from unicornn.lab.data._formats import read_npz
from unicornn.lab.tasks._base import Batch, Splits, Task, Training

FAULTS, LOADS, TEST_LOAD, VALID_LOAD = 11, 4, 3, 2
LAST = 5  # with validation=end, the last fifth of a recording is for validation

FILE = File(
    "bearings/bearings.npz",
    about="44 vibration recordings of Case Western Reserve University's bearings (drive end, 12 kHz, eleven faults, "
    "four loads) as arrays: values (all samples,) float32, lengths (44,), labels (44,), loads (44,), classes (11,)",
)


@dataclass(frozen=True)
class Pieces:
    """A Split of pieces of a long row of numbers.

    Args:
        values: (samples of all recordings,), standardised.
        begin: (n,), each piece's first sample.
        size: (n,), how many samples it has.
        room: (n,), by how many samples, at most, a piece is moved on in training, at random.
        target: (n,).
        seed: of the moves.

    Example:
        >>> import numpy as np, torch
        >>> from unicornn.lab.tasks.bearings import Pieces
        >>> begin, size = np.array([0, 100, 200]), np.array([100, 100, 50])
        >>> split = Pieces(np.zeros(250, np.float32), begin, size, 0 * size, torch.tensor([0, 1, 2]), seed=0)
        >>> split.batch(torch.tensor([1, 2]), draw=-1).lengths
        tensor([100,  50])
    """

    values: np.ndarray
    begin: np.ndarray
    size: np.ndarray
    room: np.ndarray
    target: Tensor
    seed: int

    def __len__(self) -> int:
        return len(self.begin)

    def batch(self, indices: Tensor, draw: int) -> Batch:
        rows = indices.numpy()
        begin, size = self.begin[rows], self.size[rows]
        if draw >= 0:
            moves = [np.random.default_rng((self.seed, draw, row)).random() for row in rows.tolist()]
            begin = begin + (np.array(moves) * (self.room[rows] + 1)).astype(np.int64)
        u = np.zeros((size.max(), len(rows), 1), np.float32)
        for i, (first, n) in enumerate(zip(begin, size, strict=True)):
            u[:n, i, 0] = self.values[first : first + n]
        ragged = None if (size == size.max()).all() else torch.from_numpy(size)
        return Batch(torch.from_numpy(u), self.target[indices], ragged)


def _read(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All samples, and of each recording its length, its fault and its load."""
    values, lengths, labels, loads = read_npz(path, "values", "lengths", "labels", "loads").values()
    shapes = values.ndim == lengths.ndim == 1 and lengths.shape == labels.shape == loads.shape
    if not shapes or not len(lengths) or lengths.min() < LAST or lengths.sum() != len(values):
        raise CorruptData(
            f"{path}: expected lengths, labels and loads of one shape, and as many values as the lengths add up to, "
            f"got lengths {lengths.shape} of sum {lengths.sum()}, labels {labels.shape}, loads {loads.shape}, values "
            f"{values.shape}"
        )
    if not (np.isin(labels, range(FAULTS)).all() and set(loads.tolist()) == set(range(LOADS))):
        raise CorruptData(f"{path}: expected labels from 0 to {FAULTS - 1} and all loads from 0 to {LOADS - 1}")
    if not np.isfinite(values).all():
        raise CorruptData(f"{path}: expected finite values, got {np.count_nonzero(~np.isfinite(values))} that are not")
    return values, lengths.astype(np.int64), labels.astype(np.int64), loads


def load(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    [path] = source.find(FILE)
    values, lengths, labels, loads = _read(path)
    window = checks.integer("window", options["window"], 0)
    start = np.cumsum(lengths) - lengths
    test = loads == TEST_LOAD
    if options["validation"] == "load":
        valid = loads == VALID_LOAD
        sections = [(start[r], lengths[r], labels[r]) for r in (~test & ~valid, valid, test)]
    else:  # the end of every recording that is not for the test
        learn, kept = ~test, lengths - lengths // LAST
        sections = [
            (start[learn], kept[learn], labels[learn]),
            ((start + kept)[learn], (lengths - kept)[learn], labels[learn]),
            (start[test], lengths[test], labels[test]),
        ]
    train = np.concatenate([values[b : b + n] for b, n in zip(*sections[0][:2], strict=True)])
    standard = ((values - train.mean(dtype=np.float64)) / train.std(dtype=np.float64)).astype(np.float32)
    return Splits.of(_pieces(standard, *section, window, seed) for section in sections)


def _pieces(
    values: np.ndarray, start: np.ndarray, lengths: np.ndarray, labels: np.ndarray, window: int, seed: int
) -> Pieces:
    """Whole sections if the window is 0, else as many windows side by side as each section has room for."""
    if window == 0:
        return Pieces(values, start, lengths, np.zeros_like(lengths), torch.from_numpy(labels), seed)
    if window > lengths.min():
        raise BadValue(f"window: expected 0, or at most the {lengths.min()} samples of the shortest, got {window}")
    count = lengths // window
    of = np.repeat(np.arange(len(start)), count)
    within = np.concatenate([np.arange(k) for k in count]) * window
    room = np.minimum(window - 1, lengths[of] - within - window)
    return Pieces(values, start[of] + within, np.full(len(of), window), room, torch.from_numpy(labels[of]), seed)


TASK = Task(
    name="bearings",
    title="Eleven faults of ball bearings at an unseen load",
    kind="classify",
    load=load,
    d=1,
    outputs=FAULTS,
    size="44 recordings of about 121,000 samples, d = 1",
    models={
        "unicornn": {
            "hidden_size": 64,
            "num_layers": 2,
            "dt": 0.5,
            "alpha": 10.0,
            "init": "spread",
            "readout": "energy(segments=24)",
            "horizon": 100.0,
        },  # without a horizon the gradients of 12,000 steps overflow
        "lstm": {"hidden_size": 32},
        "cornn": {"hidden_size": 64},
    },
    training=Training(lr=1e-2, batch_size=16, epochs=30, schedule="onecycle", clip=1.0, eval_batch_size=32),
    options={"window": (12_000,), "validation": ("load", "end")},
    variants={"whole": {"window": 0}},
    files=[FILE],
    protocol="The test set is load 3, all of it unseen. validation=load: trained on loads 0 and 1, validated on load "
    "2, so that the choice of the epoch is as hard as the test. validation=end: trained on the first four fifths of "
    "every recording of loads 0 to 2, validated on their last fifth, which is easier than the test. Sequences are "
    "windows of so many samples side by side, in training moved on at random; window=0 is whole recordings. "
    "Accuracy is per sequence. Standardised by the training set. Recordings without a fault are not among them. Ours, "
    "not the paper's.",
)
