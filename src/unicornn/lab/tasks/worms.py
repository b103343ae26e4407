"""Worms classified by 17,984 steps of their motion in six dimensions: EigenWorms, and a smaller data set of that kind.

worms44 has 44 recordings of five strains, of ten minutes. Their lengths differ by strain and would reveal the class, so
every recording is cut to its first 17,984 frames. One has only 17,678; its length is passed to the network, since
padding would be visible to it.

Both can be sub-sampled for the study of Fig. 3. ``subsample=last`` keeps the last entries of each recording.
``subsample=random`` keeps entries at random times, in order and the same for all recordings. (The paper does not say
whether its times are the same.) The times are part of the data, so they depend on ``split_seed``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from unicornn.errors import BadValue, CorruptData
from unicornn.lab._networks import FRAMES_NETWORK
from unicornn.lab.data._files import File, Source
from unicornn.lab.data._formats import read_recordings
from unicornn.lab.data._splits import split_70_15_15, stratified_folds
from unicornn.lab.data._ts import read_ts
from unicornn.lab.tasks._base import Number, Split, Splits, Task, Training, published
from unicornn.lab.tasks._views import Slices, View, crop, mean_and_deviation, split_rows

N, FOLDS = 17_984, 5
CROPS = {"several": (1.0, 0.5, 0.25), "quarters": (0.25,)}  # lengths relative to the longest recording

EIGENWORMS_FILES = [
    File(
        f"uea/EigenWorms_{split}.ts",
        also=(f"uea/EigenWorms/EigenWorms_{split}.ts",),
        about="EigenWorms of the UEA archive of multivariate time series, https://timeseriesclassification.com",
    )
    for split in ("TRAIN", "TEST")
]
WORMS44_FILE = File(
    "worms44/worms44.npz",
    about="six eigenworm amplitudes at 30 Hz of 44 worms of five strains (Brown et al., PNAS 2013) as arrays: values "
    "(all frames, 6) float32, lengths (44,), labels (44,), classes (5,)",
)


class _Recordings(NamedTuple):
    """All frames (frames, 6); first frame, length and class of each recording, (n,)."""

    values: np.ndarray
    begin: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray


def _make_splits(recordings: _Recordings, rows: Sequence[np.ndarray], options: Mapping[str, Any], seed: int) -> Splits:
    """The three splits; ``rows`` are the indices of training, validation and test, ``seed`` that of the crops."""
    values, begin, lengths, labels = recordings
    statistics = mean_and_deviation(values, begin, lengths, rows[0])
    longest, entries, times = lengths.max(), options["entries"], None
    if options["subsample"] != "none" and entries > longest:
        raise BadValue(f"entries: expected at most the {longest} of a recording, got {entries}")
    if options["subsample"] == "last":
        begin, lengths = begin + np.maximum(lengths - entries, 0), np.minimum(lengths, entries)
    elif options["subsample"] == "random":
        times = np.sort(np.random.default_rng(options["split_seed"]).permutation(longest)[:entries])
        lengths = np.searchsorted(times, lengths)
    split: Split = Slices(values, begin, lengths, torch.from_numpy(labels.astype("int64")), *statistics, times)
    if options["crops"] != "none":
        split = View(split, change=partial(crop, shares=CROPS[options["crops"]], seed=seed))
    return split_rows(split, rows)


def _parse_eigenworms(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    series, labels = zip(*map(read_ts, paths), strict=True)
    if len({u.shape[1:] for u in series}) > 1:
        shapes = ", ".join(f"{path.name} {u.shape[1:]}" for path, u in zip(paths, series, strict=True))
        raise CorruptData(f"{paths[0]}: expected the same length and channels in both files, got {shapes}")
    u = np.concatenate(series)
    _, earliest = np.unique([x.tobytes() for x in u], return_index=True)
    _, classes = np.unique(np.concatenate(labels), return_inverse=True)
    return {"u": u, "classes": classes, "distinct": np.sort(earliest)}


def _load_eigenworms(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    paths = source.find(*EIGENWORMS_FILES)
    arrays = source.cached("eigenworms", paths, "", lambda: _parse_eigenworms(paths))
    n, length, d = arrays["u"].shape
    keep = np.array(arrays["distinct"]) if options["duplicates"] == "drop" else np.arange(n)
    rows = [keep[split] for split in split_70_15_15(len(keep), options["split_seed"])]
    begin, lengths = length * np.arange(n), np.full(n, length)
    recordings = _Recordings(arrays["u"].reshape(-1, d), begin, lengths, arrays["classes"])
    return _make_splits(recordings, rows, options, seed)


def _load_worms44(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    [path] = source.find(WORMS44_FILE)
    values, lengths, labels = read_recordings(path, 2, "labels")
    begin, cut = np.cumsum(lengths) - lengths, np.minimum(lengths, N)
    fold = stratified_folds(labels, FOLDS, options["split_seed"])
    test, valid = fold == options["fold"], fold == (options["fold"] + 1) % FOLDS
    train = ~test & ~valid
    if options["validation"] == "training":
        valid = train = ~test
    rows = [np.flatnonzero(split) for split in (train, valid, test)]
    return _make_splits(_Recordings(values, begin, cut, labels), rows, options, seed)


_VARIANTS: dict[str, dict[str, Any]] = {  # the paper's two ways to shorten the sequences of an LSTM
    "t-bptt": {"bptt": 500},
    "sub-sampled": {"subsample": "random", "entries": 200},
}
_FRAMES: dict[str, Any] = {
    **FRAMES_NETWORK, "frames": (256, 128), "frame_size": 32, "hidden_size": 48, "num_layers": 1, "crops": "quarters",
    "lr": 4e-3, "epochs": 60, "schedule": "onecycle", "optimizer": "adamw", "weight_decay": 0.01, "clip": 1.0,
}  # fmt: skip


def _task(name: str, options: Mapping[str, Number | Sequence[Any]], **more: Any) -> Task:
    return Task(
        name=name,
        kind="classify",
        d=6,
        outputs=5,
        models={
            "unicornn": {"hidden_size": 32, "num_layers": 2, "dt": (2.81e-5, 3.43e-2), "alpha": 0.0},
            "indrnn": {"hidden_size": 32, "num_layers": 2},
            "exprnn": {"hidden_size": 64},
            **{name: {"hidden_size": 32} for name in ("lstm", "sign-ncde", "cornn")},
        },
        training=Training(lr=8.59e-3, batch_size=8, epochs=250),
        options={
            "subsample": ("none", "last", "random"), "entries": Number(N, least=1), "crops": ("none", *CROPS),
            "split_seed": Number(0), **options,
        },
        **more,
    )  # fmt: skip


TASKS = [
    _task(
        "eigenworms",
        {"duplicates": ("keep", "drop")},
        title="EigenWorms",
        load=_load_eigenworms,
        size="181 / 39 / 39 recordings, N = 17,984, d = 6",
        variants={"authors": {"lr": 7.6e-3}, **_VARIANTS},
        paper=published("eigenworms"),
        files=EIGENWORMS_FILES,
        protocol="All 259 recordings of both files, split 70/15/15 % at random, one split for all seeds; channels "
        "standardised by the training set. Some recordings occur twice, possibly in two splits: duplicates=drop keeps "
        "one of each, as later papers do, so report it with the result. On a test set of 39, one recording is 2.6 %.",
    ),
    _task(
        "worms44",
        {"fold": tuple(range(FOLDS)), "validation": ("fold", "training")},
        title="44 worms of five strains",
        load=_load_worms44,
        size="44 recordings, N = 17,984, d = 6",
        variants={**_VARIANTS, "frames": _FRAMES},
        files=[WORMS44_FILE],
        protocol="Not EigenWorms and not comparable with its results: 44 other recordings of the same kind. Five "
        "stratified folds: one for test (fold=0 ... 4), the next for validation, three for training; channels "
        "standardised by the training set. With validation=training, all but the test fold are used for training, and "
        "validation on the same recordings only selects the weights with the smallest training loss. Hyperparameters "
        "are the paper's for EigenWorms.",
    ),
]
