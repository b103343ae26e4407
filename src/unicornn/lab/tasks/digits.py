"""Scikit-learn's 1797 handwritten digits, 8 × 8 pixels: nothing to download, minutes to learn.

``digits-noise``: the rows of a digit, then noise up to N = 1000, the noise-padded CIFAR-10 task in small.
``digits``: the 64 pixels one by one in a fixed random order, the permuted sequential MNIST task in small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn.lab.data._files import Source
from unicornn.lab.tasks._base import Sequences, Splits, Task, Training

N = 1000


def _splits(u: Tensor, target: Tensor, change: Callable[[Tensor, Tensor, int], Tensor] | None = None) -> Splits:
    """60 / 20 / 20 %, stratified, the same for every seed."""
    from sklearn.model_selection import train_test_split

    rest, test = train_test_split(np.arange(len(u)), test_size=0.2, stratify=target, random_state=0)
    train, valid = train_test_split(rest, test_size=0.25, stratify=target[rest], random_state=0)
    return Splits.of(
        Sequences(u[split], target[split], change=change) for split in map(torch.from_numpy, (train, valid, test))
    )


def _digits() -> tuple[Tensor, Tensor]:
    """Images (n, 8, 8) with pixels in 0 ... 16, as scikit-learn gives them, and classes (n,)."""
    from sklearn.datasets import load_digits

    images, classes = load_digits(return_X_y=True)
    return torch.from_numpy(images.reshape(-1, 8, 8)).float(), torch.from_numpy(classes)


def noise_padded(rows: Tensor, indices: Tensor, draw: int) -> Tensor:
    """Rows (b, 8, 8), then noise, uniform in [0, 16], up to N: drawn from each image's index and the epoch."""
    u = torch.empty(len(rows), N, rows.shape[2])
    u[:, : rows.shape[1]] = rows
    for i, index in enumerate(indices.tolist()):
        noise = np.random.Generator(np.random.SFC64([index, draw + 1]))
        noise.random(dtype=np.float32, out=u[i, rows.shape[1] :].numpy())
    u[:, rows.shape[1] :] *= 16
    return u


def load_noise(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    return _splits(*_digits(), noise_padded)


def load_permuted(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    images, classes = _digits()
    order = torch.randperm(64, generator=torch.Generator().manual_seed(5544))
    return _splits(images.flatten(1)[:, order, None] / 16, classes)


TASKS = [
    Task(
        name="digits-noise",
        title="Handwritten digits, then noise up to a thousand steps",
        kind="classify",
        load=load_noise,
        d=8,
        outputs=10,
        size="1,797 sequences, N = 1000, d = 8",
        models={
            "unicornn": {"hidden_size": 64, "num_layers": 3, "dt": 0.25, "alpha": 13.0},
            "lstm": {"hidden_size": 44},  # the same number of parameters
        },
        training=Training(lr=1e-2, batch_size=64, epochs=60, schedule="onecycle", clip=1.0),
        protocol="60/20/20 %, stratified, one split for all seeds. Pixels in [0, 16], one row per step; uniform noise "
        "in that range, drawn anew for every training epoch, fixed in validation and test. Ours, not the paper's.",
    ),
    Task(
        name="digits",
        title="Handwritten digits pixel by pixel, permuted",
        kind="classify",
        load=load_permuted,
        d=1,
        outputs=10,
        size="1,797 sequences, N = 64, d = 1",
        models={
            "unicornn": {"hidden_size": 64, "num_layers": 3, "dt": 0.48, "alpha": 12.5},
            "lstm": {"hidden_size": 44},
        },
        training=Training(lr=1e-2, batch_size=64, epochs=60, schedule="onecycle", clip=1.0),
        protocol="60/20/20 %, stratified, one split for all seeds; one random permutation. Ours, not the paper's.",
    ),
]
