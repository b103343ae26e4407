"""The processes of a training: torchrun's workers and sums over them, and process-wide settings."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from unicornn.lab.errors import Stopped


def started() -> bool:
    """Whether torchrun started this process."""
    return dist.is_available() and dist.is_torchelastic_launched()


def rank() -> int:
    """Number of this process."""
    return int(os.environ["RANK"]) if started() else 0


def world() -> int:
    """Number of processes."""
    return int(os.environ["WORLD_SIZE"]) if started() else 1


def launch(processes: int) -> None:
    """Runs this command in several processes on this machine, which share its cores."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main

    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
    here = ["--standalone", "--local-addr", "127.0.0.1"]  # the name of this machine may not be resolvable
    try:
        main([*here, "--nproc-per-node", str(processes), "-m", "unicornn", *sys.argv[1:]])
    except ChildFailedError as error:  # the process itself has printed why
        _, first = error.get_first_failure()
        raise SystemExit(first.exitcode if first.exitcode > 0 else 1) from None


@contextlib.contextmanager
def process_group() -> Iterator[torch.device]:
    """Joins the processes; yields the device of this one."""
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    if world() == 1:
        yield device
        return
    dist.init_process_group("nccl" if gpu else "gloo")
    try:
        yield device
    finally:
        dist.destroy_process_group()


def leave() -> None:
    """Ends a process that torchrun started, after its work, without finalising the interpreter.

    A thread of gloo may still hold a tensor. Releasing it during finalisation aborts the process, and torchrun would
    treat the whole run as failed.
    """
    if started():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def wait() -> None:
    """Waits until all processes are here."""
    if dist.is_initialized():
        dist.barrier()


def summed(values: Tensor) -> Tensor:
    """Sums over all processes, in place."""
    if dist.is_initialized():
        dist.all_reduce(values)
    return values


def average(tensors: Sequence[Tensor]) -> None:
    """Averages over all processes, in place, in one message.

    DistributedDataParallel would regroup the gradients after its first batch, so a resumed run would add them in a
    different order from a run that was never stopped.
    """
    if dist.is_initialized():
        together = summed(torch.cat([t.flatten() for t in tensors])) / world()
        for t, mean in zip(tensors, together.split([t.numel() for t in tensors]), strict=True):
            t.copy_(mean.view_as(t))


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

    def _handle(self, *_: object) -> None:
        self.requested = True
        if not self.deferred:
            raise Stopped("stopped by SIGTERM; the same command with --resume continues")
