"""What step k contributes to the gradient at step n, by differentiation and by formula: orders in Δt, measured.

Where the measured order is not the paper's, the test says which it is; docs/theory.md says why.
"""

import pytest
import torch

from benchmarks.theory import network as layer_of
from benchmarks.theory import signal
from unicornn import theory

STACKS = [(1, 0), (2, 0), (3, 0), (7, 0), (7, 3), (7, 2), (5, 2)]


def state_of(L):
    generator = torch.Generator().manual_seed(5)
    y, z = torch.randn(2, 9, 1, 3, generator=generator, dtype=torch.float64)
    return y[:L], z[:L]


def order(f, L, S, regime, start="some"):
    """The power of Δt with which f(layer, input, target, state) falls, at k = 0.3 n.

    "time": t_n = 1 is kept, and n grows as Δt falls. "steps": n = 12 is kept, and t_n falls with Δt.
    """
    dts = (2e-3, 1e-3, 5e-4)
    sizes = []
    for dt in dts:
        n = round(1 / dt) if regime == "time" else 12
        t = dt * torch.arange(1, n + 1, dtype=torch.float64) if regime == "time" else torch.full((n,), 0.4).double()
        state = state_of(L) if start == "some" else None
        sizes.append(float(f(layer_of(L, S, dt), signal(t), 0.7, state)[int(0.3 * n)].norm()))
    x, y = torch.tensor([dts, sizes], dtype=torch.float64).log()
    x = x - x.mean()
    return float((x * y).sum() / (x * x).sum())


def error_of(formula, exact, **options):
    return lambda *arguments: formula(*arguments, **options) - exact(*arguments)


@pytest.mark.parametrize(("L", "S"), [(1, 0), (3, 0), (4, 2)])
def test_contributions_add_up_to_the_gradient(L, S):
    layer, u = layer_of(L, S, 0.1), torch.randn(20, 3, 2).double()
    state = tuple(t.expand(-1, 3, -1).contiguous() for t in state_of(L))
    target = torch.randn(3, 3).double()
    output, _ = layer(u, state, output="last")
    (g,) = torch.autograd.grad((output - target).square().sum() / 2, layer.w[0])
    torch.testing.assert_close(theory.contributions(layer, u, target, state).sum((0, 1)), g)


def test_with_one_layer_there_is_one_way():
    layer, u = layer_of(1, 0, 0.2), torch.randn(30, 2, 2).double()
    torch.testing.assert_close(theory.one_way(layer, u, 0.3), theory.contributions(layer, u, 0.3))


def test_the_formula_for_three_layers_is_the_papers():
    """Suppl. Eq. (62) and Suppl. Eq. (63), written out."""
    dt, n = 0.01, 15
    layer, u, state = layer_of(3, 0, dt), signal(torch.linspace(0, 1, n).double()), state_of(3)
    first, second, third = theory.orbits(layer, u, state)
    σ = [torch.sigmoid(c.detach()) for c in layer.c]
    G2 = -((σ[1] ** 2) * second.slope[-1, 0])[:, None] * layer.V[1].detach()
    G3 = -((σ[2] ** 2) * third.slope[-1, 0])[:, None] * layer.V[2].detach()
    kick = -dt * σ[0] * first.slope[:, 0] * first.y[:-1, 0]
    expected = dt**4 * σ[0] * (n * dt) * kick * ((third.y[-1, 0] - 0.7) @ (G3 @ G2))
    torch.testing.assert_close(theory.representation(layer, u, 0.7, state)[:, 0], expected)


@pytest.mark.parametrize(("L", "S"), STACKS)
def test_one_way_scales_as_the_papers_eq_scl(L, S):
    """2L - 1 at a given time t_n. With residual stacking the L that counts is the number of layers on the shortest way,
    which for Suppl. Eq. (75) (connections over S + 1 layers) is not Suppl. Eq. (80)'s (connections over S)."""
    expected = 2 * theory.layers_on_the_shortest_way(L, S) - 1
    assert abs(order(theory.one_way, L, S, "time") - expected) < 0.05
    assert abs(order(theory.representation, L, S, "time") - expected) < 0.05
    if S == 0:
        assert expected == theory.papers_exponent(L)


def test_the_papers_example_of_residual_stacking():
    assert theory.papers_exponent(7) == 13
    assert theory.papers_exponent(7, 3) == 5  # as the paper counts, over S layers
    assert 2 * theory.layers_on_the_shortest_way(7, 3) - 1 == 7  # as its equation connects them
    assert 2 * theory.layers_on_the_shortest_way(7, 2) - 1 == 5


@pytest.mark.parametrize(("L", "S"), STACKS)
def test_all_ways_together_do_not_vanish_with_depth(L, S):
    """At a given time the true contribution is of order Δt, whatever the depth: the ways are many as each is small."""
    assert 0.95 < order(theory.contributions, L, S, "time") < 1.2


@pytest.mark.parametrize("start", ["some", "zero"])
@pytest.mark.parametrize(("L", "S"), STACKS)
def test_over_few_steps(L, S, start):
    """With the number of steps given, t_n is of order Δt: one power more; from a zero state y_{k-1} adds two."""
    expected = 2 * theory.layers_on_the_shortest_way(L, S) + (2 if start == "zero" else 0)
    for f in (theory.contributions, theory.one_way):
        assert abs(order(f, L, S, "steps", start) - expected) < 0.2


@pytest.mark.parametrize("L", [1, 2, 3])
def test_the_error_of_the_formula_is_two_orders_higher_over_few_steps(L):
    """With t_n - t_{k-1} for t_n. That is a relative error of Δt², for a given number of steps."""
    error = error_of(theory.representation, theory.one_way, since_k=True)
    assert abs(order(error, L, 0, "steps") - (2 * L + 2)) < 0.1


def test_the_error_of_eq_glb_at_a_given_time_is_of_the_order_of_the_formula():
    """Not of order Δt²: over a time of order one the product of n matrices 1 + Δt C is not 1 + n Δt C."""
    assert abs(order(error_of(theory.representation, theory.one_way), 1, 0, "time") - 1) < 0.05
    assert abs(order(error_of(theory.representation, theory.one_way, since_k=True), 1, 0, "time") - 1) < 0.05


def test_the_formula_does_not_forget_k():
    """The message of Eq. (14): no exponential dependence on n - k."""
    layer, u = layer_of(1, 0, 1e-3), signal(torch.linspace(0, 1, 1000).double())
    size = theory.contributions(layer, u, 0.7, state_of(1)).flatten(1).norm(dim=1)
    assert size[:100].mean() > 0.1 * size[-600:-500].mean()
