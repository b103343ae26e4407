"""The package as a whole: import time dependencies, examples in docstrings, memory."""

import doctest
import importlib
import pkgutil
import textwrap

import pytest
import torch

import unicornn
from tests.processes import python


def run(script):
    return python("-c", textwrap.dedent(script))


def test_import_loads_neither_numba_nor_triton():
    run("""
        import sys, unicornn
        unicornn.UnICORNN(2, 3)
        assert not {"numba", "triton", "llvmlite", "matplotlib", "sklearn"} & set(sys.modules), sorted(sys.modules)
    """)


MODULES = ["unicornn", *(m.name for m in pkgutil.walk_packages(unicornn.__path__, "unicornn."))]
SLOW = ("unicornn.lab.search._search", "unicornn.lab.training._train")  # their examples train networks


@pytest.mark.parametrize("name", [pytest.param(m, marks=pytest.mark.slow if m in SLOW else ()) for m in MODULES])
def test_examples_in_docstrings(name):
    torch.use_deterministic_algorithms(False)
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def _workspace(N):
    """Peak allocation of a training step in bytes, beyond the gradient of the input."""
    return int(
        run(f"""
        import torch
        from torch.profiler import profile
        from unicornn import UnICORNN
        layer = UnICORNN(1, 32, 2, gradient="reversible")
        u = torch.randn({N}, 1, 1, requires_grad=True)
        layer(u[:600], output="last")[0].sum().backward()
        u.grad = None
        with profile(profile_memory=True) as p:
            layer(u, output="last")[0].sum().backward()
        level = top = 0
        for event in p.profiler.kineto_results.events():
            if event.name() == "[memory]":
                level += event.nbytes()
                top = max(top, level)
        print(top - u.numel() * 4)
    """)
    )


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length():
    short, long = _workspace(1_000), _workspace(1_000_000)
    assert abs(long - short) <= 0.05 * short, (short, long)
