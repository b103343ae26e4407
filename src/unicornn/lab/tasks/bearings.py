"""Eleven faults of ball bearings, classified by their vibration.

Case Western Reserve University recorded every fault at four loads of the motor, at the drive end, for ten seconds at
12 kHz. Windows of one recording in two splits would leak, so the test set is all of load 3: no network has seen a
neighbouring window in training, and one that has learned the motor's speed instead of the fault fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from unicornn.errors import BadValue, CorruptData
from unicornn.lab._networks import FRAMES_NETWORK
from unicornn.lab.data._files import File, Source
from unicornn.lab.data._formats import read_recordings
from unicornn.lab.tasks._base import Number, Splits, Task, Training
from unicornn.lab.tasks._views import Slices

FAULTS, LOADS, VALID_LOAD, TEST_LOAD = 11, 4, 2, 3
END = 5  # with validation=end, the last fifth of each recording is for validation

FILE = File(
    "bearings/bearings.npz",
    about="44 vibration recordings of Case Western Reserve University's bearings (drive end, 12 kHz, eleven faults, "
    "four loads) as arrays: values (all samples,) float32, lengths (44,), labels (44,), loads (44,), classes (11,)",
)


def _load_bearings(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    [path] = source.find(FILE)
    values, lengths, labels, loads = read_recordings(path, 1, "labels", "loads")
    if not (np.isin(labels, range(FAULTS)).all() and set(loads.tolist()) == set(range(LOADS))):
        raise CorruptData(f"{path}: expected labels from 0 to {FAULTS - 1} and all loads from 0 to {LOADS - 1}")
    begin = np.cumsum(lengths) - lengths
    if options["validation"] == "load":
        rows = loads < VALID_LOAD, loads == VALID_LOAD, loads == TEST_LOAD
        recordings = [(begin[r], lengths[r], labels[r]) for r in rows]
    else:
        known, unseen = loads != TEST_LOAD, loads == TEST_LOAD
        cut = lengths - lengths // END
        recordings = [
            (begin[known], cut[known], labels[known]),
            ((begin + cut)[known], (lengths - cut)[known], labels[known]),
            (begin[unseen], lengths[unseen], labels[unseen]),
        ]
    train_values = np.concatenate([values[b : b + n] for b, n in zip(*recordings[0][:2], strict=True)])
    standard = (values - train_values.mean(dtype=np.float64)) / train_values.std(dtype=np.float64)
    column = standard.astype(np.float32)[:, None]
    train, valid, test = (_windows(column, *each, options["window"], seed) for each in recordings)
    return Splits(train, valid, test)


def _windows(
    values: np.ndarray, begin: np.ndarray, lengths: np.ndarray, labels: np.ndarray, window: int, seed: int
) -> Slices:
    """Adjacent windows, as many as fit into each recording; whole recordings if ``window`` is 0."""
    if window == 0:
        return Slices(values, begin, lengths, torch.from_numpy(labels))
    if window > lengths.min():
        raise BadValue(f"window: expected 0, or at most the {lengths.min()} samples of the shortest, got {window}")
    count = lengths // window
    recording = np.repeat(np.arange(len(begin)), count)
    offset = np.concatenate([np.arange(k) for k in count]) * window
    target, sizes = torch.from_numpy(labels[recording]), np.full(len(recording), window)
    jitter = np.minimum(window - 1, lengths[recording] - offset - window)
    return Slices(values, begin[recording] + offset, sizes, target, jitter=jitter, seed=seed)


FRAMES_VARIANT = {
    **FRAMES_NETWORK, "frames": (256, 128), "frame_size": 48, "hidden_size": 96, "horizon": None,
    "validation": "end", "lr": 4e-3, "epochs": 40, "batch_size": 33, "optimizer": "adamw", "weight_decay": 0.01,
    "label_smoothing": 0.05,
}  # fmt: skip

TASK = Task(
    name="bearings",
    title="Eleven faults of ball bearings at an unseen load",
    kind="classify",
    load=_load_bearings,
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
    options={"window": Number(12_000), "validation": ("load", "end")},
    variants={"whole": {"window": 0}, "frames": FRAMES_VARIANT},
    files=[FILE],
    protocol="Trained on loads 0 and 1, validated on load 2, tested on load 3: selecting the epoch on an unseen load "
    "is as hard as the test. validation=end: trained on loads 0 to 2 except the last fifth of each recording, which is "
    "the validation set. Sequences are adjacent windows of `window` samples, moved at random in training; "
    "window=0 is whole recordings. Accuracy is per sequence. Standardised by the training set. Recordings without a "
    "fault are not included. Ours, not the paper's.",
)
