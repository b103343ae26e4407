"""Scikit-learn's 1,797 handwritten digits of 8 × 8 pixels: nothing to download, learned in minutes.

``digits-noise``: the rows of a digit, then noise up to N = 1000; a small version of noise-padded CIFAR-10.
``digits``: the 64 pixels one by one in a fixed random order; a small version of permuted sequential MNIST.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn.lab.data._files import Source
from unicornn.lab.tasks._base import Batch, Sequences, Splits, Task, Training
from unicornn.lab.tasks._views import Change, View

N = 1000


def _load_digits() -> tuple[Tensor, Tensor]:
    """Images (n, 8, 8) with pixels from 0 to 16, and classes (n,)."""
    from sklearn.datasets import load_digits

    images, classes = load_digits(return_X_y=True)
    return torch.from_numpy(images.reshape(-1, 8, 8)).float(), torch.from_numpy(classes)


def _stratified(u: Tensor, target: Tensor, change: Change | None = None) -> Splits:
    """60 / 20 / 20 %, the same for every seed."""
    from sklearn.model_selection import train_test_split

    rest, test_rows = train_test_split(np.arange(len(u)), test_size=0.2, stratify=target, random_state=0)
    train_rows, valid_rows = train_test_split(rest, test_size=0.25, stratify=target[rest], random_state=0)
    train, valid, test = (View(Sequences(u[r], target[r]), change=change) for r in (train_rows, valid_rows, test_rows))
    return Splits(train, valid, test)


def _noise_padded(batch: Batch, indices: Tensor, draw: int) -> Batch:
    """Rows (8, b, 8), then uniform noise in [0, 16] up to N, which depends on the image's index and the epoch."""
    noise = torch.empty(len(indices), N - len(batch.u), batch.u.shape[2])
    for i, index in enumerate(indices.tolist()):
        np.random.Generator(np.random.SFC64([index, draw + 1])).random(dtype=np.float32, out=noise[i].numpy())
    return batch._replace(u=torch.cat([batch.u, 16 * noise.transpose(0, 1)]))


def _load_digits_noise(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    return _stratified(*_load_digits(), _noise_padded)


def _load_permuted_digits(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    images, classes = _load_digits()
    order = torch.randperm(64, generator=torch.Generator().manual_seed(5544))
    return _stratified(images.flatten(1)[:, order, None] / 16, classes)


def _task(name: str, dt: float, alpha: float, size: str, **options: Any) -> Task:
    return Task(
        name=name,
        kind="classify",
        outputs=10,
        size=f"1,797 sequences, {size}",
        models={
            "unicornn": {"hidden_size": 64, "num_layers": 3, "dt": dt, "alpha": alpha},
            "lstm": {"hidden_size": 44},  # the same number of parameters
        },
        training=Training(lr=1e-2, batch_size=64, epochs=60, schedule="onecycle", clip=1.0),
        **options,
    )


TASKS = [
    _task(
        "digits-noise", dt=0.25, alpha=13.0, size="N = 1000, d = 8", d=8, load=_load_digits_noise,
        title="Handwritten digits, then noise up to a thousand steps",
        protocol="60/20/20 %, stratified, one split for all seeds. Pixels in [0, 16], one row per step; uniform noise "
        "in that range, different in every training epoch, fixed in validation and test. Ours, not the paper's.",
    ),
    _task(
        "digits", dt=0.48, alpha=12.5, size="N = 64, d = 1", d=1, load=_load_permuted_digits,
        title="Handwritten digits pixel by pixel, permuted",
        protocol="60/20/20 %, stratified, one split for all seeds; one random permutation. Ours, not the paper's.",
    ),
]  # fmt: skip
