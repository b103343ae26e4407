"""What training changes of its process, and puts back: random numbers, denormal numbers, the answer to SIGTERM."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import torch

from unicornn.errors import Stopped
from unicornn.lab.training._batches import mixed


@contextlib.contextmanager
def seeded(*seed: int) -> Iterator[None]:
    """With random numbers from a seed; the caller's are as before afterwards."""
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(mixed(*seed))
        yield


@contextlib.contextmanager
def no_denormals() -> Iterator[None]:
    """Numbers too small to be normal are zero: vanishing gradients would slow some baselines down."""
    before = sys.float_info.min / 2 == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


class Termination:
    """SIGTERM, to the end of the block: an error, or while ``deferred`` a request that waits for a good moment.

    Python knows signals in its main thread only; elsewhere nothing changes.
    """

    def __init__(self) -> None:
        self.asked = self.deferred = False

    def __enter__(self) -> Termination:
        self.ours = threading.current_thread() is threading.main_thread()
        if self.ours:
            self.before = signal.signal(signal.SIGTERM, self._answer)
        return self

    def __exit__(self, *_: object) -> None:
        if self.ours:
            signal.signal(signal.SIGTERM, self.before)

    def _answer(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if not self.deferred:
            raise Stopped("stopped by SIGTERM; the same command with --resume goes on")
