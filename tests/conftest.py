"""Fixtures for all tests: uninitialised memory is NaN, every test starts from the same seed."""

import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

settings.register_profile("default", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(autouse=True)
def _nan_in_empty_memory() -> Iterator[None]:
    """torch.empty, inside the package too, gives NaN; a kernel that reads before it writes is found out."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    assert torch.empty(1).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)
