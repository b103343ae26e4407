"""Spoken words from their raw waveform: the Arabic Speech Commands of Ghandoura, Hjabo and Al Dakkak (2021).

30 speakers said each word ten times; a recording is one second at 16 kHz. The test set is six speakers who are in no
other split. Options vary the training recordings at random, as other voices and microphones would.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn.errors import CorruptData
from unicornn.lab._networks import FRAMES_NETWORK
from unicornn.lab.data._files import File, Source
from unicornn.lab.data._formats import read_sound
from unicornn.lab.tasks._base import Batch, Number, Splits, Task, Training
from unicornn.lab.tasks._views import View

RATE = N = 16_000
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
WORDS = 40
SPLITS = ("train", "val", "test")
VALID_SPEAKERS, TEST_SPEAKERS = {2, 7, 8, 12, 21, 25}, {3, 4, 10, 14, 26, 28}

ABOUT = (
    "github.com/abdulkaderghandoura/arabic-speech-commands-dataset (CC BY 4.0): its folder `dataset`, one folder of "
    ".wav files per word"
)
FOLDER = File("speech/dataset", about=ABOUT)
FILE = File(
    "speech/digits.flac",
    also=("speech/dataset",),
    about=f"{ABOUT}; or the recordings of the ten digits one after another, with digits.csv (index, word, speaker, "
    "split) beside it",
)


def _sound(path: Path) -> np.ndarray:
    """Samples (n,) of a recording at 16 kHz as int16."""
    sound, rate = read_sound(path, "int16", "train")
    if rate != RATE or sound.shape[1] != 1:
        raise CorruptData(f"{path}: expected one channel at {RATE} Hz, got {sound.shape[1]} at {rate} Hz")
    return sound[:, 0]


def _read_single(path: Path) -> dict[str, np.ndarray]:
    """The recordings of one file (n, N), and the word and the split of each, from the table beside it."""
    table, values = path.with_suffix(".csv"), _sound(path)
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"word", "split"} <= rows[0].keys():
        raise CorruptData(f"{table}: expected columns 'word' and 'split' and a row for each recording")
    if len(rows) * N != len(values):
        raise CorruptData(f"{path}: expected {len(rows)} recordings of {N} samples, got {len(values)} samples")
    if wrong := {row["split"] for row in rows} - set(SPLITS):
        raise CorruptData(f"{table}: expected splits {', '.join(SPLITS)}, got {wrong.pop()!r}")
    words, splits = ([row[column] for row in rows] for column in ("word", "split"))
    return {"values": values.reshape(-1, N), "words": np.array(words), "splits": np.array(splits)}


def _read_folder(folder: Path, words: list[str]) -> dict[str, np.ndarray]:
    """The same from a folder WORD/SPEAKER_NO_TAKE.wav, split by speaker as published."""
    values, labels, splits = [], [], []
    for word in words:
        for path in sorted((folder / word).glob("*.wav")):
            speaker = re.match(r"\d+", path.name)
            if not speaker:
                raise CorruptData(f"{path}: expected a name that begins with the speaker's number")
            sound, number = _sound(path)[:N], int(speaker[0])
            values.append(np.pad(sound, (0, N - len(sound))))
            labels.append(word)
            splits.append("val" if number in VALID_SPEAKERS else "test" if number in TEST_SPEAKERS else "train")
    if missing := sorted(set(words) - set(labels)):
        raise CorruptData(f"{folder}: expected recordings of {len(words)} words, got none of {missing[0]!r}")
    return {"values": np.stack(values), "words": np.array(labels), "splits": np.array(splits)}


def _load_speech(file: File, source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    """``file``: ``FILE`` for the digits, ``FOLDER`` for all words."""
    rate, shift, speed, noise, filtered = (options[name] for name in ("rate", "shift", "speed", "noise", "filter"))
    [path] = source.find(file)
    if path.is_dir():
        words = list(DIGITS) if file == FILE else sorted(each.name for each in path.iterdir() if each.is_dir())
        arrays = source.cached("speech", [path], f"{len(words)} words", lambda: _read_folder(path, words))
    else:
        words = list(DIGITS)
        arrays = source.cached("speech", [path, path.with_suffix(".csv")], "one file", lambda: _read_single(path))
        if unknown := set(arrays["words"].tolist()) - set(words):
            raise CorruptData(f"{path.with_suffix('.csv')}: expected the words {words}, got {unknown.pop()!r}")
    target = torch.tensor([words.index(word) for word in arrays["words"].tolist()])
    base = _Recordings(arrays["values"], target, RATE // rate)
    train, valid, test = (View(base, np.flatnonzero(arrays["splits"] == name)) for name in SPLITS)
    change = partial(_vary, shift=shift, speed=speed, noise=noise, filtered=filtered, seed=seed)
    return Splits(View(train, change=change), valid, test)


class _Recordings:
    """A Split of recordings (n, N) in int16, each divided by its deviation; with ``keep`` = 2 at half the rate."""

    def __init__(self, values: np.ndarray, target: Tensor, keep: int) -> None:
        self.values, self.target, self.keep = values, target, keep

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, indices: Tensor, draw: int) -> Batch:
        u = torch.from_numpy(self.values[indices.numpy()].astype(np.float32)).T
        if self.keep > 1:  # removes what the lower rate cannot represent, then keeps every other sample
            spectrum = torch.fft.rfft(u, dim=0)[: len(u) // (2 * self.keep) + 1]
            u = torch.fft.irfft(spectrum, n=len(u) // self.keep, dim=0)
        return Batch(_scaled(u)[:, :, None], self.target[indices])


def _scaled(u: Tensor) -> Tensor:
    """Sequences (N, b) divided by their deviations; silence stays silence."""
    deviation = u.std(0)
    return u / torch.where(deviation > 0, deviation, 1.0)


def _vary(
    batch: Batch, indices: Tensor, draw: int, *, shift: int, speed: float, noise: float, filtered: float, seed: int
) -> Batch:
    """Each recording, in training only: played faster or slower, moved, filtered, and with noise added.

    The logarithm of the speed is uniform in ± ``speed``, the move in ± ``shift`` steps, the second coefficient of the
    filter u_n + k u_(n-1) in ± ``filtered``; the noise has a deviation of up to ``noise`` times the recording's.
    """
    if draw < 0:
        return batch
    u, steps = batch.u[:, :, 0], torch.arange(len(batch.u))
    changed = []
    for i, index in enumerate(indices.tolist()):
        random = np.random.default_rng((seed, draw, index))
        factor, move = np.exp(random.uniform(-speed, speed)), random.integers(-shift, shift + 1)
        at = (steps - len(u) / 2) * factor + len(u) / 2 - move
        before = at.long().clamp(0, len(u) - 2)
        x = torch.lerp(u[before, i], u[before + 1, i], (at - before).float())
        x = torch.where((at < 0) | (at > len(u) - 1), 0.0, x)
        x = x + random.uniform(-filtered, filtered) * torch.nn.functional.pad(x, (1, 0))[:-1]
        strength = noise * random.uniform() ** 2
        x = _scaled(x[:, None])[:, 0] + strength * torch.from_numpy(random.standard_normal(len(u), np.float32))
        changed.append(x)
    return batch._replace(u=_scaled(torch.stack(changed, 1))[:, :, None])


def _task(name: str, title: str, file: File, words: int) -> Task:
    frames = {"frames": (256, 1024, 256), "frame_size": (64, 32), "frame_centre": True}
    return Task(
        name=name,
        title=title,
        kind="classify",
        load=partial(_load_speech, file),
        d=1,
        outputs=words,
        size=f"{300 * words:,} recordings, N = 16,000, d = 1",
        models={"unicornn": {**FRAMES_NETWORK, **frames, "hidden_size": 96}},
        training=Training(
            lr=4e-3,
            batch_size=32,
            epochs=25,
            schedule="onecycle",
            optimizer="adamw",
            weight_decay=0.01,
            clip=1.0,
        ),
        options={
            "rate": (RATE, RATE // 2),
            "shift": Number(1200),
            "speed": Number(0.15),
            "noise": Number(0.1),
            "filter": Number(0.5),
        },
        files=[file],
        protocol="Raw waveforms, each divided by its deviation. Split by speaker as published: 18 for training, six "
        "for validation, six for the test. rate=8000: every recording at half the sampling rate. Training recordings "
        "are moved by up to `shift` steps, played up to e^±`speed` times as fast, filtered by u_n + k u_(n-1), |k| up "
        "to `filter`, and have white noise of up to `noise` times their deviation. Ours, not the paper's.",
    )


TASKS = [
    _task("speech", "Ten spoken digits from the raw waveform, unseen speakers", FILE, len(DIGITS)),
    _task("speech40", "Forty spoken words from the raw waveform, unseen speakers", FOLDER, WORDS),
]
