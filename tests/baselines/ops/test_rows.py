"""The element-wise and the linear kernels against their references under autograd: outputs, final states, gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unicornn._ops.cpu import launch
from unicornn.baselines._base import within
from unicornn.baselines._ops.elementwise import autograd as elementwise
from unicornn.baselines._ops.elementwise import reference as elementwise_reference
from unicornn.baselines._ops.linear import autograd as linear
from unicornn.baselines._ops.linear import reference as linear_reference
from unicornn.baselines._ops.rows import SPAN

DOUBLE = torch.float64


def draw(*shape):
    return torch.randn(shape, dtype=DOUBLE)


def small(m):
    return torch.rand(m, dtype=DOUBLE) * 0.7


def oscillators(m):
    A, dt = torch.rand(2, m, dtype=DOUBLE)
    return torch.stack([torch.ones_like(A), -dt * A, dt, 1 - dt**2 * A])


def without_highway(module):
    return lambda x, v, b, c, lengths: module.gated(x, None, v, b, c, 1.0, lengths)


def with_highway(module):
    return lambda x, s, v, b, c, lengths: module.gated(x, s, v, b, c, 1.7, lengths)


# Name: the kernel, its reference, and arguments for N, b, m; the first is the drive, which the kernel takes over.
CASES = {
    "indrnn": (
        elementwise.indrnn,
        elementwise_reference.indrnn,
        lambda N, b, m: (draw(N, b, m), small(m) + 0.2, draw(m), draw(b, m)),
    ),
    "sru": (
        with_highway(elementwise),
        with_highway(elementwise_reference),
        lambda N, b, m: (draw(3, N, b, m), draw(N, b, m), draw(2, m), draw(3, m), draw(b, m)),
    ),
    "gated": (
        without_highway(elementwise),
        without_highway(elementwise_reference),
        lambda N, b, m: (draw(2, N, b, m), draw(2, m), draw(3, m), draw(b, m)),
    ),
    "rotation": (
        linear.rotation,
        linear_reference.rotation,
        lambda N, b, m: (draw(2, N, b, m), small(m), small(m), draw(2, b, m)),
    ),
    "oscillation": (
        linear.oscillation,
        linear_reference.oscillation,
        lambda N, b, m: (draw(N, b, m), oscillators(m), draw(b, m), draw(b, m)),
    ),
}
every = pytest.mark.parametrize("name", CASES)


def evaluate(function, arguments, lengths):
    """All outputs, zero in the padding, and the gradients of their sum with random weights."""
    leaves = [t.clone().requires_grad_() for t in arguments]
    shown, *final = function(leaves[0] * 1, *leaves[1:], lengths)
    if lengths is not None:
        shown = torch.where(within(shown.shape[-3], lengths), shown, 0)
    generator = torch.Generator().manual_seed(1)
    outputs = [shown, *final]
    weights = [torch.randn(t.shape, generator=generator, dtype=DOUBLE).to(t.dtype) for t in outputs]
    total = sum((t * w).sum() for t, w in zip(outputs, weights, strict=True))
    gradients = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
    return [t.detach() for t in outputs], list(gradients)


def same(ours, theirs, tolerance=1e-9):
    for x, y in zip(ours[0] + ours[1], theirs[0] + theirs[1], strict=True):
        scale = float(y.abs().max()) + 1
        torch.testing.assert_close(x.double() / scale, y.double() / scale, rtol=0, atol=tolerance)


@given(
    name=st.sampled_from(list(CASES)),
    N=st.integers(1, 12),
    b=st.integers(1, 4),
    m=st.sampled_from([1, 5, 32, 67, 130]),
    ragged=st.booleans(),
    seed=st.integers(0, 99),
)
def test_kernels_are_the_reference(name, N, b, m, ragged, seed):
    torch.manual_seed(seed)
    kernel, reference, make = CASES[name]
    arguments, lengths = make(N, b, m), torch.randint(1, N + 1, (b,)) if ragged else None
    same(evaluate(kernel, arguments, lengths), evaluate(reference, arguments, lengths))


@every
def test_gradients_are_gathered_over_long_sequences(name):
    kernel, reference, make = CASES[name]
    N = 2 * SPAN + 3
    arguments = make(N, 2, 3)
    if name == "indrnn":
        arguments[1].clamp_(max=1.0)
    lengths = torch.tensor([N, SPAN - 1])
    same(evaluate(kernel, arguments, lengths), evaluate(reference, arguments, lengths))


@every
def test_single_precision_is_close_to_double(name):
    kernel, _, make = CASES[name]
    arguments, lengths = make(40, 3, 50), torch.tensor([40, 7, 1])
    if name == "indrnn":
        arguments[1].clamp_(max=1.0)
    exact = evaluate(kernel, arguments, lengths)
    rounded = evaluate(kernel, [t.float() for t in arguments], lengths)
    assert rounded[0][0].dtype == torch.float32
    # a relu near zero may fall on either side; the drives above are not that unlucky
    same(rounded, exact, 3e-6)


@every
def test_kernels_pass_gradcheck(name):
    kernel, _, make = CASES[name]
    arguments = [t.requires_grad_() for t in make(3, 2, 2)]
    lengths = torch.tensor([3, 2])

    def run(x, *rest):
        return kernel(x * 1, *rest, lengths)

    assert torch.autograd.gradcheck(run, arguments)


@every
@pytest.mark.parametrize("wanted", [0, 1])
def test_one_gradient_without_the_other(name, wanted):
    kernel, reference, make = CASES[name]
    arguments = [t.requires_grad_() for t in make(6, 2, 5)]
    results = []
    for function in (kernel, reference):
        outputs = function(arguments[0] * 1, *arguments[1:], None)
        results.append(torch.autograd.grad(outputs[wanted].square().sum(), arguments, materialize_grads=True))
    for x, y in zip(*results, strict=True):
        torch.testing.assert_close(x, y)


@every
def test_threads_change_no_bit(name):
    kernel, _, make = CASES[name]
    arguments = [t.float() for t in make(9, 33, 70)]
    assert 33 * 70 // 1024 >= 2, "enough for two threads"
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 2):
            torch.set_num_threads(threads)
            results.append(evaluate(kernel, arguments, torch.arange(33) % 9 + 1))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for x, y in zip(results[0][0] + results[0][1], other[0] + other[1], strict=True):
            assert torch.equal(x, y)


@every
def test_other_dtypes_and_devices_go_to_the_reference(name):
    kernel, reference, make = CASES[name]
    arguments = [t.bfloat16() for t in make(4, 2, 3)]
    for x, y in zip(kernel(*arguments, None), reference(*arguments, None), strict=True):
        assert x.dtype == torch.bfloat16
        assert torch.equal(x, y)
    assert not launch.fits(torch.empty(1, device="meta"))


@every
def test_drives_that_are_not_contiguous(name):
    kernel, reference, make = CASES[name]
    drive, *rest = make(5, 4, 6)
    turned = drive.transpose(-2, -3).contiguous().transpose(-2, -3)
    assert not turned.is_contiguous()
    for x, y in zip(kernel(turned, *rest, None), reference(drive, *rest, None), strict=True):
        torch.testing.assert_close(x, y)


# What makes each state half of what it was.
HALVES = {
    "indrnn": [torch.tensor([0.5]), torch.tensor([100.0]), torch.ones(1, 1)],
    "gated": [torch.zeros(2, 1), torch.zeros(3, 1), torch.ones(1, 1)],
    "sru": [torch.zeros(300, 1, 1), torch.zeros(2, 1), torch.zeros(3, 1), torch.ones(1, 1)],
    "rotation": [torch.tensor([0.3]), torch.tensor([0.4]), torch.ones(2, 1, 1)],
    "oscillation": [torch.tensor([[0.5], [0.0], [0.5], [0.5]]), torch.ones(1, 1), torch.ones(1, 1)],
}


@every
def test_vanishing_gradients_become_zero_before_they_are_subnormal(name):
    kernel, _, make = CASES[name]
    N = 300
    drive = torch.zeros_like(make(N, 1, 1)[0], dtype=torch.float32).requires_grad_()
    shown, *_ = kernel(drive * 1, *HALVES[name], None)
    (g,) = torch.autograd.grad(shown.select(-3, N - 1).sum(), drive)
    size = g[g != 0].abs()
    assert 2.0**-102 < size.min() < 2.0**-90
    assert not g.select(-3, 0).any()


def test_gradients_are_differentiable_no_further():
    kernel, _, make = CASES["indrnn"]
    arguments = [t.requires_grad_() for t in make(3, 1, 2)]
    shown, _ = kernel(arguments[0] * 1, *arguments[1:], None)
    (g,) = torch.autograd.grad(shown.square().sum(), arguments[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()
