"""Matrix products in bfloat16, and layers under autocast that have them."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unicornn import UnICORNN
from unicornn._ops import bfloat16

pytestmark = pytest.mark.skipif(
    not bfloat16.available(), reason="this processor is not faster in bfloat16, or may not be used so"
)

sizes = st.integers(1, 150)


def rounded(a):
    return a.bfloat16().double()


def flat(a):
    return a.reshape(-1).numpy()


@settings(max_examples=40)
@given(rows=sizes, n=sizes, m=sizes, add=st.booleans(), seed=st.integers(0, 99))
def test_products_are_those_of_rounded_numbers(rows, n, m, add, seed):
    torch.manual_seed(seed)
    y, V, x = torch.randn(rows, n), torch.randn(m, n), torch.randn(rows, m)
    want = rounded(y) @ rounded(V).T + (x.double() if add else 0)
    few, M = x[rows // 2 :].clone(), bfloat16.packed(V)
    bfloat16.multiply(flat(y), n, M, flat(x), m, rows, add)
    torch.testing.assert_close(x.double(), want, rtol=1e-5, atol=1e-4)
    bfloat16.multiply(flat(y[rows // 2 :]), n, M, flat(few), m, len(few), add)
    assert torch.equal(few, x[rows // 2 :])  # rows do not know each other


@settings(max_examples=40)
@given(depth=st.integers(1, 600), n=sizes, m=sizes, seed=st.integers(0, 99))
def test_outer_products_are_those_of_rounded_numbers(depth, n, m, seed):
    torch.manual_seed(seed)
    a, b, c = torch.randn(depth, n), torch.randn(depth, m), torch.randn(n, m)
    want = c.double() + rounded(a).T @ rounded(b)
    bfloat16.add_outer(flat(a), n, flat(b), m, depth, flat(c))
    torch.testing.assert_close(c.double(), want, rtol=1e-5, atol=3e-4)


def test_what_is_no_number_stays_so():
    y, V, x = torch.ones(3, 64), torch.ones(64, 64), torch.zeros(3, 64)
    y[1, 5], V[7, 9] = np.nan, np.inf
    bfloat16.multiply(flat(y), 64, bfloat16.packed(V), flat(x), 64, 3, False)
    assert x[1].isnan().all()
    assert x[[0, 2], 7].isinf().all()
    assert x[0, 8] == 64


OPTIONS = [{}, {"skip_layers": 2, "num_layers": 3, "dropout": 0.3}, {"bidirectional": True}]


def run(layer, u, dtype=torch.bfloat16, enabled=True, **options):
    """Output, state and gradients of the layer under autocast; the backward pass is outside of it, as is usual."""
    torch.manual_seed(1)
    layer.zero_grad()
    u = u.detach().requires_grad_()
    with torch.autocast("cpu", dtype=dtype, enabled=enabled):
        output, state = layer(u, **options)
    (output * torch.linspace(-1, 1, len(u))[:, None, None]).sum().backward()
    return output.detach(), state, [u.grad, *(p.grad.clone() for p in layer.parameters())]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_states_are_exact_and_gradients_the_same_both_ways(options):
    """invert = store bit for bit, with any number of threads; the start is recovered bit for bit."""
    torch.manual_seed(0)
    layer, u = UnICORNN(70, 65, **{"num_layers": 2} | options), torch.randn(300, 7, 70)
    lengths = {} if not options else {"lengths": torch.tensor([300, 4, 200, 299, 1, 150, 60])}
    before = torch.get_num_threads()
    found = []
    for gradient in ("reversible", "stored"):
        for threads in (1, 2):
            torch.set_num_threads(threads)
            try:
                one = copy.deepcopy(layer)
                one.gradient = gradient
                found.append(run(one, u, **lengths))
            finally:
                torch.set_num_threads(before)
    output, state, gradients = found[0]
    for other, _, others in found[1:]:
        assert torch.equal(other, output)
        assert all(map(torch.equal, others, gradients))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        start = layer.inverse(u, state, **lengths)
    assert not start.y.any()
    assert not start.z.any()
    plain, _, true = run(layer, u, enabled=False, **lengths)
    assert output.dtype == torch.float32
    assert not torch.equal(output, plain)
    torch.testing.assert_close(output, plain, rtol=0, atol=0.03 * plain.abs().max().item())
    for mine, exact in zip(gradients, true, strict=True):
        torch.testing.assert_close(mine, exact, rtol=0, atol=0.03 * exact.abs().max().item())


def test_steps_under_autocast_are_those_of_the_sequence():
    layer, u = UnICORNN(64, 64), torch.randn(20, 3, 64)
    state = None
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        whole, _ = layer(u)
        for n in range(len(u)):
            output, state = layer.step(u[n], state)
            assert torch.equal(output, whole[n])


@pytest.mark.parametrize(
    ("d", "m", "dtype", "cast"),
    [
        (6, 63, torch.float32, torch.bfloat16),
        (64, 64, torch.float64, torch.bfloat16),
        (64, 64, torch.float32, torch.half),
    ],
)
def test_narrow_layers_float64_and_other_dtypes_of_autocast_are_as_without(d, m, dtype, cast):
    layer, u = UnICORNN(d, m, 2, dtype=dtype), torch.randn(50, 3, d, dtype=dtype)
    (output, _, gradients), (plain, _, true) = run(layer, u, cast), run(layer, u, enabled=False)
    assert torch.equal(output, plain)
    assert all(map(torch.equal, gradients, true))
