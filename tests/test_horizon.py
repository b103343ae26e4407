"""Gradients seen through a window: in every rung the sum over all steps k of e^(-(n-k)/H) times what k contributed."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.problems import CASES, COMPILED, GPU, Problem, relative
from unicornn import UnICORNN, functional
from unicornn._ops.adjoint import Recurrence
from unicornn._ops.driver import Stack

DOUBLE = torch.float64


def contributions(p, H):
    """The gradients of p's loss, made of all contributions, one by one; in the order of ``p.names()``.

    Every step k has parameters and an input of its own, and the loss is a sum over the steps n whose output it looks
    at (the final state is that of the sequence's last step, the initial one that of step 0); the gradient of its term n
    by the parameters of step k has the weight e^(-(n-k)/H).
    """
    letters = [("w", p.w), ("V", p.V), ("b", p.b), ("c", p.c), ("Λ", p.Lambda)]
    own = [
        {name: [None if t is None else t.detach().clone().requires_grad_() for t in ts] for name, ts in letters}
        | {"u": p.u[k].detach().clone().requires_grad_()}
        for k in range(p.N)
    ]
    start = [t.detach().clone().requires_grad_() for t in (p.y, p.z)]
    lengths = torch.full((p.batch,), p.N) if p.lengths is None else torch.tensor(p.lengths)
    ys, zs, terms = list(start[0]), list(start[1]), []
    for n, at in enumerate(own):
        run, below = (n < lengths)[:, None], [torch.where((n < lengths)[:, None], at["u"], 0)]
        for l in range(p.L):
            x = below[l] @ at["V"][l].T + at["b"][l]
            if at["Λ"][l] is not None:
                x = x + below[l - p.S] @ at["Λ"][l].T
            a = p.dt * torch.sigmoid(at["c"][l])
            z = zs[l] - a * (torch.tanh(at["w"][l] * ys[l] + x) + p.alpha * ys[l])
            y = ys[l] + a * z
            ys[l], zs[l] = torch.where(run, y, ys[l]), torch.where(run, z, zs[l])
            below.append(ys[l] if p.mask is None else ys[l] * p.mask[l])
        term = (torch.where(run, below[-1], 0) * p.g_output[n]).sum()
        ends = (lengths == n + 1)[:, None]
        for l in range(p.L):
            term = term + torch.where(ends, ys[l] * p.g_y[l] + zs[l] * p.g_z[l], 0).sum()
        terms.append(term)
    total = dict.fromkeys(p.names(), 0.0)
    total["u"] = torch.zeros_like(p.u)
    for n, term in enumerate(terms, 1):
        leaves = [("y", start[0], 0), ("z", start[1], 0)]
        for k, at in enumerate(own, 1):
            leaves.append(("u", at["u"], k))
            leaves += [(f"{name}{l + 1}", t, k) for name, _ in letters for l, t in enumerate(at[name]) if t is not None]
        gradients = torch.autograd.grad(term, [t for _, t, _ in leaves], allow_unused=True, retain_graph=True)
        for (name, _, k), g in zip(leaves, gradients, strict=True):
            weighted = 0.0 if g is None else math.exp(-(n - k) / H) * g
            if name == "u":
                total["u"][k - 1] += weighted
            else:
                total[name] = total[name] + weighted
    return [total[name] for name in p.names()]


def by_backend(p, horizon, backend, gradient="reversible"):
    p.requiring_grad()
    output, state = functional.unicornn(
        p.u, functional.Weights(*p.weights), state=(p.y, p.z), horizon=horizon, backend=backend, gradient=gradient,
        **p.options,
    )  # fmt: skip
    return p.gradients(output, state)


def by_adjoint(p, horizon):
    with torch.no_grad():
        arguments = p.arguments(horizon=[horizon] * p.L)
        stack = Stack(Recurrence, arguments)
        stack.forward()
        stack = Stack(Recurrence, arguments._replace(grid=stack.state.long()))
        g = stack.backward(p.g_output, torch.stack([p.g_y, p.g_z]), True)
        σ = torch.sigmoid(torch.stack(p.c))
    return [g.u, *g.start, *g.w, *g.V, *g.b, *(g.a * p.dt * σ * (1 - σ)), *g.Lambda]


def problems(longest):
    def build(N, batch, m, L, S, dropout, ragged, alpha, seed):
        S = S if S < L else 0
        lengths = [1 + (seed + 3 * i) % N for i in range(batch)] if ragged else None
        return Problem(
            N=N, batch=batch, m=m, L=L, S=S, dropout=dropout, lengths=lengths, alpha=alpha, seed=seed, dtype=DOUBLE
        )

    return st.builds(
        build,
        N=st.integers(1, longest),
        batch=st.integers(1, 3),
        m=st.integers(1, 4),
        L=st.integers(1, 4),
        S=st.sampled_from([0, 2, 3]),
        dropout=st.booleans(),
        ragged=st.booleans(),
        alpha=st.sampled_from([0.0, 1.0, 7.0]),
        seed=st.integers(0, 1000),
    )


horizons = st.floats(0.2, 1e6)


@given(p=problems(7), H=horizons)
def test_every_rung_is_the_sum_of_contributions(p, H):
    expected = contributions(p, H)
    rungs = {
        "reference": by_backend(p, H, "reference"),
        "adjoint": by_adjoint(p, H),
        "reversible": by_backend(p, H, "cpu"),
        "stored": by_backend(p, H, "cpu", "stored"),
    }
    for rung, gradients in rungs.items():
        for name, ours, g in zip(p.names(), gradients, expected, strict=True):
            torch.testing.assert_close(ours, g, rtol=1e-9, atol=1e-9, msg=f"{rung}, {name}")


@pytest.mark.parametrize("gradient", ["reversible", "stored"])
@pytest.mark.parametrize("case", ["plain", "residual", "everything"])
def test_triton_is_the_sum_of_contributions(case, gradient):
    p = Problem(**CASES[case] | {"N": 5, "lengths": [2, 5, 4] if case == "everything" else None}, dtype=DOUBLE)
    expected = contributions(p, 3.0)
    for name, ours, g in zip(p.names(), by_backend(p.to(GPU), 3.0, "triton", gradient), expected, strict=True):
        torch.testing.assert_close(ours.cpu(), g, rtol=1e-9, atol=1e-9, msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=str)
@pytest.mark.parametrize("backend", ["cpu", "triton"])
@pytest.mark.parametrize("horizon", [20.0, [5.0, 1000.0, 1.0, 30.0]], ids=str)
def test_invert_is_store_bit_for_bit(backend, dtype, horizon):
    N = 1100 if backend == "cpu" or COMPILED else 5
    p = Problem(**CASES["everything"] | {"N": N, "lengths": [2, N, N - 1], "dt": 0.05}, dtype=dtype)
    p = p.to(GPU if backend == "triton" else "cpu")
    inverted, stored = (by_backend(p, horizon, backend, gradient) for gradient in ("reversible", "stored"))
    assert all(torch.equal(x, y) for x, y in zip(inverted, stored, strict=True))
    if isinstance(horizon, list):
        exact = by_backend(p.to("cpu").double(), horizon, "reference")
        bound = 1e-10 if dtype == DOUBLE else 1e-4
        assert all(relative(x, y) < bound for x, y in zip(inverted, exact, strict=True))


@pytest.mark.parametrize("backend", ["cpu", "triton"])
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=str)
def test_beyond_all_horizons_is_the_whole_gradient(backend, dtype):
    p = Problem(N=4, dtype=dtype).to(GPU if backend == "triton" else "cpu")
    whole, faded = by_backend(p, None, backend), by_backend(p, 1e30, backend)
    assert all(torch.equal(x, y) for x, y in zip(whole, faded, strict=True))


def test_a_long_horizon_in_single_precision():
    """e^(-1/H) has no float32 near enough to it: after N steps its power would be off by several per cent."""
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
def test_what_has_faded_is_zero(gradient):
    """Not one of the subnormal numbers, which are many times slower and would never become smaller."""
    layer = UnICORNN(1, 5, 2, horizon=10.0, gradient=gradient, backend="cpu")
    u, start = torch.randn(3000, 2, 1, requires_grad=True), torch.zeros(2, 2, 2, 5, requires_grad=True)
    output, _ = layer(u, (start[0], start[1]), output="last")
    output.sum().backward()
    assert not start.grad.any()
    assert u.grad[-100:].all()
    assert not u.grad[:1000].any()


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_both_directions_fade_in_their_own_time(backend):
    layer = UnICORNN(2, 3, dtype=DOUBLE, bidirectional=True, horizon=4.0, backend=backend)
    one = UnICORNN(2, 3, dtype=DOUBLE, horizon=4.0, backend=backend)
    u = torch.randn(6, 2, 2, dtype=DOUBLE, requires_grad=True)
    output, _ = layer(u, lengths=[6, 4])
    for i in range(2):
        one.load_state_dict({f"{name}.0": getattr(layer, name)[i].detach() for name in "wVbc"})
        v = u.detach().clone()
        if i:
            v[:, 0], v[:4, 1] = v[:, 0].flip(0), v[:4, 1].flip(0)
        v.requires_grad_()
        alone, _ = one(v, lengths=[6, 4])
        (g,) = torch.autograd.grad(alone[2].sum(), v)
        where = ([3, 1], [0, 1]) if i else ([2, 2], [0, 1])  # the third step of each sequence in this direction
        (ours,) = torch.autograd.grad(output[where[0], where[1], 3 * i : 3 * i + 3].sum(), u, retain_graph=True)
        if i:
            g[:, 0], g[:4, 1] = g[:, 0].flip(0), g[:4, 1].flip(0)
        torch.testing.assert_close(ours, g)


def test_cut_and_continued_fades_as_the_whole():
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


@pytest.mark.parametrize("gradient", ["reversible", "stored"])
def test_compiled_and_exported(gradient):
    layer = UnICORNN(2, 4, 2, horizon=[3.0, 50.0], gradient=gradient)
    u = torch.randn(8, 2, 2, requires_grad=True)
    expected = torch.autograd.grad(layer(u)[0].sum(), [u, *layer.parameters()])
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(u)[0], layer(u)[0])
    ours = torch.autograd.grad(compiled(u)[0].sum(), [u, *layer.parameters()])
    assert all(torch.equal(x, y) for x, y in zip(ours, expected, strict=True))
    program = torch.export.export(layer, (u.detach(),))
    assert torch.equal(program.module()(u.detach())[0], layer(u)[0])


def test_gradients_of_a_million_steps_are_finite():
    layer = UnICORNN(1, 4, 2, horizon=1000.0)
    u = torch.randn(1_000_000, 1, 1)
    layer(u, output="last")[0].sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.abs().max() < 1e6 for p in layer.parameters())


def test_what_a_horizon_may_be():
    assert "horizon=(7.0, 7.0)" in repr(UnICORNN(1, 2, 2, horizon=7))
    assert "horizon" not in repr(UnICORNN(1, 2, 2))
    for bad in (0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="horizon: expected a finite number > 0"):
            UnICORNN(1, 2, horizon=bad)
    with pytest.raises(ValueError, match=r"horizon: expected a number or one per layer \(2\)"):
        UnICORNN(1, 2, 2, horizon=[1.0])
    with pytest.raises(TypeError, match="horizon"):
        UnICORNN(1, 2, horizon="long")
