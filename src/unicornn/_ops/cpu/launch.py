"""How Numba kernels are called: imported on first use, in a thread pool, with a message if they are being compiled.

The passes of the layer are jobs, each for some sequences, run by ``together``. ``share_out`` divides a kernel that
takes a range (k0, k1) as its last two arguments. One pool of Python threads, as many as torch's, calls the same
compiled function as a single thread would. Numba's own threads (``parallel=True``) would compile every kernel a second
time, must not be entered by two threads at once, do not survive a fork, and were no faster.

With one thread the pool is not used, so a forked worker may use the layer.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import torch
from torch import Tensor

from unicornn._ops.cpu.sizes import B

SHARE = 1024
"""Elements of a row per thread, at least (a page): threads closer to each other contend for cache lines."""

T = TypeVar("T")

_compiled: set[tuple[Any, torch.dtype]] = set()
_patience = 1.0  # seconds after which a compilation is announced
_SUBNORMAL = 5e-324


def fits(x: Tensor) -> bool:
    """Whether there are kernels for this device and dtype."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)


def threads(blocks: int) -> int:
    """Number of threads worth using for rows of this many blocks."""
    return min(torch.get_num_threads(), blocks * B // SHARE)


@cache
def kernel(module: str, name: str) -> Any:
    """A kernel, or another name, of a module that is imported on first use because it imports numba."""
    return getattr(import_module(module), name)


@cache
def _log_compilation() -> None:
    logging.getLogger("unicornn").warning(
        "unicornn: compiling the CPU kernels; this is done once where they are cached"
    )


def call(kernel: Any, dtype: torch.dtype, *args: Any) -> int:
    """Calls a kernel; logs a message if it has to be compiled for this dtype and that takes long."""
    if (kernel, dtype) in _compiled:
        return kernel(*args) or 0
    before = len(getattr(kernel, "overloads", ()))

    def announce() -> None:
        if len(getattr(kernel, "overloads", ())) == before:  # otherwise it is running, no longer being compiled
            _log_compilation()

    timer = threading.Timer(_patience, announce)
    timer.daemon = True
    timer.start()
    try:
        return kernel(*args) or 0
    finally:
        timer.cancel()
        _compiled.add((kernel, dtype))


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads of this process; a fork inherits none of its parent's."""
    return ThreadPoolExecutor(max(os.cpu_count() or 1, torch.get_num_threads()), "unicornn")


def _run(count: int, work: Callable[[int], Any], own: Callable[[], T]) -> tuple[T, list[Any]]:
    """Results of ``own()`` in this thread and of ``work(0)`` to ``work(count - 1)`` in others, which have the caller's
    floating-point and inference settings.

    Waits for all threads, even if one fails or a signal handler raises: they write to the caller's memory.
    """
    flush, inference = _SUBNORMAL * 1.0 == 0.0, torch.is_inference_mode_enabled()

    def run(k: int) -> Any:
        torch.set_flush_denormal(flush)
        with torch.inference_mode(inference), torch.no_grad():
            return work(k)

    futures: list[Future[Any]] = []
    try:
        for k in range(count):
            futures.append(_pool(os.getpid()).submit(run, k))
        result = own()
    finally:
        _wait_for_all(futures)
    return result, [future.result() for future in futures]


def _wait_for_all(futures: Sequence[Future[Any]]) -> None:
    raised: BaseException | None = None
    finished = False
    while not finished:
        try:
            wait(futures)
            finished = True
        except BaseException as exception:
            raised = raised or exception
    if raised is not None:
        raise raised


def together(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """Results of the jobs, run in as many threads as torch uses, one job after another in each."""
    waiting, results = iter(range(len(jobs))), dict[int, T]()

    def work(_: int = 0) -> None:
        for k in waiting:  # a range's iterator: no two threads get the same number
            results[k] = jobs[k]()

    _run(min(len(jobs), torch.get_num_threads()) - 1, work, work)
    return [results[k] for k in range(len(jobs))]


def share_out(kernel: Any, dtype: torch.dtype, count: int, threads: int, *args: Any) -> int:
    """``kernel(*args, k0, k1)`` over 0 to ``count`` in several threads; the sum of its results."""
    if threads <= 1:
        return call(kernel, dtype, *args, 0, count)
    each = -(-count // threads)
    first, *others = ((k, min(k + each, count)) for k in range(0, count, each))
    out, more = _run(len(others), lambda k: kernel(*args, *others[k]) or 0, lambda: call(kernel, dtype, *args, *first))
    return out + sum(more)
