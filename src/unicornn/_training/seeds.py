"""Seeds: reproducible random numbers that leave the caller's generators untouched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seeds torch's random numbers inside the block and restores the generators of all devices at its end."""
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


def derive_seed(*numbers: int) -> int:
    """Derives one seed from several numbers; seeds of neighbouring numbers are unrelated (splitmix64)."""
    value = 0x9E3779B97F4A7C15
    for number in numbers:
        value = (value ^ (number & (2**64 - 1))) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
        value ^= value >> 31
    return value >> 1
