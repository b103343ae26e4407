"""How Numba kernels are called: in threads of our own, and with a word where they have to be compiled first.

The layer's passes are jobs, each for some sequences, done ``together``. A kernel that can be shared out takes a range
(k0, k1) as its last two arguments. One pool of Python threads, as many as torch's, calls the very function that one
thread would. They wait for each other once, at the end, and asleep, so that another process may have the core. Numba's
own threads (``parallel=True``) would have every kernel compiled a second time, must not be entered by two threads at
once, do not survive a fork, and were no faster.

With one thread no pool is touched, so a forked worker may use the layer.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import torch
from torch import Tensor

from unicornn._ops.cpu.sizes import B

SHARE = 1024
"""Elements of a row that a thread must have to itself (a page): closer neighbours fight over cache lines."""

T = TypeVar("T")

_compiled: set[tuple[Any, torch.dtype]] = set()
_patience = 1.0  # seconds after which a compilation is announced
_SUBNORMAL = 5e-324


def fits(x: Tensor) -> bool:
    """Whether there are kernels for this device and dtype."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)


def threads(blocks: int) -> int:
    """How many threads are worth it for rows of so many blocks."""
    return min(torch.get_num_threads(), blocks * B // SHARE)


@cache
def kernel(module: str, name: str) -> Any:
    """A kernel of a module that is imported on first use, for it brings numba along."""
    return getattr(import_module(module), name)


@cache
def _compilations() -> Any:
    """A listener that counts those that are going on, in ``now``."""
    from unicornn._ops.cpu._numba_internals import event

    class Compilations(event.Listener):
        now = 0

        def on_start(self, event: Any) -> None:
            self.now += 1

        def on_end(self, event: Any) -> None:
            self.now -= 1

    listener = Compilations()
    event.register("numba:compile", listener)
    return listener


@cache
def _say() -> None:
    logging.getLogger("unicornn").warning(
        "unicornn: compiling the CPU kernels; this is done once where they are cached"
    )


def _announce() -> None:
    if _compilations().now:  # not a kernel from the cache that has much to do
        _say()


def call(kernel: Any, dtype: torch.dtype, *args: Any) -> int:
    """Calls a kernel; if it has to be compiled for this dtype, and that takes long, says so."""
    if (kernel, dtype) in _compiled:
        return kernel(*args) or 0
    _compilations()
    timer = threading.Timer(_patience, _announce)
    timer.daemon = True
    timer.start()
    try:
        return kernel(*args) or 0
    finally:
        timer.cancel()
        _compiled.add((kernel, dtype))


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads of this process; a forked one has none of its parent's."""
    return ThreadPoolExecutor(max(os.cpu_count() or 1, torch.get_num_threads()), "unicornn")


def _in_thread(flush: bool, kernel: Any, args: tuple[Any, ...]) -> int:
    torch.set_flush_denormal(flush)
    return kernel(*args) or 0


def together(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """What the jobs return, done in as many threads as torch has, one job after another in each."""
    count = min(len(jobs), torch.get_num_threads())
    if count <= 1:
        return [job() for job in jobs]
    waiting, results = iter(range(len(jobs))), dict[int, T]()
    flush, inference = _SUBNORMAL * 1.0 == 0.0, torch.is_inference_mode_enabled()  # settings of a thread

    def work() -> None:
        torch.set_flush_denormal(flush)
        with torch.inference_mode(inference), torch.no_grad():
            for k in waiting:  # a range's iterator: no two threads get the same
                results[k] = jobs[k]()

    working = [_pool(os.getpid()).submit(work) for _ in range(count)]
    wait(working)  # they write to the caller's memory
    for thread in working:
        thread.result()
    return [results[k] for k in range(len(jobs))]


def share_out(kernel: Any, dtype: torch.dtype, count: int, threads: int, *args: Any) -> int:
    """``kernel(*args, k0, k1)`` over 0 to ``count``, in so many threads; the sum of what it returns."""
    if threads <= 1:
        return call(kernel, dtype, *args, 0, count)
    each = -(-count // threads)
    first, *others = ((k, min(k + each, count)) for k in range(0, count, each))
    flush = _SUBNORMAL * 1.0 == 0.0  # a setting of the thread, torch.set_flush_denormal
    submit = _pool(os.getpid()).submit
    waiting = [submit(_in_thread, flush, kernel, (*args, *share)) for share in others]
    try:
        out = call(kernel, dtype, *args, *first)
    finally:
        wait(waiting)  # they write to the caller's memory
    return out + sum(share.result() for share in waiting)
