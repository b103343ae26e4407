"""Fixtures of the stream tests."""

import pytest
import torch

from unicornn import UnICORNN


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return UnICORNN(2, 8, 2)
