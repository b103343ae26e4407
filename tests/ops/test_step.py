"""The fast step: tensors that its kernel must not be given by address."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from unicornn import UnICORNN
from unicornn._ops.step import address, step

HERE = Path(__file__).parent


def fuzz(count, seed):
    command = [sys.executable, "-W", "ignore", str(HERE / "fuzz_step.py"), str(count), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, (done.returncode, done.stdout[-500:], done.stderr[-3000:])
    taken, fast = map(int, done.stdout.split()[-2:])
    assert taken == count
    assert fast > 0.05 * count  # and those that may, take it


def test_spoilt_tensors():
    fuzz(300, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_many_spoilt_tensors(seed):
    fuzz(3000, seed)


def test_address():
    t = torch.randn(3, 4)
    assert address(t, (3, 4), torch.float32) == t.data_ptr()
    assert address(torch.nn.Parameter(t), (3, 4), torch.float32) == t.data_ptr()
    assert not address(t, (4, 3), torch.float32)
    assert not address(t, (3, 4), torch.int32)
    assert not address(t[:, :2], (3, 2), torch.float32)
    assert not address(t.as_subclass(type("Other", (torch.Tensor,), {})), (3, 4), torch.float32)
    assert not address(torch._neg_view(t), (3, 4), torch.float32)
    assert not address(torch._efficientzerotensor(3, 4), (3, 4), torch.float32)
    assert not address(t.to("meta"), (3, 4), torch.float32)
    assert not address(None, (3, 4), torch.float32)
    t.untyped_storage().resize_(4)
    assert not address(t, (3, 4), torch.float32)


@torch.no_grad()
def test_it_is_taken_where_it_may():
    layer, u = UnICORNN(3, 4, 2), torch.randn(2, 3)
    assert step(u, layer.weights, layer.dt, layer.alpha, None, "auto") is not None
    assert step(u.requires_grad_(), layer.weights, layer.dt, layer.alpha, None, "cpu") is not None
    with torch.inference_mode():
        assert step(torch.randn(2, 3), layer.weights, layer.dt, layer.alpha, None, "auto") is not None
    with torch.device("meta"):
        assert step(u, layer.weights, layer.dt, layer.alpha, None, "auto") is None
