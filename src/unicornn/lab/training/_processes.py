"""Several processes, each with its share of every batch: which one this is, and what all of them agree on."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def started() -> bool:
    """Whether torchrun has started this process."""
    return dist.is_available() and dist.is_torchelastic_launched()


def rank() -> int:
    return int(os.environ["RANK"]) if started() else 0


def world() -> int:
    return int(os.environ["WORLD_SIZE"]) if started() else 1


def launch(processes: int) -> None:
    """Starts this command again, so many times at once on this machine, each with its share of the cores."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main

    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
    here = ["--standalone", "--local-addr", "127.0.0.1"]  # this machine's name need not be known to any server
    try:
        main([*here, "--nproc-per-node", str(processes), "-m", "unicornn", *sys.argv[1:]])
    except ChildFailedError as error:  # the process itself has said why
        _, first = error.get_first_failure()
        raise SystemExit(first.exitcode if first.exitcode > 0 else 1) from None


@contextlib.contextmanager
def joined() -> Iterator[torch.device]:
    """The processes as one group, and the device of this one."""
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
    """Ends this process if torchrun has started it, when all its work is done, without taking the interpreter down.

    A thread of gloo's may still hold a tensor then, and a process in which it lets go of one while the interpreter is
    being taken down is aborted, which torchrun takes for a failure of the whole run.
    """
    if started():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def wait() -> None:
    """Until all processes are here."""
    if dist.is_initialized():
        dist.barrier()


def summed(values: Tensor) -> Tensor:
    """Over all processes, in place."""
    if dist.is_initialized():
        dist.all_reduce(values)
    return values


def average(tensors: Sequence[Tensor]) -> None:
    """Over all processes, in place, as one message.

    DistributedDataParallel would regroup the gradients after its first batch, and so add them up in another order after
    a resumption than in a run that was never stopped.
    """
    if dist.is_initialized():
        together = summed(torch.cat([t.flatten() for t in tensors])) / world()
        for t, mean in zip(tensors, together.split([t.numel() for t in tensors]), strict=True):
            t.copy_(mean.view_as(t))
