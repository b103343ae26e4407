"""EigenWorms: five kinds of worms by 17,984 steps of their motion in six dimensions, with the study of sub-sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unicornn.errors import CorruptData
from unicornn.lab.data._files import File, Source
from unicornn.lab.data._splits import fifteen_percent
from unicornn.lab.data._ts import read_ts
from unicornn.lab.tasks._base import Quoted, Splits, Task, Training
from unicornn.lab.tasks._rows import Moments
from unicornn.lab.tasks._subsample import OPTIONS, VARIANTS, recordings

FILES = [
    File(
        f"uea/EigenWorms_{split}.ts",
        also=(f"uea/EigenWorms/EigenWorms_{split}.ts",),
        about="EigenWorms of the UEA archive of multivariate time series, https://timeseriesclassification.com",
    )
    for split in ("TRAIN", "TEST")
]


def _parse(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    series, labels = zip(*map(read_ts, paths), strict=True)
    if len({u.shape[1:] for u in series}) > 1:
        shapes = ", ".join(f"{path.name} {u.shape[1:]}" for path, u in zip(paths, series, strict=True))
        raise CorruptData(f"{paths[0]}: expected the same length and channels in both files, got {shapes}")
    u = np.concatenate(series)
    _, earliest = np.unique([x.tobytes() for x in u], return_index=True)
    _, classes = np.unique(np.concatenate(labels), return_inverse=True)
    first, second = Moments.of(u)
    return {"u": u, "classes": classes, "distinct": np.sort(earliest), "first": first, "second": second}


def load(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    paths = source.find(*FILES)
    arrays = source.cached("eigenworms", paths, "", lambda: _parse(paths))
    u, keep = arrays["u"], np.arange(len(arrays["u"]))
    if options["duplicates"] == "drop":
        keep = np.array(arrays["distinct"])
    rows = [keep[split] for split in fifteen_percent(len(keep), options["split_seed"])]
    moments = Moments(arrays["first"], arrays["second"])
    classes = torch.from_numpy(arrays["classes"].astype("int64"))
    return recordings(u, classes, np.full(len(u), u.shape[1]), moments, rows, options, seed)


TASK = Task(
    name="eigenworms",
    title="EigenWorms",
    kind="classify",
    load=load,
    d=6,
    outputs=5,
    size="181 / 39 / 39 recordings, N = 17,984, d = 6",
    models={
        "unicornn": {"hidden_size": 32, "num_layers": 2, "dt": (2.81e-5, 3.43e-2), "alpha": 0.0},
        "lstm": {"hidden_size": 32},
        "sign-ncde": {"hidden_size": 32},
        "exprnn": {"hidden_size": 64},
        "indrnn": {"hidden_size": 32, "num_layers": 2},
        "cornn": {"hidden_size": 32},
    },
    training=Training(lr=8.59e-3, batch_size=8, epochs=250),
    options={**OPTIONS, "duplicates": ("keep", "drop")},
    variants={"authors": {"lr": 7.6e-3}, **VARIANTS},
    paper=(
        Quoted("t-BPTT LSTM", 0.579, 0.070, units=32, parameters=5_300, source="Table 3"),
        Quoted("sub-samp. LSTM", 0.692, 0.083, units=32, parameters=5_300, source="Table 3"),
        Quoted("sign.-NCDE", 0.778, 0.059, units=32, parameters=35_000, source="Table 3"),
        Quoted("expRNN", 0.400, 0.101, units=64, parameters=2_800, source="Table 3"),
        Quoted("IndRNN (L=2)", 0.497, 0.048, units=32, parameters=1_600, source="Table 3"),
        Quoted("coRNN", 0.867, 0.030, units=32, parameters=2_400, source="Table 3"),
        Quoted("UnICORNN (L=2)", 0.903, 0.030, units=32, parameters=1_500, source="Table 3"),
    ),
    files=FILES,
    protocol="All 259 recordings of both files, 70/15/15 % at random, one split for all seeds; channels standardised "
    "by the training set. Some recordings are there twice, perhaps in two splits: duplicates=drop leaves one of each, "
    "as later papers do, so name it beside a number. A test set of 39 has steps of 2.6 %.",
)
