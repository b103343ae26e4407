"""Long recordings, standardised, of which the network may be shown a few entries only: the study of Fig. 3.

``subsample=last``: the last entries of each recording. ``subsample=random``: entries at random times, in order; the
same times for all recordings. The paper does not say whether its times are; they belong to the data, so they depend on
``split_seed``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn.errors import BadValue
from unicornn.lab.tasks._base import Sequences, Split, Splits
from unicornn.lab.tasks._crops import LENGTHS, Crops
from unicornn.lab.tasks._rows import Moments, splits

N = 17_984
OPTIONS = {"subsample": ("none", "last", "random"), "entries": (N,), "crops": ("none", *LENGTHS), "split_seed": (0,)}
VARIANTS: dict[str, dict[str, Any]] = {  # the paper's two ways to spare an LSTM the whole length
    "t-bptt": {"bptt": 500},
    "sub-sampled": {"subsample": "random", "entries": 200},
}


@dataclass(frozen=True)
class Entries:
    """Recordings (b, N, d) to what the network sees, (b, entries, d).

    Args:
        mean, deviation: (d,), by which they are standardised.
        begin: (n,) or None: where each recording's entries begin, if they are consecutive.
        times: (entries,): times of the entries, counted from there.
    """

    mean: Tensor
    deviation: Tensor
    begin: Tensor | None
    times: Tensor

    def __call__(self, u: Tensor, indices: Tensor, draw: int) -> Tensor:
        if self.begin is not None:
            times = self.begin[indices, None] + self.times
            u = u.gather(1, times[:, :, None].expand(-1, -1, u.shape[2]))
        elif len(self.times) < u.shape[1]:
            u = u[:, self.times]
        return (u - self.mean) / self.deviation


def recordings(
    u: np.ndarray,
    target: Tensor,
    lengths: np.ndarray,
    moments: Moments,
    rows: Sequence[np.ndarray],
    options: Mapping[str, Any],
    seed: int,
) -> Splits:
    """The three splits of a set of recordings.

    Args:
        u: (n, N, d), anything where a recording is shorter than N.
        target: (n,).
        lengths: (n,).
        moments: of the recordings.
        rows: the indices of training, validation and test.
        options: ``OPTIONS``.
        seed: of the random crops.
    """
    longest, entries = u.shape[1], checks.integer("entries", options["entries"], 1)
    how, begin, times = options["subsample"], None, np.arange(longest)
    statistics = moments.over(rows[0], lengths)
    if how != "none" and entries > longest:
        raise BadValue(f"entries: expected at most the {longest} of a recording, got {entries}")
    if how == "last":
        times = np.arange(entries)
        begin = torch.from_numpy(np.maximum(lengths - entries, 0))
        lengths = np.minimum(lengths, entries)
    elif how == "random":
        times = np.sort(np.random.default_rng(options["split_seed"]).permutation(longest)[:entries])
        lengths = np.searchsorted(times, lengths)
    change = Entries(*statistics, begin, torch.from_numpy(times))
    ragged = None if (lengths == len(times)).all() else torch.from_numpy(lengths)
    whole: Split = Sequences(u, target, ragged, change)
    if options["crops"] != "none":
        whole = Crops(whole, LENGTHS[options["crops"]], seed)
    return splits(whole, rows)
