"""Recordings played faster and slower, for rates: few people made more, each of whom has more than one rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unicornn.lab.tasks._base import Batch
from unicornn.lab.tasks._rows import Over


@dataclass(frozen=True)
class Stretched(Over):
    """The sequences of another Split, whose targets are rates, played s times as fast in training; s times the rate.

    log s is uniform within ± log(1 + by). Samples in between are interpolated. A sequence that ends too early is
    followed by itself in reverse, which keeps the rate. Afterwards (draw -1) nothing is changed.

    Args:
        whole: the sequences.
        by: how much faster or slower at most, below 1: 0.5 is up to half as fast again.
        seed: of the speeds.

    Example:
        >>> import torch
        >>> from unicornn.lab.tasks import Sequences
        >>> from unicornn.lab.tasks._stretch import Stretched
        >>> split = Stretched(Sequences(torch.zeros(10, 100, 3), torch.full((10,), 60.0)), by=0.5, seed=0)
        >>> rates = split.batch(torch.arange(10), draw=0).target
        >>> 40 < rates.min() < rates.max() < 90
        tensor(True)
    """

    by: float
    seed: int

    def batch(self, indices: Tensor, draw: int) -> Batch:
        u, target, lengths = self.whole.batch(indices, draw)
        if draw < 0:
            return Batch(u, target, lengths)
        most = np.log1p(self.by)
        logs = [np.random.default_rng((self.seed, draw, i)).uniform(-most, most) for i in indices.tolist()]
        s = torch.tensor(logs).exp().float()
        end = len(u) - 1
        at = torch.arange(len(u))[:, None] * s
        at = torch.where(at > end, 2 * end - at, at).clamp(min=0)
        before = at.long().clamp(max=end - 1)
        share, columns = (at - before)[..., None], torch.arange(u.shape[1])
        return Batch(torch.lerp(u[before, columns], u[before + 1, columns], share), target * s, lengths)
