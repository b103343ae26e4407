"""The Triton kernels, here in Triton's interpreter. Triton exists for Linux only."""

import os
import sys

import torch

from unicornn import UnICORNN

if sys.platform == "linux":
    os.environ["TRITON_INTERPRET"] = "1"
    u = torch.randn(5, 2, 3)
    layer = UnICORNN(3, 4, backend="triton")
    output, state = layer(u)
    output.mean().backward()
    assert not layer.inverse(u, state).y.any()
