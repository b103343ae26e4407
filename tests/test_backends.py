"""Which back-end runs where, and what is said where it is not the fast one."""

import subprocess
import sys
import warnings

import pytest
import torch

from tests.problems import GPU
from unicornn import UnICORNN
from unicornn import _backends as backends
from unicornn._backends import pick_backend


@pytest.fixture
def without_triton(monkeypatch):
    monkeypatch.setattr(backends, "HAS_TRITON", False)


@pytest.fixture(autouse=True)
def _nothing_told_yet():
    backends._warn_of_reference.cache_clear()


@pytest.mark.parametrize(
    ("backend", "device", "picked"),
    [
        ("auto", "cpu", "cpu"),
        ("auto", "cuda", "triton"),
        ("auto", "cuda:1", "triton"),
        ("auto", "meta", "reference"),
        ("reference", "cuda", "reference"),
        ("triton", "cuda", "triton"),
    ],
)
def test_the_kernel_where_there_is_one(backend, device, picked):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pick_backend(backend, torch.device(device)) == picked


@pytest.mark.parametrize("kind", ["mps", "xpu"])
def test_other_devices_fall_back_with_one_warning(kind):
    with pytest.warns(RuntimeWarning, match=f"no kernels for '{kind}'"):
        assert pick_backend("auto", torch.device(kind)) == "reference"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pick_backend("auto", torch.device(kind)) == "reference"


@pytest.mark.usefixtures("without_triton")
def test_a_gpu_without_triton_is_told_what_to_install():
    with pytest.warns(RuntimeWarning, match=r"no kernels for 'cuda'.*pip install 'unicornn\[gpu\]'"):
        assert pick_backend("auto", torch.device("cuda")) == "reference"
    with pytest.raises(ImportError, match=r"backend: 'triton' needs .* pip install 'unicornn\[gpu\]'"):
        pick_backend("triton", torch.device("cuda"))


def test_triton_wants_a_gpu(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    layer = UnICORNN(2, 3, backend="triton")  # on the CPU yet: .to("cuda") may follow
    with pytest.raises(ValueError, match=r"backend: 'triton' needs tensors on a GPU \(cuda\), got cpu"):
        layer(torch.randn(4, 1, 2))
    with pytest.raises(ValueError, match="got mps"):
        pick_backend("triton", torch.device("mps"))


def test_the_cpu_kernels_want_the_cpu():
    layer = UnICORNN(2, 3, backend="cpu", device="meta")
    with pytest.raises(ValueError, match="backend: 'cpu' needs tensors on the CPU, got meta"):
        layer(torch.randn(4, 1, 2, device="meta"))


def test_time_steps_too_large_for_fixed_point():
    for dt, alpha in ((600.0, 0.0), (6.0, 100.0)):
        layer = UnICORNN(2, 3, dt=dt, alpha=alpha, backend="triton", device=GPU)
        with pytest.raises(ValueError, match=r"dt, alpha: expected dt · max\(1, alpha\) < 512 on a GPU, got"):
            layer(torch.randn(4, 1, 2, device=GPU))


def test_triton_is_imported_by_the_gpu_kernels_only():
    script = """
import sys, torch, unicornn
unicornn.UnICORNN(2, 3)(torch.randn(4, 1, 2))[0].sum().backward()
assert "triton" not in sys.modules and "unicornn._ops.triton.kernels" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
