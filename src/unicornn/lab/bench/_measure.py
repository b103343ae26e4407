"""One measurement in this process: ``python -m unicornn.lab.bench._measure JOB``; the job and its result are JSON.

A separate process gives every model the same start: no memory allocated by another one, and denormals flushed.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import UnICORNN, models
from unicornn.lab._networks import model_class
from unicornn.lab.bench._jobs import Job

ROUNDS = 9
LEAST_SECONDS = 0.2  # shorter steps are repeated until they take that long
WARM_UP = 20  # time steps: enough to compile all kernels


def measure(job: Job) -> dict[str, Any]:
    """The measurement of a job, and the number of the model's free parameters."""
    torch.manual_seed(0)
    ours = UnICORNN(job.d, job.m, job.reference_layers, gradient="stored")
    net = model_class(job.model)(job.d, job.m, job.layers, **job.options)
    u = torch.randn(job.N, job.b, job.d)
    if job.kind == "memory":
        training_step(net, u[:WARM_UP])
        result: dict[str, Any] = {"MiB": memory_increase(lambda: training_step(net, u, "last"))}
    elif job.kind == "step":
        result = ratio(rounds(stream_step(ours, u), stream_step(net, u), job.seconds))
    else:
        run = forward_pass if job.kind == "forward" else training_step
        for each in (ours, net):
            run(each, u[:WARM_UP])
        result = ratio(rounds(partial(run, ours, u), partial(run, net, u), job.seconds))
    return result | {"parameters": models.free_parameters(net)}


def training_step(net: nn.Module, u: Tensor, output: str = "all") -> None:
    """Forward and backward from the mean of all outputs, or of the last one."""
    net.zero_grad()
    net(u, output=output)[0].mean().backward()


@torch.no_grad()
def forward_pass(net: nn.Module, u: Tensor) -> None:
    """All outputs, without gradient."""
    net(u)


def stream_step(net: nn.Module, u: Tensor) -> Callable[[], Any]:
    """A function that computes the next output of live sequences for the input u (1, b, d)."""
    with torch.no_grad():
        _, state = net.eval()(u)
    call = (lambda: net.step(u[0], state)) if isinstance(net, UnICORNN) else (lambda: net(u, state))
    return torch.no_grad()(call)


def seconds_per_call(f: Callable[[], Any]) -> float:
    """Mean over the number of calls that take ``LEAST_SECONDS``."""
    start, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - start < LEAST_SECONDS:
        f()
        calls += 1
    return (time.perf_counter() - start) / calls


def rounds(ours: Callable[[], Any], theirs: Callable[[], Any], limit: float) -> list[tuple[float, float]]:
    """Seconds of ours and theirs, round by round: theirs between two of ours, which are averaged.

    The first round is a warm-up. If the limit leaves no time for another, it is the only one.
    """
    start = time.perf_counter()
    done: list[tuple[float, float]] = []
    while len(done) <= ROUNDS:
        before, middle, after = (seconds_per_call(f) for f in (ours, theirs, ours))
        done.append(((before + after) / 2, middle))
        elapsed = time.perf_counter() - start
        if elapsed * (len(done) + 1) / len(done) > limit:
            break
    return done[1:] or done


def ratio(times: list[tuple[float, float]]) -> dict[str, Any]:
    """Medians over the rounds of both times and of their ratio."""
    return {
        "ms": 1e3 * statistics.median(theirs for _, theirs in times),
        "ours_ms": 1e3 * statistics.median(ours for ours, _ in times),
        "ratio": statistics.median(theirs / ours for ours, theirs in times),
        "rounds": len(times),
    }


def memory_increase(f: Callable[[], Any]) -> float:
    """Increase of this process's peak resident memory during a call, in MiB."""
    reset = Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text("5")  # the peak of the compiler must not hide that of the call
    before = peak()
    f()
    return peak() - before


def peak() -> float:
    """Peak resident memory of this process in MiB. On Linux, getrusage would include the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 2**10
    import resource  # Windows does not have it

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS


def _main(text: str) -> None:
    job = Job(**json.loads(text))
    torch.set_num_threads(job.threads)
    torch.set_flush_denormal(True)
    print(json.dumps(measure(job)))


if __name__ == "__main__":
    _main(sys.argv[1])
