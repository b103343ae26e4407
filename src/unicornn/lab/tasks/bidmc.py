"""Respiratory and heart rate from 32 s of PPG and ECG: PhysioNet's BIDMC recordings, cut like the TSR archive's.

Each of the 53 recordings of 8 minutes at 125 Hz is cut into windows of 4000 samples every 3 s. The target is the mean
of the monitor's rates, one per second, in the window. Seconds without a rate, or with a rate of 0 (recording 13 has
minutes of them, where no breath was detected), do not count, and windows without any rate are dropped: 79 of 7,950 for
the respiratory rate, none for the heart rate. So are windows with a gap in their signals; version 1.0.0 has no gaps.
Signals and rates are aligned by their times. The standard deviation of the rate is 3.4 with the zeros and 2.9 without,
which is about where the authors' own learning curve begins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unicornn.errors import CorruptData
from unicornn.lab._networks import FRAMES_NETWORK
from unicornn.lab.data._archives import members
from unicornn.lab.data._files import File, Source
from unicornn.lab.data._splits import split_70_15_15, split_groups_70_15_15
from unicornn.lab.tasks._base import Number, Split, Splits, Task, Training, published
from unicornn.lab.tasks._views import (
    Slices,
    View,
    mean_and_deviation,
    shift,
    split_rows,
    standardised,
    stretch,
)

HZ, SECONDS, EVERY = 125, 32, 3
N = HZ * SECONDS
RECORDINGS = range(1, 54)
SIGNALS, NUMERICS, TIME = ("PLETH", "II"), ("RESP", "HR"), "Time [s]"
ROUNDED = 0.006  # tolerance of a time in seconds: times have five digits, and rows are 0.008 s apart

# Recording to the first one of the same patient (the same MIMIC II matched ID in the *_Fix.txt), where it is another.
SAME_PATIENT = {7: 6, 8: 6, 9: 6, 21: 20, 22: 20, 23: 20, 39: 38}

ARCHIVES = ("bidmc/bidmc_csv.tar.xz", "bidmc/bidmc_csv.tar.gz", "bidmc/bidmc-ppg-and-respiration-dataset-1.0.0.zip")
FILES = [
    File(
        f"bidmc/bidmc_csv/{name}",
        url=f"https://physionet.org/files/bidmc/1.0.0/bidmc_csv/{name}",
        hash=f"sha256:{sha256}",
        also=ARCHIVES,
    )
    for sha256, name in (
        line.split()
        for line in resources.files("unicornn.lab.tasks").joinpath("bidmc_sha256.txt").read_text().splitlines()
    )
]


def _columns(content: bytes, name: str, wanted: Sequence[str], hz: int) -> tuple[float, np.ndarray]:
    """Time of the first row in seconds, and the wanted columns of a CSV file, (rows, len(wanted)) in float32.

    Raises CorruptData unless there is a row every 1/hz seconds.
    """
    head, *rows = content.decode("latin-1").splitlines()
    columns = [column.strip() for column in head.split(",")]
    wanted = (TIME, *wanted)
    if missing := [column for column in wanted if column not in columns]:
        raise CorruptData(f"{name}: expected columns {', '.join(wanted)}; {', '.join(missing)} is not in {columns}")
    try:
        table = np.loadtxt(rows, np.float64, delimiter=",", usecols=[columns.index(w) for w in wanted], ndmin=2)
    except ValueError as error:
        raise CorruptData(f"{name}: expected numbers: {error}") from error
    start = float(table[0, 0]) if len(table) else 0.0
    expected = start + np.arange(len(table)) / hz
    wrong = np.flatnonzero(~(np.abs(table[:, 0] - expected) <= ROUNDED))
    if len(wrong):
        row = int(wrong[0])
        raise CorruptData(
            f"{name}: expected a row every {1 / hz:g} s; row {row + 1} should be at {expected[row]:g} s, got "
            f"{table[row, 0]:g} s: rows are missing, duplicated or out of order"
        )
    return start, table[:, 1:].astype(np.float32)


def _parse(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """All recordings concatenated; first step, recording and targets of each window."""
    tables: dict[tuple[int, str], tuple[float, np.ndarray]] = {}
    for path in paths:
        single = [(path.name, path.read_bytes())] if path.suffix == ".csv" else None
        for name, content in single or members(path, "bidmc_*_Signals.csv", "bidmc_*_Numerics.csv"):
            match = re.search(r"bidmc_(\d\d)_(Signals|Numerics)\.csv$", name)
            if match and content:
                wanted, hz = (SIGNALS, HZ) if match[2] == "Signals" else (NUMERICS, 1)
                tables[int(match[1]), match[2]] = _columns(content, f"{path}: {name}", wanted, hz)
    names = [(number, kind) for number in RECORDINGS for kind in ("Signals", "Numerics")]
    if missing := [f"bidmc_{number:02}_{kind}.csv" for number, kind in names if (number, kind) not in tables]:
        raise CorruptData(f"{paths[0]}: {len(missing)} files are missing or empty, the first is {missing[0]}")

    begin, recording, targets, offset = [], [], [], 0
    for number in RECORDINGS:
        (start, signals), (first_rate, numerics) = tables[number, "Signals"], tables[number, "Numerics"]
        later = round(start - first_rate)  # the rates of recording 23 begin a second before its signals
        if not abs(start - first_rate - later) <= ROUNDED:
            raise CorruptData(
                f"{paths[0]}: expected signals and rates of recording {number} to begin a whole number of seconds "
                f"apart, got {start:g} s and {first_rate:g} s"
            )
        for second in range(0, min((len(signals) - N) // HZ, len(numerics) - SECONDS - later) + 1, EVERY):
            window, rates = signals[second * HZ :][:N], numerics[max(second + later, 0) :][:SECONDS]
            if second + later >= 0 and np.isfinite(window).all():
                begin.append(offset + second * HZ)
                recording.append(number)
                known = np.isfinite(rates) & (rates > 0)
                total = np.where(known, rates, 0).sum(axis=0, dtype=np.float64)
                targets.append(np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan))
        offset += len(signals)
    if not begin:
        raise CorruptData(f"{paths[0]}: expected recordings of at least {SECONDS} s, got none")
    everything = np.concatenate([tables[number, "Signals"][1] for number in RECORDINGS])
    return {
        "signals": everything,
        "begin": np.array(begin),
        "recording": np.array(recording),
        **dict(zip(NUMERICS, np.stack(targets, axis=1).astype(np.float32), strict=True)),
    }


def _load_bidmc(name: str, source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    """``name``: "RESP" or "HR"."""
    by, steps = options["stretch"], options["shift"]
    paths = list(dict.fromkeys(source.find(*FILES)))
    settings = f"{SECONDS} s every {EVERY} s, rate 0 is missing, aligned by time"
    arrays = source.cached("bidmc", paths, settings, lambda: _parse(paths))
    known = np.flatnonzero(np.isfinite(arrays[name]))
    if options["split"] == "random":
        rows = split_70_15_15(len(known), options["split_seed"])
    else:
        groups = arrays["recording"][known]
        if options["split"] == "patient":
            groups = np.array([SAME_PATIENT.get(number, number) for number in groups.tolist()])
        rows = split_groups_70_15_15(groups, options["split_seed"])
    rows = [known[split] for split in rows]
    begin, target = np.array(arrays["begin"]), torch.from_numpy(np.array(arrays[name]))
    lengths = np.full(len(begin), N)
    statistics = mean_and_deviation(arrays["signals"], begin, lengths, rows[0])
    windows: Split = Slices(arrays["signals"], begin, lengths, target, *statistics)
    if options["scale"] == "window":
        windows = View(windows, change=standardised)
    splits = split_rows(windows, rows)
    if by:
        splits = splits._replace(train=View(splits.train, change=partial(stretch, by=by, seed=seed)))
    if steps:
        train, valid, test = (View(split, change=partial(shift, steps=steps, seed=seed)) for split in splits[:3])
        splits = Splits(train, valid, test)
    return splits


FRAMES_VARIANT = {
    **FRAMES_NETWORK, "frames": (HZ, HZ // 2), "frame_size": 48, "hidden_size": 64,
    "split": "patient", "stretch": 0.4, "scale": "window", "standardise": True, "huber": 1.0,
    "lr": 4e-3, "epochs": 3, "schedule": "onecycle", "optimizer": "adamw", "weight_decay": 0.01, "clip": 1.0,
}  # fmt: skip
"""Frames of one second, patients who are in one split only."""


def _task(name: str, title: str, numeric: str, windows: int, lr: float, dt: float, alpha: float) -> Task:
    return Task(
        name=name,
        title=title,
        kind="regress",
        load=partial(_load_bidmc, numeric),
        d=2,
        outputs=1,
        size=f"{windows:,} windows, N = 4000, d = 2",
        models={
            "unicornn": {"hidden_size": 128, "num_layers": 3, "dt": dt, "alpha": alpha, "dropout": 0.1},
            "indrnn": {"hidden_size": 128, "num_layers": 3},
            "sign-ncde": {"hidden_size": 64},
            **{name: {"hidden_size": 128} for name in ("lstm", "exprnn", "cornn")},  # the table gives no sizes
        },
        training=Training(lr=lr, batch_size=32, epochs=500, drop_after=250),
        options={
            "split": ("random", "recording", "patient"),
            "split_seed": Number(0),
            "stretch": Number(0.0, below=1),
            "shift": Number(0, below=N),
            "scale": ("training", "window"),
        },
        variants={"frames": FRAMES_VARIANT},
        paper=published(name),
        files=FILES,
        protocol=f"53 recordings cut into 7,950 windows of 32 s every 3 s, like the TSR archive's 7,949; {windows:,} "
        "have a rate to predict. split=random, 70/15/15 % of the windows, is the paper's: windows overlap by 29 s, so "
        "most of each test window has been seen in training. split=recording keeps the windows of a recording in one "
        "split, split=patient those of a patient (46 patients; some were recorded more than once). Targets in their "
        "original units; RMSE over all windows. Channels standardised by the training set. stretch=0.3: training "
        "windows are played up to 1.3 times as fast or as slow, and their rates are scaled accordingly. shift=500: "
        "windows have 3,500 samples, starting at a random one of the first 501; the outputs for three such pieces are "
        "averaged in validation and test. scale=window: every window is standardised by itself, for amplitudes that "
        "depend on the patient.",
    )


TASKS = [
    _task("bidmc-rr", "Respiratory rate from PPG and ECG", "RESP", windows=7871, lr=3.98e-3, dt=1.1e-2, alpha=9.0),
    _task("bidmc-hr", "Heart rate from PPG and ECG", "HR", windows=7950, lr=2.88e-3, dt=4.6e-2, alpha=10.0),
]
