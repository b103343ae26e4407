"""Small data sets in the original formats, and helpers of every test of a task."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from unicornn.lab.tasks import imdb


def load(task, source, seed=0, **changes):
    """The splits of a task with its default options, except for the changes."""
    return task.load(source, task.check(task.defaults | changes), seed)


def load_real(task, real, **changes):
    """The same from the real data; skips the test if a file is missing."""
    missing = [file.path for file in task.files if not real.has(file)]
    if missing:
        pytest.skip(f"no {missing[0]} in UNICORNN_DATA")
    return load(task, real, **changes)


def everything(split, draw=-1):
    """One batch with all sequences."""
    return split.batch(torch.arange(len(split)), draw)


def sizes(splits):
    return [len(split) for split in splits[:3]]


def idx(array):
    sizes = b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def mnist(folder: Path, n=60, n_test=10, *, packed=True):
    """Writes random images and labels of both splits, and returns them."""
    random, made = np.random.default_rng(0), []
    (folder / "mnist").mkdir()
    for name, count in (("train", n), ("t10k", n_test)):
        images, labels = random.integers(0, 256, (count, 28, 28)), random.integers(0, 10, count)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            path = folder / "mnist" / f"{name}-{kind}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
        made += [images, labels]
    return made


def cifar10(folder: Path, n=10):
    """Writes ``n`` images to each of the six files; returns the images (6, n, 3, 32, 32) and labels (6, n)."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (6, n, 3, 32, 32), np.uint8)
    labels = random.integers(0, 10, (6, n), np.uint8)
    folder.mkdir(parents=True)
    for i, name in enumerate([f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]):
        records = np.concatenate([labels[i, :, None], images[i].reshape(n, -1)], axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    return images, labels


def recordings(path: Path, values, lengths, **labels):
    """Writes recordings one after another to an .npz file, and returns them one by one."""
    path.parent.mkdir()
    np.savez(path, values=values, lengths=lengths, **labels)
    return np.split(values, np.cumsum(lengths)[:-1])


def ts(path: Path, u, labels, *, regression=False):
    """Writes series (n, N, d) to a .ts file."""
    classes = "@targetlabel true" if regression else f"@classLabel true {' '.join(sorted(set(labels)))}"
    lines = [
        "@problemName Small", "@timeStamps false", "@missing false", f"@univariate {str(u.shape[2] == 1).lower()}",
        f"@dimensions {u.shape[2]}", "@equalLength true", f"@seriesLength {u.shape[1]}", classes, "@data",
    ]  # fmt: skip
    for x, label in zip(u, labels, strict=True):
        lines.append(":".join([*(",".join(f"{v:.6g}" for v in channel) for channel in x.T), str(label)]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


COMMON = [f"word{i}" for i in range(40)]


def vector(word):
    """A vector as long as GloVe's that identifies the word."""
    return [COMMON.index(word) + 1.0] * 100


def texts():
    """20 reviews for each split and feeling; each has a rare word that is in no other."""
    random = np.random.default_rng(0)
    made = {}
    for split, feeling in imdb.FOLDERS:
        made[split, feeling] = [
            " ".join([*random.choice(COMMON, random.integers(1, 30)), f"{split}{feeling}{i}"]) for i in range(20)
        ]
    made["test", "pos"][3] = made["train", "neg"][6] = "<br /><br />"
    return made
