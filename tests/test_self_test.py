"""The self-test of back-ends, and the first use of kernels on a GPU, which is simulated."""

import warnings
from types import SimpleNamespace

import pytest
import torch

from unicornn import _backends as backends
from unicornn import _self_test as self_test
from unicornn import functional

CARD = torch.device("cuda", 0)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_working_backends_pass(backend):
    assert self_test.backend_problems(backend, torch.device("cpu")) == []


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ("unicornn", "output"),
        ("step", "step"),
        ("inverse", "reversal"),
    ],
)
def test_wrong_results_are_described(broken, problem, monkeypatch):
    right = getattr(functional, broken)

    def wrong(*args, backend, **options):
        first, second = right(*args, backend=backend, **options)
        return (first if backend == "reference" else first * 1.01), second

    monkeypatch.setattr(functional, broken, wrong)
    problems = self_test.backend_problems("cpu", torch.device("cpu"))
    assert any(each.startswith(f"{problem}: ") for each in problems)


@pytest.fixture
def card(monkeypatch, tmp_path):
    """A simulated GPU: its driver, the problems of its kernels, and the number of tests so far."""
    state = SimpleNamespace(driver="1", problems=[], tests=0)

    def problems(backend, device):
        state.tests += 1
        assert self_test.kernels_work(device), "the test itself uses the kernels"
        return state.problems

    properties = SimpleNamespace(name="card", major=8, minor=0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(self_test, "_verdicts", {})
    monkeypatch.setattr(self_test, "backend_problems", problems)
    monkeypatch.setattr(self_test, "driver_version", lambda: state.driver)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(backends, "HAS_TRITON", True)
    return state


def new_process():
    self_test._verdicts.clear()


def test_kernels_are_tested_once_for_each_driver(card):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for driver, tests in (("1", 1), ("1", 1), ("2", 2), ("1", 2)):
            card.driver = driver
            new_process()
            assert backends.pick_backend("auto", CARD) == "triton"
            assert backends.pick_backend("auto", CARD) == "triton"
            assert card.tests == tests
    self_test.cache_file().write_text("damaged")
    new_process()
    assert backends.pick_backend("auto", CARD) == "triton"
    assert card.tests == 3


def test_kernels_that_fail_are_replaced_by_the_reference(card):
    card.problems = ["output: expected at most 0.0001 beside the reference, got 0.5"]
    for _ in range(2):
        new_process()
        with pytest.warns(RuntimeWarning, match=r"card.*output: expected .* `unicornn doctor`"):
            assert backends.pick_backend("auto", CARD) == "reference"
        assert backends.pick_backend("auto", CARD) == "reference"
    assert card.tests == 1


def test_without_a_writable_cache_kernels_are_tested_in_every_process(card, tmp_path):
    (tmp_path / "unicornn").write_text("a file, not a folder")
    for tests in (1, 2):
        new_process()
        assert backends.pick_backend("auto", CARD) == "triton"
        assert card.tests == tests
