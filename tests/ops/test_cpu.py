"""The CPU driver: groups of sequences, threads, processes; and the matrix products of its kernels."""

import os
import time
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.problems import random_problems
from unicornn import UnICORNN
from unicornn._ops.cpu import driver as cpu


def cut(count):
    """Divides a batch into ``count`` groups, or as many as it has sequences."""
    return lambda N, b, m, L: [
        slice(g * b // min(b, count), (g + 1) * b // min(b, count)) for g in range(min(b, count))
    ]


@settings(max_examples=25, deadline=None)
@given(
    p=random_problems(40, m=40, batch=7),
    count=st.integers(2, 5),
    K=st.integers(1, 9),
    gradient=st.sampled_from(["reversible", "stored"]),
)
def test_groups_chunks_and_threads_change_no_bit_of_a_sequence(p, count, K, gradient):
    before = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        torch.set_num_threads(1)
        patch.setattr(cpu, "groups", cut(1))
        numbers, gradients = p.run(gradient=gradient, backend="cpu")
        try:
            patch.setattr(cpu, "groups", cut(count))
            patch.setattr(cpu, "LIMITS", cpu.LIMITS._replace(steps=K))
            found = []
            for threads in (1, 3):
                torch.set_num_threads(threads)
                found.append(p.run(gradient=gradient, backend="cpu"))
        finally:
            torch.set_num_threads(before)
    alone, shared = found
    assert all(map(torch.equal, numbers, alone[0]))
    assert all(map(torch.equal, gradients[:3], alone[1][:3])), "of u and the initial state"
    bound = 1e-4 if p.dtype == torch.float32 else 1e-12
    for ours, theirs in zip(alone[1], gradients, strict=True):  # sums over sequences and time, in another order
        assert (ours - theirs).abs().max() <= bound * theirs.abs().max().clamp_min(1e-3)
    for one, many in zip([*alone[0], *alone[1]], [*shared[0], *shared[1]], strict=True):
        assert torch.equal(one, many), "threads"


@cache
def _add_outer():
    """``add_outer``, callable from Python."""
    import numba

    from unicornn._ops.cpu.products import add_outer

    return numba.njit(lambda a, n, b, m, depth, c: add_outer(a, n, b, m, depth, c))


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 40),
    depth=st.integers(1, 300),
    columns=st.integers(1, 70),
    add=st.booleans(),
    dtype=st.sampled_from(["float32", "float64"]),
    seed=st.integers(0, 99),
)
def test_products(rows, depth, columns, add, dtype, seed):
    from unicornn._ops.cpu.step_kernels import product

    numbers = np.random.default_rng(seed)
    a, b, c = (
        numbers.standard_normal(shape).astype(dtype) for shape in ((rows, depth), (depth, columns), (rows, columns))
    )
    right = a.astype(float) @ b.astype(float) + (c if add else 0)
    bound = depth * np.finfo(dtype).eps * 4

    def multiplied(a):
        out = np.concatenate([c[: len(a)].reshape(-1), [7]]).astype(dtype)  # and one number beyond
        product(a, np.ascontiguousarray(b.T), out[:-1].reshape(-1, columns), add)
        assert out[-1] == 7
        return out[:-1].reshape(-1, columns)

    whole = multiplied(a)
    assert np.abs(whole - right).max() <= bound * max(1, np.abs(right).max())
    assert np.array_equal(multiplied(a[:1]), whole[:1]), "a row by itself"
    turned = np.concatenate([(c if add else np.zeros_like(c)).reshape(-1), [7]]).astype(dtype)
    _add_outer()(np.ascontiguousarray(a.T).reshape(-1), rows, b.reshape(-1), columns, depth, turned)
    assert turned[-1] == 7
    assert np.array_equal(turned[:-1].reshape(rows, columns), whole), "the other way round"


@pytest.mark.parametrize("count", [1, 2, 16])
def test_inference_mode_reaches_the_threads(monkeypatch, count):
    monkeypatch.setattr(cpu, "groups", cut(count))
    layer, u = UnICORNN(3, 8, 2), torch.randn(9, 4, 3)
    with torch.inference_mode():
        output, state = layer(u)
        again = layer.inverse(u, state)
    assert output.is_inference()
    assert not any(t.any() for t in again)
    expected, _ = layer(u)
    assert torch.equal(output, expected)


def in_fork(check):
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_worker_uses_the_layer_after_its_parent_did(monkeypatch):
    monkeypatch.setattr(cpu, "groups", cut(2))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        layer, u = UnICORNN(3, 8, 2), torch.randn(9, 4, 3)
        expected = layer(u)[0].detach()
        assert in_fork(lambda: torch.equal(layer(u)[0].detach(), expected))
    finally:
        torch.set_num_threads(before)
