"""The ladder: reference under autograd ⇄ adjoint by hand ⇄ kernels. Output, final state and every gradient."""

import math
from functools import cache, partial

import pytest
import torch

from tests.problems import CASES, COMPILED, GPU, TRITON, Problem, relative
from unicornn import UnICORNN
from unicornn._ops import adjoint, reference
from unicornn._ops import op as library
from unicornn._ops.cpu import driver as cpu
from unicornn._ops.driver import Stack, kept_length
from unicornn._ops.triton import recurrence as gpu
from unicornn._state import to_grid, value


class Triton(gpu.Recurrence):
    """With short chunks: the interpreter takes a hundredth of a second for a step."""

    LONGEST = 16


RUNGS = {"adjoint": partial(Stack, adjoint.Recurrence), "cpu": cpu.Stack, "triton": partial(Stack, Triton)}
LONGEST = {"adjoint": adjoint.Recurrence.LONGEST, "cpu": cpu.LONGEST, "triton": Triton.LONGEST}
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)


def problem(case, rung, dtype):
    """The case, with less of its first chunk where chunks are shorter."""
    size = dict(CASES[case])
    spare = LONGEST["adjoint"] - LONGEST[rung]
    if spare and size.get("N", 0) > LONGEST["adjoint"]:
        size["N"] -= spare
        size["lengths"] = [n - spare for n in size["lengths"]] if "lengths" in size else None
    return Problem(**size, dtype=dtype).to(GPU if rung == "triton" else "cpu")


@cache
def climb(case, rung, dtype, store):
    """Forward and backward of a stack on this rung: output, final state, gradients in the order of ``names``."""
    p, Rung = problem(case, rung, dtype), RUNGS[rung]
    lengths = None if p.lengths is None else torch.tensor(p.lengths, device=p.u.device)
    weights = p.coefficients
    grid, rest = to_grid(torch.stack([p.y, p.z]))
    stack = Rung(weights, p.u, grid, p.mask, lengths)
    keep = marks = None
    if store:
        state = torch.float64 if p.dtype == torch.float32 else torch.int64
        if rung == "cpu":
            t_shape, cuts = ((size,) for size in cpu.room(p.N, p.batch, p.m, p.L))
        else:
            t_shape = p.L, kept_length(p.N, p.batch, p.m)
            cuts = -(-p.N // stack.K), p.L, *stack.recurrence.mark_shape(p.batch, p.m)
        keep = torch.empty(t_shape, dtype=p.dtype, device=p.u.device)
        marks = torch.empty(cuts, dtype=state)
    output, final = stack.forward(True, keep, marks), stack.state
    assert not stack.out_of_range
    stack = Rung(weights, p.u, final.long(), p.mask, lengths)
    gu, g_start, gw, gb, ga, gV, gLambda = stack.backward(
        p.g_output, torch.stack([p.g_y, p.g_z]), True, keep, marks, True
    )
    assert store or torch.equal(stack.state.long(), grid)
    σ = torch.sigmoid(torch.stack(p.c))
    gradients = [gu, g_start[0], g_start[1], *gw, *gV, *gb, *(ga * p.dt * σ * (1 - σ)), *gLambda]
    return output, value(final, rest, p.dtype), gradients


def by_autograd(p):
    p = p.double().requiring_grad()
    lengths = None if p.lengths is None else torch.tensor(p.lengths)
    output, y, z = reference.forward(p.u, p.y, p.z, p.coefficients, p.mask, lengths)
    return output.detach(), torch.stack([y, z]).detach(), p.gradients(output, (y, z))


@both_dtypes
@pytest.mark.parametrize("rung", ["adjoint", "cpu", TRITON])
@pytest.mark.parametrize("case", CASES)
def test_rung_agrees_with_autograd(case, rung, dtype):
    p = problem(case, rung, dtype).to("cpu")
    bound = 1e-11 if dtype == torch.float64 else 1e-5
    output, final, gradients = by_autograd(p)
    for store in (False, True):
        ours = climb(case, rung, dtype, store)
        assert relative(ours[0], output) < bound
        assert relative(ours[1], final) < bound
        for name, ours_g, g in zip(p.names(), ours[2], gradients, strict=True):
            assert relative(ours_g, g) < bound, name


@both_dtypes
@pytest.mark.parametrize("rung", ["adjoint", "cpu", TRITON])
@pytest.mark.parametrize("case", CASES)
def test_invert_equals_store_bit_for_bit(case, rung, dtype):
    inverted, stored = (climb(case, rung, dtype, store) for store in (False, True))
    assert torch.equal(inverted[0], stored[0])
    assert torch.equal(inverted[1], stored[1])
    for name, a, b in zip(problem(case, rung, dtype).names(), inverted[2], stored[2], strict=True):
        assert torch.equal(a, b), name


@both_dtypes
@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_stays_so(rung, dtype, bad):
    p = Problem(N=6, dtype=dtype).to(GPU if rung == "triton" else "cpu")
    p.u[2, 1, 0] = bad
    stack = RUNGS[rung](p.coefficients, p.u, to_grid(torch.stack([p.y, p.z]))[0])
    output = stack.forward(True, None, None)
    assert output[2:, 1].isnan().all()
    assert output[:2].isfinite().all()
    assert output[:, [0, 2]].isfinite().all()
    assert stack.out_of_range == [1, 2]
    assert value(stack.state, None, dtype)[:, :, 1].isnan().all()


@pytest.mark.parametrize("backend", ["cpu", "triton"])
@pytest.mark.parametrize("alpha", [0.0, 1.0, 12.5])
def test_float32_kernels_within_1e_5_at_N_1000(alpha, backend):
    if backend == "triton" and not COMPILED:
        pytest.skip("too long for Triton's interpreter; the compiled kernels run this")
    torch.use_deterministic_algorithms(False)  # the reference allocates for each step, and NaN takes time
    device = GPU if backend == "triton" else "cpu"
    layer = UnICORNN(3, 24, 3, dt=0.1, alpha=alpha, skip_layers=2, backend=backend, device=device)
    twin = UnICORNN(3, 24, 3, dt=0.1, alpha=alpha, skip_layers=2, backend="reference", dtype=torch.float64)
    twin.load_state_dict(layer.state_dict())
    u = torch.randn(1000, 2, 3, requires_grad=True)
    v = u.detach().double().requires_grad_()
    weights = torch.randn(1000, 2, 24)
    results = []
    for net, x in ((layer, u), (twin, v)):
        output, (y, z) = net(x.to(net.w[0].device))
        loss = (output * weights.to(output.device)).sum() + y.sum() + z.sum()
        results.append([output, y, z, *torch.autograd.grad(loss, [x, *net.parameters()])])
    for ours, exact in zip(*results, strict=True):
        assert relative(ours.detach(), exact.detach()) < 1e-5


def test_the_op_is_the_stack():
    p = Problem(**CASES["everything"], dtype=torch.float32)
    start = torch.stack([p.y, p.z])
    grid, rest = to_grid(start)
    output, pair, *_ = library.forward(
        p.u,
        start,
        grid,
        rest,
        *p.coefficients,
        p.mask,
        torch.tensor(p.lengths),
        None,
        True,
        "nothing",
        None,
        False,
        "cpu",
    )
    ours = climb("everything", "cpu", torch.float32, False)
    assert torch.equal(output, ours[0])
    assert torch.equal(pair, ours[1])
