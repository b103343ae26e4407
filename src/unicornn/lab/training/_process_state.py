"""Process-wide state that training changes and restores: denormal numbers, the handler of SIGTERM."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import torch

from unicornn.lab.errors import Stopped


@contextlib.contextmanager
def flush_denormals() -> Iterator[None]:
    """Treats denormal numbers as zero: vanishing gradients would slow some baselines down."""
    before = sys.float_info.min / 2 == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


class Termination:
    """Turns SIGTERM into ``Stopped``, or while ``deferred`` into a request that the training loop looks for.

    Only the main thread can handle signals; in other threads nothing changes.
    """

    def __init__(self) -> None:
        self.requested = self.deferred = False

    def __enter__(self) -> Termination:
        self.main_thread = threading.current_thread() is threading.main_thread()
        if self.main_thread:
            self.before = signal.signal(signal.SIGTERM, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self.main_thread:
            signal.signal(signal.SIGTERM, self.before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        if not self.deferred:
            raise Stopped("stopped by SIGTERM; the same command with --resume continues")
