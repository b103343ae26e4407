"""Respiratory and heart rate from 32 s of PPG and ECG: PhysioNet's BIDMC recordings, cut as the TSR archive's.

Each of the 53 recordings of 8 minutes at 125 Hz is cut into windows of 4000 samples every 3 s. The target is the mean
of the monitor's numbers, one per second, in the window. Seconds without a number, or with a rate of 0 (recording 13 has
minutes of them: no breath was seen, not none taken), are left out of the mean, and windows without a single number out
of the task: 79 of 7,950 for the respiratory rate, none for the heart rate. Windows with a gap in their signals are left
out too; in version 1.0.0 there is none. Signals and numbers are aligned by their times. With the zeros the rate would
have a standard deviation of 3.4, without them of 2.9, which is about where the authors' own learning curve begins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn.errors import BadValue, CorruptData
from unicornn.lab.data._archives import members
from unicornn.lab.data._files import File, Source
from unicornn.lab.data._splits import by_group, fifteen_percent
from unicornn.lab.data._ts import read_ts
from unicornn.lab.tasks._base import Batch, Quoted, Splits, Task, Training
from unicornn.lab.tasks._crops import Shifted
from unicornn.lab.tasks._rows import Moments, splits
from unicornn.lab.tasks._stretch import Stretched

HZ, SECONDS, EVERY = 125, 32, 3
N = HZ * SECONDS
RECORDINGS = range(1, 54)
SIGNALS, NUMERICS, TIME = ("PLETH", "II"), ("RESP", "HR"), "Time [s]"
ROUNDED = 0.006  # seconds by which a time may be off: five digits are written, and a row's distance is 0.008

# Some patients were recorded more than once, says the MIMIC II matched ID in the *_Fix.txt: recording to the first one.
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


@dataclass(frozen=True)
class Windows:
    """A Split whose sequences are cut out of long recordings, overlapping or not, when they are asked for.

    Args:
        signals: (steps of all recordings, d).
        begin: (n,), each window's first step.
        target: (n,).
        mean, deviation: (d,), by which the signals are standardised.

    Example:
        >>> import numpy as np, torch
        >>> from unicornn.lab.tasks.bidmc import Windows
        >>> signals, begin = np.zeros((60_000, 2), np.float32), np.arange(0, 50_000, 375)
        >>> split = Windows(signals, begin, torch.zeros(len(begin)), torch.zeros(2), torch.ones(2))
        >>> split.batch(torch.tensor([0, 1]), draw=0).u.shape
        torch.Size([4000, 2, 2])
    """

    signals: np.ndarray
    begin: np.ndarray
    target: Tensor
    mean: Tensor
    deviation: Tensor

    def __len__(self) -> int:
        return len(self.begin)

    def batch(self, indices: Tensor, draw: int) -> Batch:
        steps = self.begin[indices.numpy()] + np.arange(N)[:, None]
        return Batch((torch.from_numpy(self.signals[steps]) - self.mean) / self.deviation, self.target[indices])


def _columns(content: bytes, name: str, wanted: Sequence[str], hz: int) -> tuple[float, np.ndarray]:
    """The first row's time in seconds, and columns of a CSV file by their names, (rows, len(wanted)) in float32.

    CorruptData if there is not a row every 1/hz seconds.
    """
    head, *rows = content.decode("latin-1").splitlines()
    columns = [column.strip() for column in head.split(",")]
    wanted = (TIME, *wanted)
    if missing := [column for column in wanted if column not in columns]:
        raise CorruptData(f"{name}: expected columns {', '.join(wanted)}; {', '.join(missing)} is not in {columns}")
    try:
        found = np.loadtxt(rows, np.float64, delimiter=",", usecols=[columns.index(w) for w in wanted], ndmin=2)
    except ValueError as error:
        raise CorruptData(f"{name}: expected numbers: {error}") from error
    start = float(found[0, 0]) if len(found) else 0.0
    expected = start + np.arange(len(found)) / hz
    wrong = np.flatnonzero(~(np.abs(found[:, 0] - expected) <= ROUNDED))
    if len(wrong):
        row = int(wrong[0])
        raise CorruptData(
            f"{name}: expected a row every {1 / hz:g} s; row {row + 1} should be at {expected[row]:g} s, got "
            f"{found[row, 0]:g} s: rows are missing, doubled or out of order"
        )
    return start, found[:, 1:].astype(np.float32)


def _parse(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """All recordings one after another, and their windows: first step, recording, targets, moments."""
    tables: dict[tuple[int, str], tuple[float, np.ndarray]] = {}
    for path in paths:
        single = [(path.name, path.read_bytes())] if path.suffix == ".csv" else None
        for name, content in single or members(path, "bidmc_*_Signals.csv", "bidmc_*_Numerics.csv"):
            found = re.search(r"bidmc_(\d\d)_(Signals|Numerics)\.csv$", name)
            if found and content:
                wanted, hz = (SIGNALS, HZ) if found[2] == "Signals" else (NUMERICS, 1)
                tables[int(found[1]), found[2]] = _columns(content, f"{path}: {name}", wanted, hz)
    names = [(number, kind) for number in RECORDINGS for kind in ("Signals", "Numerics")]
    if missing := [f"bidmc_{number:02}_{kind}.csv" for number, kind in names if (number, kind) not in tables]:
        raise CorruptData(f"{paths[0]}: {len(missing)} files are missing or empty, the first is {missing[0]}")

    begin, recording, targets, offset = [], [], [], 0
    for number in RECORDINGS:
        (start, signals), (first_rate, numerics) = tables[number, "Signals"], tables[number, "Numerics"]
        later = round(start - first_rate)  # those of recording 23 begin a second before its signals
        if not abs(start - first_rate - later) <= ROUNDED:
            raise CorruptData(
                f"{paths[0]}: expected signals and numbers of recording {number} to begin whole seconds apart, got "
                f"{start:g} s and {first_rate:g} s"
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
        raise CorruptData(f"{paths[0]}: expected recordings of at least {SECONDS} s, found none")
    everything = np.concatenate([tables[number, "Signals"][1] for number in RECORDINGS])
    first, second_moment = Moments.of([everything[b : b + N] for b in begin])
    return {
        "signals": everything,
        "begin": np.array(begin),
        "recording": np.array(recording),
        "first": first,
        "second": second_moment,
        **dict(zip(NUMERICS, np.stack(targets, axis=1).astype(np.float32), strict=True)),
    }


def _parse_ts(paths: Sequence[Path], name: str) -> dict[str, np.ndarray]:
    """The same from the TSR archive, where the windows are already cut."""
    series, targets = zip(*map(read_ts, paths), strict=True)
    u = np.concatenate(series)
    if u.shape[1:] != (N, 2):
        raise CorruptData(f"{paths[0]}: expected series of {N} steps in 2 channels, got {u.shape[1:]}")
    first, second = Moments.of(u)
    begin, target = N * np.arange(len(u)), np.concatenate(targets).astype(np.float32)
    return {"signals": u.reshape(-1, 2), "begin": begin, "first": first, "second": second, name: target}


def load(name: str, source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    """``name``: "RESP" or "HR"."""
    by, shift = options["stretch"], options["shift"]
    if not 0 <= by < 1:
        raise BadValue(f"stretch: expected a number from 0 to below 1, got {by}")
    if not 0 <= shift < N:
        raise BadValue(f"shift: expected a number of steps from 0 to below {N}, got {shift}")
    if options["source"] == "csv":
        paths = list(dict.fromkeys(source.find(*FILES)))
        arrays = source.cached(
            "bidmc", paths, f"{SECONDS} s every {EVERY} s, 0 is no number, aligned by time", lambda: _parse(paths)
        )
    elif options["split"] != "random":
        raise BadValue("split: expected 'random' with source=ts, whose windows do not say whose they are")
    else:
        short = {"RESP": "RR", "HR": "HR"}[name]
        about = f"BIDMC32{short} of the TSR archive of time series regression, http://tseregression.org"
        paths = source.find(*(File(f"tsr/BIDMC32{short}_{split}.ts", about=about) for split in ("TRAIN", "TEST")))
        arrays = source.cached(f"bidmc-{short.lower()}-ts", paths, "", lambda: _parse_ts(paths, name))
    known = np.flatnonzero(np.isfinite(arrays[name]))
    if options["split"] == "random":
        rows = fifteen_percent(len(known), options["split_seed"])
    else:
        whose = arrays["recording"][known]
        if options["split"] == "patient":
            whose = np.array([SAME_PATIENT.get(number, number) for number in whose.tolist()])
        rows = by_group(whose, options["split_seed"])
    rows = [known[split] for split in rows]
    statistics = Moments(arrays["first"], arrays["second"]).over(rows[0])
    target = torch.from_numpy(np.array(arrays[name]))
    found = splits(Windows(arrays["signals"], arrays["begin"], target, *statistics), rows)
    if by:
        found = found._replace(train=Stretched(found.train, by, seed))
    three = found.train, found.valid, found.test
    return Splits.of(Shifted(split, shift, seed) for split in three) if shift else found


def _task(
    name: str,
    title: str,
    numeric: str,
    windows: int,
    lr: float,
    dt: float,
    alpha: float,
    paper: dict[str, tuple[float, float]],
) -> Task:
    return Task(
        name=name,
        title=title,
        kind="regress",
        load=partial(load, numeric),
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
            "source": ("csv", "ts"),
            "split_seed": (0,),
            "stretch": (0.0,),
            "shift": (0,),
        },
        paper=[Quoted(model, *numbers, source="Table 4") for model, numbers in paper.items()],
        files=FILES,
        protocol=f"53 recordings cut into 7,950 windows of 32 s every 3 s, as the TSR archive's 7,949; {windows:,} "
        "have a rate to predict. split=random, 70/15/15 % of the windows, is the paper's: windows overlap by 29 s, "
        "so almost all of a test window has been seen in training. split=recording keeps a recording in one split, "
        "split=patient all recordings of a patient (46 patients; some were recorded more than once). Targets in their "
        "own units; RMSE over all windows. Channels standardised by the training set. stretch=0.3: windows of the "
        "training set are played up to 1.3 times as fast or as slow, and their rates are changed likewise. "
        "shift=500: windows have 3,500 samples, from a random one of their first 501 on; outputs for three such pieces "
        "are averaged in validation and test.",
    )


TASKS = [
    _task(
        "bidmc-rr", "Respiratory rate from PPG and ECG", "RESP", windows=7871, lr=3.98e-3, dt=1.1e-2, alpha=9.0,
        paper={
            "sign.-NCDE": (1.51, 0.08), "LSTM": (2.28, 0.25), "expRNN": (1.57, 0.16), "IndRNN (L=3)": (1.47, 0.09),
            "coRNN": (1.45, 0.23), "UnICORNN (L=3)": (1.06, 0.03),
        },
    ),
    _task(
        "bidmc-hr", "Heart rate from PPG and ECG", "HR", windows=7950, lr=2.88e-3, dt=4.6e-2, alpha=10.0,
        paper={
            "sign.-NCDE": (2.97, 0.45), "LSTM": (10.7, 2.0), "expRNN": (1.87, 0.19), "IndRNN (L=3)": (2.10, 0.2),
            "coRNN": (1.71, 0.1), "UnICORNN (L=3)": (1.39, 0.09),
        },
    ),
]  # fmt: skip
