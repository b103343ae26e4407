"""How kernels are called: shares, threads, processes."""

import os
import signal
import threading
import time

import pytest
import torch

from tests.helpers_fork import in_fork
from unicornn import UnICORNN
from unicornn._ops.cpu import launch


def span(k0, k1):
    return k1 - k0


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("threads", [0, 1, 2, 3, 8])
def test_every_block_is_done_once(count, threads):
    done = []

    def kernel(name, k0, k1):
        done.extend(range(k0, k1))
        return k1 - k0

    assert launch.share_out(kernel, torch.float32, count, threads, "name") == count
    assert sorted(done) == list(range(count))


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_in_any_thread_is_raised_when_all_have_ended(failing):
    ended = threading.Event()

    def kernel(k0, k1):
        if k0 == failing:
            raise ValueError("failed")
        ended.wait(0.2)
        ended.set()

    with pytest.raises(ValueError, match="failed"):
        launch.share_out(kernel, torch.float32, 2, 2)
    assert ended.is_set()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
@pytest.mark.parametrize("run", ["together", "share_out"])
def test_an_interrupt_waits_for_the_threads(run, monkeypatch):
    """They would otherwise write to memory that the caller has given back."""
    ended = []

    def work(*_):
        time.sleep(0.5)
        ended.append(True)
        return 0

    def interrupt(*_):
        raise InterruptedError

    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)  # more than once
    arguments = ([work, work],) if run == "together" else (work, torch.float32, 2, 2)
    try:
        with pytest.raises(InterruptedError):
            getattr(launch, run)(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert ended


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no pinning")
@torch.no_grad()
def test_an_interrupted_pass_or_step_does_not_corrupt_the_next():
    """Two threads on one processor, so that one of them is usually still at work when the signal comes."""
    layer, u = UnICORNN(8, 64, 2), torch.randn(6, 1900, 8)
    cores, threads = os.sched_getaffinity(0), torch.get_num_threads()
    calls = (lambda: layer(u, output="last")[0], lambda: layer.step(u[0])[0])

    def interrupt(*_):
        raise InterruptedError

    before, interrupted = signal.signal(signal.SIGALRM, interrupt), 0
    try:
        torch.set_num_threads(2)
        os.sched_setaffinity(0, {min(cores)})
        for call in calls:
            expected = call()
            for k in range(15):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-4 * (1 + k))  # once
                    for _ in range(5):
                        call()
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except InterruptedError:
                    interrupted += 1
                assert torch.equal(call(), expected)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        os.sched_setaffinity(0, cores)
        torch.set_num_threads(threads)
    assert interrupted


def test_subnormal_numbers_are_treated_as_by_the_caller():
    tiny = torch.tensor([1e-310], dtype=torch.float64)

    def flushed(k0, k1):
        return int(not (tiny * 1.0).any())

    try:
        for flush in (False, True, False):
            if not torch.set_flush_denormal(flush):
                pytest.skip("this processor cannot flush subnormal numbers")
            assert launch.share_out(flushed, torch.float64, 2, 2) == 2 * flush
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    assert launch.share_out(span, torch.float32, 4, 2) == 4
    assert in_fork(lambda: launch.share_out(span, torch.float32, 4, 2) == 4)
