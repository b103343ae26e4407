"""One measurement in this process: ``python -m unicornn.lab.bench._measure JOB``, the job and its result being JSON.

A process of its own gives every model the same start: nothing that another one allocated, and denormals flushed.
"""

from __future__ import annotations

import importlib
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
from unicornn.lab.bench._jobs import Candidate, Job

ROUNDS = 9
LEAST = 0.2  # seconds: shorter steps are repeated until they take that long
WARM_UP = 20  # time steps: enough to compile all kernels


def measure(job: Job) -> dict[str, Any]:
    """What the job asks for, and the number of the candidate's free parameters.

    Example:
        >>> from unicornn.lab.bench import Candidate, Job
        >>> result = measure(Job("time", Candidate("lstm", 1), N=10, b=2, d=3, m=4, seconds=0.1))
        >>> sorted(result), result["parameters"]
        (['ms', 'ours_ms', 'parameters', 'ratio', 'rounds'], 144)
    """
    torch.manual_seed(0)
    if job.kind == "product":
        return {"GFLOPS": product_rate()}
    net, u = build(job.candidate, job.d, job.m), torch.randn(job.N, job.b, job.d)
    store = build(Candidate("unicornn", job.ours, {"gradient": "stored"}), job.d, job.m)
    if job.kind == "step":
        result: dict[str, Any] = ratio(rounds(stream_step(store, u), stream_step(net, u), job.seconds))
    elif job.kind == "forward":
        for each in (store, net):
            forward_pass(each, u[:WARM_UP])
        result = ratio(rounds(partial(forward_pass, store, u), partial(forward_pass, net, u), job.seconds))
    elif job.kind == "time":
        for each in (store, net):
            training_step(each, u[:WARM_UP])
        result = ratio(rounds(partial(training_step, store, u), partial(training_step, net, u), job.seconds))
    else:
        training_step(net, u[:WARM_UP])
        result = {"MiB": risen(lambda: training_step(net, u, "last"))}
    return result | {"parameters": models.free_parameters(net)}


def build(candidate: Candidate, d: int, m: int) -> nn.Module:
    return model_class(candidate.model)(d, m, candidate.layers, **candidate.options)


def training_step(net: nn.Module, u: Tensor, output: str = "all") -> None:
    """Forward and backward from the mean of all outputs, or of the last one."""
    net.zero_grad()
    net(u, output=output)[0].mean().backward()


@torch.no_grad()
def forward_pass(net: nn.Module, u: Tensor) -> None:
    """All outputs, without gradient."""
    net(u)


def stream_step(net: nn.Module, u: Tensor) -> Callable[[], Any]:
    """A call for the next output of live sequences, whose next input is u (1, b, d); by ``step`` where there is one."""
    with torch.no_grad():
        _, state = net.eval()(u)
    call = (lambda: net.step(u[0], state)) if isinstance(net, UnICORNN) else (lambda: net(u, state))
    return torch.no_grad()(call)


def product_rate() -> float:
    """GFLOP/s of torch's matrix product in float32, the best over shapes."""
    rates = []
    for rows, inner, columns in ((2048, 2048, 2048), (4096, 128, 128), (8192, 256, 256)):
        a, b, out = torch.randn(rows, inner), torch.randn(inner, columns), torch.empty(rows, columns)
        torch.mm(a, b, out=out)
        best = min(seconds(lambda a=a, b=b, out=out: torch.mm(a, b, out=out)) for _ in range(ROUNDS))  # type: ignore[misc]
        rates.append(2e-9 * rows * inner * columns / best)
    return max(rates)


def seconds(f: Callable[[], Any]) -> float:
    """Of one call: the mean over as many as take ``LEAST``."""
    start, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - start < LEAST:
        f()
        calls += 1
    return (time.perf_counter() - start) / calls


def rounds(ours: Callable[[], Any], theirs: Callable[[], Any], limit: float) -> list[tuple[float, float]]:
    """Seconds of ours and theirs, round by round: theirs between two of ours, the mean of which counts.

    The first round is to warm up. If it takes so long that the limit leaves no time for another, it is the only one.

    Example:
        >>> len(rounds(lambda: None, lambda: time.sleep(0.3), limit=0.2))
        1
    """
    start = time.perf_counter()
    done: list[tuple[float, float]] = []
    while len(done) <= ROUNDS:
        before, middle, after = (seconds(f) for f in (ours, theirs, ours))
        done.append(((before + after) / 2, middle))
        elapsed = time.perf_counter() - start
        if elapsed * (len(done) + 1) / len(done) > limit:
            break
    return done[1:] or done


def ratio(times: list[tuple[float, float]]) -> dict[str, Any]:
    """Medians over the rounds; that of the ratio is taken of each round's own.

    Example:
        >>> ratio([(1.0, 2.0), (2.0, 4.0), (1.0, 5.0)])
        {'ms': 4000.0, 'ours_ms': 1000.0, 'ratio': 2.0, 'rounds': 3}
    """
    return {
        "ms": 1e3 * statistics.median(theirs for _, theirs in times),
        "ours_ms": 1e3 * statistics.median(ours for ours, _ in times),
        "ratio": statistics.median(theirs / ours for ours, theirs in times),
        "rounds": len(times),
    }


def risen(f: Callable[[], Any]) -> float:
    """MiB by which a call lifts the peak resident memory of this process.

    Example:
        >>> round(risen(lambda: torch.ones(1 << 24)) / 64)
        1
    """
    forget = Path("/proc/self/clear_refs")
    if forget.exists():
        forget.write_text("5")  # what compiling took is not to hide what the call takes
    before = peak()
    f()
    return peak() - before


def peak() -> float:
    """The peak resident memory of this process in MiB. getrusage would count that of the parent in on Linux."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 2**10
    try:
        resource = importlib.import_module("resource")
    except ImportError:  # Windows
        return importlib.import_module("psutil").Process().memory_info().peak_wset / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS


def main(job: str) -> None:
    given = json.loads(job)
    told = Job(**given | {"candidate": Candidate(**given["candidate"])})
    torch.set_num_threads(told.threads)
    torch.set_flush_denormal(True)
    print(json.dumps(measure(told)))


if __name__ == "__main__":
    main(sys.argv[1])
