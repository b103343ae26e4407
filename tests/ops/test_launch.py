"""How kernels are called: shares, threads, processes."""

import signal
import threading
import time

import pytest
import torch

from unicornn._ops.cpu import launch


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
