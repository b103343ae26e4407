"""Few and long recordings made more: random crops and mirror images in training, votes over crops afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unicornn.lab.tasks._base import Batch
from unicornn.lab.tasks._rows import Over

LENGTHS = {"several": (1.0, 0.5, 0.25), "quarters": (0.25,)}  # of crops, relative to the longest recording
VOTES = 3  # pieces of a sequence that is shifted


@dataclass(frozen=True)
class Crops(Over):
    """The recordings of another Split in pieces.

    In training each recording is a random crop, or its mirror image (-u); all crops of an epoch have one length.
    Afterwards (draw -1) it is seen in equal pieces of the longest of these lengths, each also mirrored, and the
    network's outputs for them are averaged.

    Args:
        whole: the recordings.
        shares: the lengths of crops, relative to the longest recording.
        seed: of the crops.

    Example:
        >>> import torch
        >>> from unicornn.lab.tasks import Sequences
        >>> from unicornn.lab.tasks._crops import Crops
        >>> split = Crops(Sequences(torch.zeros(10, 100, 3), torch.arange(10)), shares=(0.25,), seed=0)
        >>> split.batch(torch.tensor([0, 4]), draw=-1).u.shape  # two recordings, four pieces, mirrored or not
        torch.Size([25, 16, 3])
    """

    shares: tuple[float, ...]
    seed: int

    def batch(self, indices: Tensor, draw: int) -> Batch:
        u, target, lengths = self.whole.batch(indices, draw)
        N, b = u.shape[:2]
        lengths = torch.full((b,), N) if lengths is None else lengths
        if draw < 0:
            k = round(1 / max(self.shares))
            size = (lengths // k).repeat_interleave(k)
            pieces = _cut(u.repeat_interleave(k, 1), torch.arange(k).repeat(b) * size, size)
            return Batch(torch.stack([pieces, -pieces], 2).flatten(1, 2), target, size.repeat_interleave(2))
        longest = int(N * np.random.default_rng((self.seed, draw)).choice(self.shares))
        size, begin, sign = lengths.clamp(max=longest), torch.zeros_like(lengths), torch.ones(b)
        for i, index in enumerate(indices.tolist()):
            random = np.random.default_rng((self.seed, draw, index))
            begin[i] = int(random.integers(int(lengths[i] - size[i]) + 1))
            sign[i] = float(random.choice((-1, 1)))
        return Batch(_cut(u, begin, size) * sign[:, None], target, size)


@dataclass(frozen=True)
class Shifted(Over):
    """The sequences of another Split without ``by`` of their steps: in training, a random number of them at the
    beginning and the rest at the end. Afterwards (draw -1) the network's outputs for several such pieces are averaged.

    A network that reads its last output depends on where a sequence begins; here it learns not to.

    Args:
        whole: sequences of one length.
        by: how many steps are left out, fewer than there are.
        seed: of the beginnings.

    Example:
        >>> import torch
        >>> from unicornn.lab.tasks import Sequences
        >>> from unicornn.lab.tasks._crops import Shifted
        >>> split = Shifted(Sequences(torch.zeros(10, 100, 3), torch.arange(10)), by=20, seed=0)
        >>> split.batch(torch.tensor([0, 4]), draw=0).u.shape
        torch.Size([80, 2, 3])
    """

    by: int
    seed: int

    def batch(self, indices: Tensor, draw: int) -> Batch:
        u, target, _ = self.whole.batch(indices, draw)
        if draw < 0:
            begin = torch.linspace(0, self.by, VOTES).long().repeat(len(indices))
            u = u.repeat_interleave(VOTES, 1)
        else:
            randoms = (np.random.default_rng((self.seed, draw, i)) for i in indices.tolist())
            begin = torch.tensor([int(random.integers(self.by + 1)) for random in randoms])
        return Batch(_cut(u, begin, torch.full_like(begin, len(u) - self.by)), target)


def _cut(u: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    """Of each sequence of u (N, b, d) its steps from begin (b,) on; the longest size (b,) is the new N."""
    steps = torch.arange(int(size.max()))[:, None] + begin
    return u[steps.clamp(max=len(u) - 1), torch.arange(u.shape[1])]
