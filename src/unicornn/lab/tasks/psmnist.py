"""MNIST pixel by pixel: in a fixed random order (psMNIST), in the order of papers since S4, or in that of the image.

The random permutation is the one of the literature, torch.randperm(784) with seed 5544. "Permuted MNIST" in papers
since S4 means another one: the bit reversal of the numbers below 1024, restricted to those of the 784 pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unicornn.errors import CorruptData
from unicornn.lab.data._files import File, Source
from unicornn.lab.data._formats import read_idx
from unicornn.lab.data._splits import random_split
from unicornn.lab.tasks._base import Batch, Number, Sequences, Splits, Task, Training, published
from unicornn.lab.tasks._views import View

PIXELS = 28 * 28

FILES = [
    File(
        f"mnist/{name}.gz",
        url=f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz",
        hash=f"md5:{md5}",
        also=(f"mnist/{name}",),
    )
    for name, md5 in (
        ("train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c"),
    )
]


def _permutation(name: str) -> Tensor:
    """Order of the 784 pixels: "random", "bit-reversal" or "none"."""
    if name == "random":
        return torch.randperm(PIXELS, generator=torch.Generator().manual_seed(5544))
    if name == "bit-reversal":
        return torch.tensor(sorted(range(PIXELS), key=lambda i: f"{i:010b}"[::-1]))
    return torch.arange(PIXELS)


def _in_order(order: Tensor, batch: Batch, indices: Tensor, draw: int) -> Batch:
    """Bytes (784, b) to sequences (784, b, 1) in [0, 1]."""
    return batch._replace(u=(batch.u[order].float() / 255).unsqueeze(-1))


def _read(images: Path, labels: Path, order: Tensor) -> View:
    u, target = torch.from_numpy(read_idx(images, 3).copy()), torch.from_numpy(read_idx(labels, 1).astype("int64"))
    if u.shape[1:] != (28, 28) or len(u) != len(target):
        raise CorruptData(
            f"{images}: expected {len(target)} images (one per label) of 28 × 28 pixels, got {tuple(u.shape)}"
        )
    if target.max() > 9:
        raise CorruptData(f"{labels}: expected labels from 0 to 9, got {int(target.max())}")
    return View(Sequences(u.flatten(1), target), change=partial(_in_order, order))


def _load_psmnist(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    paths, order = source.find(*FILES), _permutation(options["permutation"])
    train, test = _read(paths[0], paths[1], order), _read(paths[2], paths[3], order)
    rows, valid = random_split(len(train), (len(train) // 20,), options["split_seed"])
    return Splits(View(train, rows), View(train, valid), test)


TASK = Task(
    name="psmnist",
    title="Permuted sequential MNIST",
    kind="classify",
    load=_load_psmnist,
    d=1,
    outputs=10,
    size="57,000 / 3,000 / 10,000 images, N = 784, d = 1",
    models={
        "unicornn": {"hidden_size": 128, "num_layers": 3, "dt": 0.482, "alpha": 12.53, "dropout": 0.1},
        "indrnn": {"hidden_size": 128, "num_layers": 6},
        "exprnn": {"hidden_size": 512},
        **{name: {"hidden_size": 256} for name in ("lstm", "gru", "cornn")},
    },
    training=Training(lr=1.14e-3, batch_size=64, epochs=2600, drop_after=650),
    options={"permutation": ("random", "bit-reversal", "none"), "split_seed": Number(0)},
    variants={
        "256": {"hidden_size": 256, "dt": 0.19, "alpha": 30.65, "lr": 2.51e-3, "batch_size": 32},
        "dense": {"connection": "dense"},  # of IndRNN
    },
    paper=published("psmnist"),
    files=FILES,
    protocol="57k/3k/10k images, one random split for all seeds; pixels in [0, 1]. permutation=random is that of the "
    "literature (seed 5544); bit-reversal, that of papers since S4, is a different task, to be reported separately; "
    "none is sequential MNIST. Table 1 has the best run of each model, Table 8 mean and deviation of 10 runs.",
)
