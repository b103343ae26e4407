"""The back-end chosen for each device, and the warnings and errors where there is no kernel."""

import warnings

import pytest
import torch

from tests.problems import GPU
from unicornn import UnICORNN
from unicornn import _backends as backends
from unicornn._backends import pick_backend


@pytest.fixture(autouse=True)
def _nothing_told_yet(monkeypatch):
    backends._warn_of_reference.cache_clear()
    monkeypatch.setattr(backends, "_kernels_work", lambda device: True)


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
def test_the_kernels_are_chosen_where_they_exist(backend, device, picked):
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


def test_a_gpu_without_triton_names_the_package_to_install(monkeypatch):
    monkeypatch.setattr(backends, "HAS_TRITON", False)
    with pytest.warns(RuntimeWarning, match=r"no kernels for 'cuda'.*pip install '\.\[gpu\]'"):
        assert pick_backend("auto", torch.device("cuda")) == "reference"
    with pytest.raises(ImportError, match=r"^backend: .*pip install '\.\[gpu\]'"):
        pick_backend("triton", torch.device("cuda"))


def test_kernels_reject_tensors_on_other_devices(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    layer = UnICORNN(2, 3, backend="triton")  # may be created on the CPU: .to("cuda") may follow
    with pytest.raises(ValueError, match=r"^backend: .*got cpu"):
        layer(torch.randn(4, 1, 2))
    with pytest.raises(ValueError, match=r"^backend: .*got mps"):
        pick_backend("triton", torch.device("mps"))
    layer = UnICORNN(2, 3, backend="cpu", device="meta")
    with pytest.raises(ValueError, match=r"^backend: .*got meta"):
        layer(torch.randn(4, 1, 2, device="meta"))


def test_time_steps_too_large_for_fixed_point():
    for dt, alpha in ((600.0, 0.0), (6.0, 100.0)):
        layer = UnICORNN(2, 3, dt=dt, alpha=alpha, backend="triton", device=GPU)
        with pytest.raises(ValueError, match=r"^dt, alpha: "):
            layer(torch.randn(4, 1, 2, device=GPU))
