"""Fixtures of all tests: uninitialised memory is NaN, every test starts from the same seed.

Without a GPU, the Triton kernels run in Triton's interpreter, which must be selected before triton is imported, or
compiled for this CPU, if UNICORNN_TRITON=compiled is set in the environment.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import settings

from tests.problems import COMPILED

if not torch.cuda.is_available():
    if COMPILED:
        from tests.ops import on_host
        from unicornn._ops.triton import recurrence as gpu

        gpu._kernels = lambda: on_host.kernels
    os.environ["TRITON_INTERPRET"] = "1"  # from here on, "triton" accepts tensors on the CPU

settings.register_profile("default", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(autouse=True, scope="session")
def _quick_interpreter() -> None:
    """The interpreter replaces triton.language for every function that a kernel calls; once per kernel is enough."""
    if not COMPILED:
        from triton.runtime.interpreter import InterpretedFunction

        thorough = InterpretedFunction.__call__

        def call(self: Any, *args: Any) -> Any:
            ours = self.fn.__module__ == "unicornn._ops.triton.kernels"
            return self.rewrite()(*args) if ours else thorough(self, *args)

        InterpretedFunction.__call__ = call


@pytest.fixture(autouse=True)
def _nan_in_empty_memory() -> Iterator[None]:
    """torch.empty returns NaN, in the package too, which exposes kernels that read before they write."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    assert torch.empty(1).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)
