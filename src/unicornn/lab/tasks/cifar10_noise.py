"""Noise-padded CIFAR-10: the 32 rows of an image, one per step, then 968 steps of noise.

A step holds a row's red, green and blue pixels, 3 × 32 numbers in [0, 1]; nothing else is done to them, as in the
authors' code. The noise is uniform in [0, 1], the range of the pixels, as in the paper.
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
from unicornn.lab.data._archives import members
from unicornn.lab.data._files import File, Source
from unicornn.lab.data._formats import read_cifar10
from unicornn.lab.data._splits import held_out
from unicornn.lab.tasks._base import Quoted, Sequences, Splits, Task, Training
from unicornn.lab.tasks._rows import Rows

N, ROWS, D = 1000, 32, 96

FILE = File(
    "cifar-10-binary.tar.gz",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    hash="md5:c32a1d4ab5d03f1284b67883e8d87530",
    also=("cifar-10-batches-bin",),
)
BATCHES = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]


@dataclass(frozen=True)
class Padded:
    """Rows (b, 32, 96) of bytes to sequences (b, 1000, 96): the pixels, then noise.

    Args:
        noise: "fresh": uniform, anew for every image and epoch, always the same with draw -1. "fixed": uniform, one
            tail per image. "shared": N(0, 1), the same tail for all images.
        seed: of the noise in training; that of validation and test is the same for all seeds.
        first: the number of the first image, so that no test image shares its noise with a training image.
        steps: N, the image and the noise together.
        short_epochs, short_steps: the first so many epochs of training end after so many steps.

    Example:
        >>> import torch
        >>> from unicornn.lab.tasks.cifar10_noise import Padded
        >>> rows = torch.zeros(2, 32, 96, dtype=torch.uint8)
        >>> Padded("fresh", seed=0, first=0)(rows, torch.tensor([5, 7]), draw=3).shape
        torch.Size([2, 1000, 96])
    """

    noise: str
    seed: int
    first: int
    steps: int = N
    short_epochs: int = 0
    short_steps: int = N

    def __call__(self, rows: Tensor, indices: Tensor, draw: int) -> Tensor:
        steps = self.short_steps if 0 <= draw < self.short_epochs else self.steps
        u = torch.empty(len(rows), steps, D)
        torch.div(rows, 255, out=u[:, :ROWS])
        if self.noise == "shared":
            u[:, ROWS:] = torch.from_numpy(_random(0).standard_normal((steps - ROWS, D), dtype=np.float32))
            return u
        changing = self.noise == "fresh" and draw >= 0
        for i, index in enumerate((self.first + indices).tolist()):
            random = _random(self.seed, index, draw + 1) if changing else _random(0, index, 0)
            random.random(dtype=np.float32, out=u[i, ROWS:].numpy())
        return u


def _random(*key: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(key))


def _parse(path: Path) -> dict[str, np.ndarray]:
    """Images as rows (n, 32, 96), and labels (n,)."""
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


def load(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    [path] = source.find(FILE)
    images = checks.whole("images", options["images"], 0)
    steps, short = (checks.whole(name, options[name], ROWS) for name in ("steps", "short_steps"))
    lengths = steps, checks.whole("short_epochs", options["short_epochs"], 0), short
    arrays = source.cached("cifar10", [path], "rows", lambda: _parse(path))
    splits, first = [], 0
    for name in ("train", "test"):
        target = torch.from_numpy(arrays[f"{name}_labels"].astype("int64"))
        splits.append(Sequences(arrays[name], target, change=Padded(options["noise"], seed, first, *lengths)))
        first += len(target)
    train, test = splits
    rows, valid = held_out(len(train), (len(train) // 25,), options["split_seed"])
    if images > len(rows):
        raise BadValue(f"images: expected at most the {len(rows)} of the training set, got {images}")
    return Splits(Rows(train, rows[: images or None]), Rows(train, valid), test)


TASK = Task(
    name="cifar10-noise",
    title="Noise-padded CIFAR-10",
    kind="classify",
    load=load,
    d=D,
    outputs=10,
    size="48,000 / 2,000 / 10,000 images, N = 1000, d = 96",
    models={
        "unicornn": {"hidden_size": 128, "num_layers": 3, "dt": 0.126, "alpha": 13.0, "dropout": 0.1},
        "lstm": {"hidden_size": 128},
        "incremental": {"hidden_size": 128},
        "lipschitz": {"hidden_size": 256},
        "fastrnn": {"hidden_size": 128},
        "antisymmetric": {"hidden_size": 256},
        "gated-antisymmetric": {"hidden_size": 256},
        "cornn": {"hidden_size": 128},
    },
    training=Training(lr=3.14e-2, batch_size=30, epochs=500, drop_after=250),
    options={
        "noise": ("fresh", "fixed", "shared"),
        "steps": (N,),
        "images": (0,),
        "short_epochs": (0,),
        "short_steps": (100,),
        "split_seed": (0,),
    },
    variants={"authors": {"lr": 3.14e-3, "noise": "shared"}},
    paper=(
        Quoted("LSTM", 0.116, units=128, parameters=64_000, source="tab:cifar"),
        Quoted("Incremental RNN", 0.545, units=128, parameters=12_000, source="tab:cifar"),
        Quoted("Lipschitz RNN", 0.558, units=256, parameters=158_000, source="tab:cifar"),
        Quoted("FastRNN", 0.458, units=128, parameters=16_000, source="tab:cifar"),
        Quoted("anti.sym. RNN", 0.483, units=256, parameters=36_000, source="tab:cifar"),
        Quoted("gated anti.sym. RNN", 0.547, units=256, parameters=37_000, source="tab:cifar"),
        Quoted("coRNN", 0.590, units=128, parameters=46_000, source="tab:cifar"),
        Quoted("UnICORNN (L=3)", 0.624, units=128, parameters=47_000, source="tab:cifar"),
        Quoted("UnICORNN (L=3)", 0.615, 0.0052, units=128, parameters=47_000, source="tab:distr_results"),
    ),
    files=[FILE],
    protocol="48k/2k/10k images, one random split for all seeds; pixels in [0, 1], no augmentation. Uniform noise, "
    "drawn anew for every image and epoch, fixed in validation and test; the variant `authors` has what their code "
    "has: one N(0, 1) tail for all images, which is an easier task, and lr 3.14e-3. steps (N) and images "
    "(of the training set; 0 for all) make it a smaller task, with results of its own; in the first short_epochs, "
    "training sequences, and no others, end after short_steps. tab:cifar has the best run of "
    "each model, tab:distr_results mean and deviation of 10.",
)
