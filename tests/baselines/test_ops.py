"""Kernels against the loops in torch: outputs, final states and every gradient, for odd sizes."""

import contextlib
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.problems import draw
from unicornn.baselines._base import within
from unicornn.baselines._ops import dense, rowwise
from unicornn.baselines._ops.row_kernels import SPAN

DOUBLE = torch.float64


def small(*shape):
    return torch.rand(shape, dtype=DOUBLE) * 0.7


def matrix(m, out=1):
    return draw(out * m, m) / math.sqrt(m)


def oscillators(m):
    A, dt = torch.rand(2, m, dtype=DOUBLE)
    return torch.stack([torch.ones_like(A), -dt * A, dt, 1 - dt**2 * A])


# The function, and arguments for N, b, m. The first is the drive, which kernels may overwrite. Negative biases keep
# expRNN away from the jump of modrelu.
CASES = {
    "indrnn": (rowwise.indrnn, lambda N, b, m: (draw(N, b, m), small(m) + 0.2, draw(m), draw(b, m))),
    "sru": (
        lambda x, s, v, b, c, lengths: rowwise.gated(x, s, v, b, c, 1.7, lengths),
        lambda N, b, m: (draw(3, N, b, m), draw(N, b, m), draw(2, m), draw(3, m), draw(b, m)),
    ),
    "gated": (
        lambda x, v, b, c, lengths: rowwise.gated(x, None, v, b, c, 1.0, lengths),
        lambda N, b, m: (draw(2, N, b, m), draw(2, m), draw(3, m), draw(b, m)),
    ),
    "rotation": (rowwise.rotation, lambda N, b, m: (draw(2, N, b, m), small(m), small(m), draw(2, b, m))),
    "oscillation": (rowwise.oscillation, lambda N, b, m: (draw(N, b, m), oscillators(m), draw(b, m), draw(b, m))),
    "cornn": (
        lambda x, W, Wz, y, z, lengths: dense.cornn(x, W, Wz, (y, z), (0.2, 1.3, 0.9), lengths),
        lambda N, b, m: (draw(N, b, m), matrix(m), matrix(m), draw(b, m), draw(b, m)),
    ),
    "exprnn": (dense.exprnn, lambda N, b, m: (draw(N, b, m), matrix(m), -0.1 * small(m), draw(b, m))),
    "lem": (
        lambda x, W, Wy, y, z, lengths: dense.lem(x, W, Wy, (y, z), 0.8, lengths),
        lambda N, b, m: (draw(N, b, 4 * m), matrix(m, 3), matrix(m), draw(b, m), draw(b, m)),
    ),
}
DENSE = ("cornn", "exprnn", "lem")
every = pytest.mark.parametrize("name", CASES)


def tensors(result):
    """Outputs and final states as a flat list."""
    return [t for part in result for t in (part if isinstance(part, tuple) else (part,))]


@contextlib.contextmanager
def without_kernels():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rowwise, "fits", lambda x: False)
        patch.setattr(dense, "suits", lambda x, state: False)
        yield


def run(name, leaves, lengths):
    """Outputs, zero in the padding, where they are undefined, and final states."""
    outputs, *final = tensors(CASES[name][0](leaves[0] * 1, *leaves[1:], lengths))
    if lengths is not None:
        outputs = torch.where(within(outputs.shape[-3], lengths), outputs, 0)
    return outputs, *final


def evaluate(name, arguments, lengths, only=slice(None)):
    """Outputs, final states, and the gradients of a random combination of those in ``only``."""
    leaves = [t.clone().requires_grad_() for t in arguments]
    generator, results = torch.Generator().manual_seed(1), run(name, leaves, lengths)
    weights = [torch.randn(t.shape, generator=generator, dtype=DOUBLE).to(t.dtype) for t in results]
    total = sum((t * w).sum() for t, w in list(zip(results, weights, strict=True))[only])
    gradients = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
    return [t.detach() for t in (*results, *gradients)]


def assert_same(ours, theirs, tolerance=1e-9):
    for x, y in zip(ours, theirs, strict=True):
        scale = float(y.abs().max()) + 1
        torch.testing.assert_close(x.double() / scale, y.double() / scale, rtol=0, atol=tolerance)


def compare(name, arguments, lengths, **options):
    ours = evaluate(name, arguments, lengths, **options)
    with without_kernels():
        assert_same(ours, evaluate(name, arguments, lengths, **options))


@every
@settings(max_examples=25)
@given(
    N=st.integers(1, 12),
    b=st.integers(1, 4),
    m=st.sampled_from([1, 2, 5, 32, 67, 130]),
    ragged=st.booleans(),
    turned=st.booleans(),
    only=st.sampled_from([slice(None), slice(0, 1), slice(1, None)]),
    seed=st.integers(0, 99),
)
def test_kernels_are_the_reference(name, N, b, m, ragged, turned, only, seed):
    """Also for a drive that is not contiguous, and for the gradient of the outputs or of the final states alone."""
    torch.manual_seed(seed)
    drive, *rest = CASES[name][1](N, b, m)
    if turned:
        drive = drive.transpose(-2, -3).contiguous().transpose(-2, -3)
    compare(name, (drive, *rest), torch.randint(1, N + 1, (b,)) if ragged else None, only=only)


@every
def test_sums_over_long_sequences(name):
    N = 2 * SPAN + 3
    arguments = CASES[name][1](N, 2, 3)
    if name in ("indrnn", "exprnn"):
        arguments[1].mul_(0.7)
    compare(name, arguments, torch.tensor([N, SPAN - 1]))


@every
def test_single_precision_is_close_to_double(name):
    arguments, lengths = CASES[name][1](40, 3, 50), torch.tensor([40, 7, 1])
    if name == "indrnn":
        arguments[1].clamp_(max=1.0)
    rounded = evaluate(name, [t.float() for t in arguments], lengths)
    assert rounded[0].dtype == torch.float32
    assert_same(rounded, evaluate(name, arguments, lengths), 1e-5 if name in DENSE else 3e-6)


@every
def test_threads_do_not_change_a_bit(name):
    b, m = (5, 20) if name in DENSE else (33, 70)
    assert name in DENSE or b * m // 1024 >= 2, "enough for two threads"
    arguments = [t.float() for t in CASES[name][1](9, b, m)]
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 2):
            torch.set_num_threads(threads)
            results.append(evaluate(name, arguments, torch.arange(b) % 9 + 1))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(x, y) for x, y in zip(results[0], other, strict=True))


@pytest.mark.parametrize("name", ["indrnn", "sru", "lem"])
def test_gradients_cannot_be_differentiated_again(name):
    function, make = CASES[name]
    arguments = [t.requires_grad_() for t in make(3, 1, 2)]
    outputs, *_ = function(arguments[0] * 1, *arguments[1:], None)
    (g,) = torch.autograd.grad(outputs.square().sum(), arguments[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()
