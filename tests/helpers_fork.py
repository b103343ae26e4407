"""A function in a forked process."""

import os
import time
from collections.abc import Callable


def in_fork(check: Callable[[], bool]) -> bool:
    """Whether ``check()`` is true in a forked process, within ten seconds."""
    child = os.fork()
    if child == 0:
        os._exit(0 if check() else 1)
    for _ in range(100):
        process, status = os.waitpid(child, os.WNOHANG)
        if process:
            return status == 0
        time.sleep(0.1)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False
