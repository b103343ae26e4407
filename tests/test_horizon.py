"""Gradients with a horizon H: the sum over all steps k of e^(-(n-k)/H) times the contribution of step k."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.adjoint import Recurrence
from tests.problems import CASES, COMPILED, GPU, Problem, random_problems, relative
from unicornn import UnICORNN, functional
from unicornn._ops.cpu import driver as cpu
from unicornn._ops.triton.driver import Stack

DOUBLE = torch.float64


def contributions(p, H):
    """Gradients of p's loss as a sum of single contributions, in the order of ``p.names()``.

    Every step k has a separate copy of the parameters and of the input, and the loss is a sum of terms, one for each
    step n (that of the last step includes the final state; the initial state belongs to step 0). The gradient of term
    n with respect to the copies of step k has the weight e^(-(n-k)/H).
    """
    letters = [t for letter in p.weights for t in letter if t is not None]
    copies = [[t.detach().clone().requires_grad_() for t in (p.u[k], *letters)] for k in range(p.N)]
    start = [t.detach().clone().requires_grad_() for t in (p.y, p.z)]
    lengths = torch.full((p.batch,), p.N) if p.lengths is None else torch.tensor(p.lengths)
    total = [torch.zeros_like(t) for t in p.differentiable]
    state = start
    for n, (u, *values) in enumerate(copies, 1):
        left = iter(values)
        weights = functional.Weights(*([None if t is None else next(left) for t in letter] for letter in p.weights))
        options = {"dt": p.dt, "alpha": p.alpha, "mask": p.mask, "backend": "reference"}
        output, after = functional.step(u, weights, state=tuple(state), **options)
        running, ends = (n <= lengths)[:, None], (n == lengths)[:, None]
        state = [torch.where(running, new, old) for new, old in zip(after, state, strict=True)]
        term = (torch.where(running, output, 0) * p.g_output[n - 1]).sum()
        term = term + torch.where(ends, state[0] * p.g_y + state[1] * p.g_z, 0).sum()
        for k, leaves in enumerate([start, *copies[:n]]):
            gradients = torch.autograd.grad(term, leaves, allow_unused=True, retain_graph=True)
            sums = total[1:3] if k == 0 else [total[0][k - 1], *total[3:]]
            for sum_, g in zip(sums, gradients, strict=True):
                sum_ += 0 if g is None else math.exp(-(n - k) / H) * g
    return total


def by_adjoint(p, horizon):
    with torch.no_grad():
        arguments = p.arguments(horizon=[horizon] * p.L)
        stack = Stack(arguments, recurrence=Recurrence)
        stack.forward()
        stack = Stack(arguments._replace(grid=stack.state.long()), recurrence=Recurrence)
        return p.ordered(stack.backward(p.g_output, torch.stack([p.g_y, p.g_z]), True))


@given(p=random_problems(7, m=4, dtypes=[DOUBLE], alphas=[0.0, 1.0, 7.0]), H=st.floats(0.2, 1e6))
def test_every_implementation_is_the_sum_of_contributions(p, H):
    expected = contributions(p, H)
    rungs = {
        "reference": p.run(horizon=H, backend="reference")[1],
        "adjoint": by_adjoint(p, H),
        "reversible": p.run(horizon=H, backend="cpu")[1],
        "stored": p.run(horizon=H, backend="cpu", gradient="stored")[1],
    }
    for rung, gradients in rungs.items():
        for name, ours, g in zip(p.names(), gradients, expected, strict=True):
            torch.testing.assert_close(ours, g, rtol=1e-9, atol=1e-9, msg=f"{rung}, {name}")


@pytest.mark.parametrize("gradient", ["reversible", "stored"])
@pytest.mark.parametrize("case", ["plain", "residual", "everything"])
def test_triton_is_the_sum_of_contributions(case, gradient):
    p = Problem(**CASES[case] | {"N": 5, "lengths": [2, 5, 4] if case == "everything" else None}, dtype=DOUBLE)
    expected = contributions(p, 3.0)
    _, found = p.to(GPU).run(horizon=3.0, backend="triton", gradient=gradient)
    for name, ours, g in zip(p.names(), found, expected, strict=True):
        torch.testing.assert_close(ours.cpu(), g, rtol=1e-9, atol=1e-9, msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=str)
@pytest.mark.parametrize("backend", ["cpu", "triton"])
def test_a_horizon_per_layer(backend, dtype, monkeypatch):
    monkeypatch.setattr(cpu, "LIMITS", cpu.LIMITS._replace(steps=16))
    N, horizon = 40 if backend == "cpu" or COMPILED else 5, [5.0, 1000.0, 1.0, 30.0]
    p = Problem(**CASES["everything"] | {"N": N, "lengths": [2, N, N - 1], "dt": 0.05}, dtype=dtype)
    p = p.to(GPU if backend == "triton" else "cpu")
    options = {"horizon": horizon, "backend": backend}
    reversible, stored = (p.run(gradient=gradient, **options)[1] for gradient in ("reversible", "stored"))
    assert all(torch.equal(x, y) for x, y in zip(reversible, stored, strict=True))
    _, exact = p.to("cpu").double().run(horizon=horizon, backend="reference")
    bound = 1e-10 if dtype == DOUBLE else 1e-4
    assert all(relative(x, y) < bound for x, y in zip(reversible, exact, strict=True))


def test_a_long_horizon_in_single_precision():
    """Rounding e^(-1/H) to float32 would give an error of several per cent after N steps."""
    N, H = 200_000, 1e5
    layer = UnICORNN(1, 1, dt=1e-3, alpha=0.0, horizon=H)
    with torch.no_grad():
        layer.w[0].zero_()
        layer.V[0].zero_()
    start = [torch.zeros(1, 1, 1, requires_grad=True), torch.zeros(1, 1, 1)]
    output, _ = layer(torch.zeros(N, 1, 1), start, output="last")
    (g,) = torch.autograd.grad(output.sum(), start[0])  # ∂y_N/∂y_0 = 1 for a free particle
    assert g.item() == pytest.approx(math.exp(-N / H), rel=1e-3)


@pytest.mark.parametrize("gradient", ["reversible", "stored"])
def test_faded_gradients_are_zero(gradient):
    """They must not be subnormal numbers, which are many times slower and never become zero."""
    layer = UnICORNN(1, 5, 2, horizon=10.0, gradient=gradient, backend="cpu")
    u, start = torch.randn(3000, 2, 1, requires_grad=True), torch.zeros(2, 2, 2, 5, requires_grad=True)
    output, _ = layer(u, (start[0], start[1]), output="last")
    output.sum().backward()
    assert not start.grad.any()
    assert u.grad[-100:].all()
    assert not u.grad[:1000].any()


def test_chunks_fade_like_the_whole_sequence():
    layer = UnICORNN(2, 4, 2, dtype=DOUBLE, horizon=3.0)
    u = torch.randn(9, 2, 2, dtype=DOUBLE, requires_grad=True)
    whole, _ = layer(u)
    first, state = layer(u[:4])
    second, state = layer(u[4:8], state)
    third, _ = layer.step(u[8], state)
    weights = torch.randn_like(whole)
    expected = torch.autograd.grad((whole * weights).sum(), [u, *layer.parameters()])
    pieces = torch.cat([first, second, third[None]])
    for g, e in zip(torch.autograd.grad((pieces * weights).sum(), [u, *layer.parameters()]), expected, strict=True):
        torch.testing.assert_close(g, e)
