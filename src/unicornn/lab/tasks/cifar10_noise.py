"""Noise-padded CIFAR-10: the 32 rows of an image, one per step, then 968 steps of noise.

A step holds the red, green and blue pixels of a row, 3 × 32 numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn.errors import BadValue, CorruptData
from unicornn.lab.data._archives import members
from unicornn.lab.data._files import File, Source
from unicornn.lab.data._formats import read_cifar10
from unicornn.lab.data._splits import random_split
from unicornn.lab.tasks._base import (
    Batch,
    Number,
    Sequences,
    Splits,
    Task,
    Training,
    epoch_lengths,
    length_in_epoch,
    published,
)
from unicornn.lab.tasks._views import View

N, ROWS, D = 1000, 32, 96
MEAN_AND_DEVIATION = 0.4734, 0.2516  # of all pixels of the training images, in [0, 1]

FILE = File(
    "cifar-10-binary.tar.gz",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    hash="md5:c32a1d4ab5d03f1284b67883e8d87530",
    also=("cifar-10-batches-bin",),
)
BATCHES = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]


@dataclass(frozen=True)
class _Padded:
    """Rows (32, b, 96) of bytes to sequences (N, b, 96): the pixels, then noise.

    The noise is "fresh": uniform, different for every image and epoch, always the same with draw -1; or "shared":
    N(0, 1), the same for all images.
    """

    noise: str
    seed: int  # of the noise in training; that of validation and test is the same for all seeds
    first: int  # number of the first image, so that no test image shares its noise with a training image
    lengths: tuple[int, ...] = (N,)  # see ``epoch_lengths``
    mean: float = 0.0  # subtracted from pixels and uniform noise
    deviation: float = 1.0  # their divisor
    flip: bool = False  # whether to mirror a random half of the images (left and right) in every training epoch

    def __call__(self, batch: Batch, indices: Tensor, draw: int) -> Batch:
        return batch._replace(u=self._padded(batch.u.transpose(0, 1), indices, draw).transpose(0, 1))

    def _padded(self, rows: Tensor, indices: Tensor, draw: int) -> Tensor:
        """Rows (b, 32, 96) to sequences (b, N, 96)."""
        steps = length_in_epoch(self.lengths, draw)
        if self.flip and draw >= 0:
            swapped = [_random(self.seed, index, draw, 1).random() < 0.5 for index in (self.first + indices).tolist()]
            mirrored = rows.unflatten(2, (3, 32)).flip(3).flatten(2)
            rows = torch.where(torch.tensor(swapped)[:, None, None], mirrored, rows)
        u = torch.empty(len(rows), steps, D)
        torch.div(rows, 255, out=u[:, :ROWS])
        if self.noise == "shared":
            u[:, :ROWS].sub_(self.mean).div_(self.deviation)
            u[:, ROWS:] = torch.from_numpy(_random(0).standard_normal((steps - ROWS, D), dtype=np.float32))
            return u
        for i, index in enumerate((self.first + indices).tolist()):
            random = _random(self.seed, index, draw + 1) if draw >= 0 else _random(0, index, 0)
            random.random(dtype=np.float32, out=u[i, ROWS:].numpy())
        return u.sub_(self.mean).div_(self.deviation)


def _random(*key: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(key))


def _parse(path: Path) -> dict[str, np.ndarray]:
    """Images of both splits as rows (n, 32, 96), and labels (n,)."""
    parsed = {}
    for name, content in members(path, *BATCHES):
        images, labels = read_cifar10(content, f"{path}: {name}")
        parsed[name.rpartition("/")[2]] = images.transpose(0, 2, 1, 3).reshape(-1, ROWS, D), labels
    if missing := [name for name in BATCHES if name not in parsed]:
        raise CorruptData(f"{path}: expected {', '.join(BATCHES)} in it; {', '.join(missing)} is missing")
    *train, test = (parsed[name] for name in BATCHES)
    return {
        "train": np.concatenate([images for images, _ in train]),
        "train_labels": np.concatenate([labels for _, labels in train]),
        "test": test[0],
        "test_labels": test[1],
    }


def _load_cifar10_noise(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    [path] = source.find(FILE)
    images, lengths = options["images"], epoch_lengths(options, options["steps"])
    arrays = source.cached("cifar10", [path], "rows", lambda: _parse(path))
    statistics = MEAN_AND_DEVIATION if options["pixels"] == "standardised" else (0.0, 1.0)
    splits, first = [], 0
    for name in ("train", "test"):
        target = torch.from_numpy(arrays[f"{name}_labels"].astype("int64"))
        padded = _Padded(options["noise"], seed, first, lengths, *statistics, options["flip"])
        splits.append(View(Sequences(arrays[name], target), change=padded))
        first += len(target)
    train, test = splits
    rows, valid = random_split(len(train), (len(train) // 25,), options["split_seed"])
    if images > len(rows):
        raise BadValue(f"images: expected at most the {len(rows)} of the training set, got {images}")
    return Splits(View(train, rows[: images or None]), View(train, valid), test)


TASK = Task(
    name="cifar10-noise",
    title="Noise-padded CIFAR-10",
    kind="classify",
    load=_load_cifar10_noise,
    d=D,
    outputs=10,
    size="48,000 / 2,000 / 10,000 images, N = 1000, d = 96",
    models={
        "unicornn": {"hidden_size": 128, "num_layers": 3, "dt": 0.126, "alpha": 13.0, "dropout": 0.1},
        **{name: {"hidden_size": 128} for name in ("lstm", "incremental", "fastrnn", "cornn")},
        **{name: {"hidden_size": 256} for name in ("lipschitz", "antisymmetric", "gated-antisymmetric")},
    },
    training=Training(lr=3.14e-2, batch_size=30, epochs=500, drop_after=250),
    options={
        "noise": ("fresh", "shared"),
        "steps": Number(N, least=ROWS),
        "images": Number(0),
        "pixels": ("raw", "standardised"),
        "flip": (False, True),
        "short_epochs": Number((0,)),
        "short_steps": Number((100,), least=ROWS),
        "split_seed": Number(0),
    },
    variants={"authors": {"lr": 3.14e-3, "noise": "shared"}},
    paper=published("cifar10-noise"),
    files=[FILE],
    protocol="48k/2k/10k images, one random split for all seeds; pixels in [0, 1], no augmentation (flip=true mirrors "
    "a random half of the training images in every epoch). Uniform noise, different for every image and epoch, fixed "
    "in validation and test; the variant `authors` follows their code: the same N(0, 1) noise for all images, an "
    "easier task, and lr 3.14e-3. steps (N) and images (of the training set; 0 for all) make the task smaller; report "
    "such results separately. In the first short_epochs epochs, training sequences end after short_steps steps; "
    "several numbers for both are consecutive stages. pixels=standardised: mean 0 and deviation 1 over all training "
    "images, and uniform noise in the range of the pixels. Table 2 has the best run of each model, Table 8 mean and "
    "deviation of 10 runs.",
)
