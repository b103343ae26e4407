"""Random changes of training batches, to be used with ``Augmented``; they depend on (seed, epoch, index) alone.

In validation and test (draw -1), crops and shifts give several pieces of each sequence, and the network's outputs for
them are averaged.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from unicornn.lab.tasks._base import Batch

SHIFTED_PIECES = 3  # of a shifted sequence, in validation and test


def crop(batch: Batch, indices: Tensor, draw: int, *, shares: tuple[float, ...], seed: int) -> Batch:
    """A random crop of each sequence, or its mirror image (-u).

    The crops of an epoch have one length, a random one of ``shares``, which are relative to the longest sequence. In
    validation and test, sequences are cut into equal pieces of the largest share, each with its mirror image.
    """
    u, target, lengths = batch
    N, b = u.shape[:2]
    lengths = torch.full((b,), N) if lengths is None else lengths
    if draw < 0:
        k = round(1 / max(shares))
        size = (lengths // k).repeat_interleave(k)
        pieces = _cut(u.repeat_interleave(k, 1), torch.arange(k).repeat(b) * size, size)
        return Batch(torch.stack([pieces, -pieces], 2).flatten(1, 2), target, size.repeat_interleave(2))
    longest = int(N * np.random.default_rng((seed, draw)).choice(shares))
    size, begin, sign = lengths.clamp(max=longest), torch.zeros_like(lengths), torch.ones(b)
    for i, index in enumerate(indices.tolist()):
        random = np.random.default_rng((seed, draw, index))
        begin[i] = int(random.integers(int(lengths[i] - size[i]) + 1))
        sign[i] = float(random.choice((-1, 1)))
    return Batch(_cut(u, begin, size) * sign[:, None], target, size)


def shift(batch: Batch, indices: Tensor, draw: int, *, steps: int, seed: int) -> Batch:
    """Each sequence without ``steps`` of its steps, a random number of them at the beginning and the rest at the end.

    A network that reads the last output depends on where a sequence begins; shifts teach it not to. Sequences must have
    the same length. In validation and test there are three pieces of each, evenly spaced.
    """
    u, target, _ = batch
    if draw < 0:
        begin = torch.linspace(0, steps, SHIFTED_PIECES).long().repeat(len(indices))
        u = u.repeat_interleave(SHIFTED_PIECES, 1)
    else:
        randoms = (np.random.default_rng((seed, draw, i)) for i in indices.tolist())
        begin = torch.tensor([int(random.integers(steps + 1)) for random in randoms])
    return Batch(_cut(u, begin, torch.full_like(begin, len(u) - steps)), target)


def stretch(batch: Batch, indices: Tensor, draw: int, *, by: float, seed: int) -> Batch:
    """Each sequence played s times as fast, and its target, a rate, multiplied by s; no change in validation and test.

    log s is uniform within ± log(1 + by), with ``by`` in [0, 1). Values between samples are interpolated. A sequence
    that ends too early is continued by itself in reverse, which keeps the rate.
    """
    u, target, lengths = batch
    if draw < 0:
        return batch
    most = np.log1p(by)
    logs = [np.random.default_rng((seed, draw, i)).uniform(-most, most) for i in indices.tolist()]
    s = torch.tensor(logs).exp().float()
    end = len(u) - 1
    at = torch.arange(len(u))[:, None] * s
    at = torch.where(at > end, 2 * end - at, at).clamp(min=0)
    before = at.long().clamp(max=end - 1)
    fraction, columns = (at - before)[..., None], torch.arange(u.shape[1])
    return Batch(torch.lerp(u[before, columns], u[before + 1, columns], fraction), target * s, lengths)


def _cut(u: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    """Steps of each sequence in u (N, b, d) from begin (b,) on; the new N is the largest size (b,)."""
    steps = torch.arange(int(size.max()))[:, None] + begin
    return u[steps.clamp(max=len(u) - 1), torch.arange(u.shape[1])]
