"""Contribution of step k to the gradient at step n, by differentiation and by formula: powers of Δt, measured.

Where the measured power is not the paper's, the test states which it is; docs/theory.md explains why.
"""

import pytest
import torch

from benchmarks.theory import STACKS, formula_error, initial_state, network, order, papers_exponent, signal
from unicornn import theory

DTS = (2e-3, 1e-3, 5e-4)


def shortest_path_layers(L: int, S: int = 0) -> int:
    """Number of layers on the shortest path from the first to the last, with Suppl. Eq. (75)'s connections from layer
    ℓ - S - 1 to ℓ for ℓ > S + 1."""
    layer, count = L, 1
    while layer > 1:
        layer -= S + 1 if S and layer > S + 1 else 1
        count += 1
    return count


@pytest.mark.parametrize(("L", "S"), [(1, 0), (3, 0), (4, 2)])
def test_contributions_add_up_to_the_gradient(L, S):
    layer, u = network(L, S, 0.1), torch.randn(20, 3, 2).double()
    state = tuple(t.expand(-1, 3, -1).contiguous() for t in initial_state(L))
    target = torch.randn(3, 3).double()
    output, _ = layer(u, state, output="last")
    (g,) = torch.autograd.grad((output - target).square().sum() / 2, layer.w[0])
    torch.testing.assert_close(theory.contributions(layer, u, target, state).sum((0, 1)), g)


def test_with_one_layer_there_is_one_path():
    layer, u = network(1, 0, 0.2), torch.randn(30, 2, 2).double()
    exact = theory.contributions(layer, u, 0.3)
    torch.testing.assert_close(theory.contributions(layer, u, 0.3, method="path"), exact)


def test_formula_for_three_layers_is_the_papers():
    """Suppl. Eq. (62) and Suppl. Eq. (63), written out."""
    dt, n = 0.01, 15
    layer, u, state = network(3, 0, dt), signal(torch.linspace(0, 1, n).double()), initial_state(3)
    first, second, third = theory.orbits(layer, u, state)
    σ = [torch.sigmoid(c.detach()) for c in layer.c]
    G2 = -((σ[1] ** 2) * second.slope[-1, 0])[:, None] * layer.V[1].detach()
    G3 = -((σ[2] ** 2) * third.slope[-1, 0])[:, None] * layer.V[2].detach()
    kick = -dt * σ[0] * first.slope[:, 0] * first.y[:-1, 0]
    expected = dt**4 * σ[0] * (n * dt) * kick * ((third.y[-1, 0] - 0.7) @ (G3 @ G2))
    torch.testing.assert_close(theory.contributions(layer, u, 0.7, state, "formula")[:, 0], expected)


@pytest.mark.parametrize(("L", "S"), STACKS)
def test_powers_at_a_given_time(L, S):
    """One path scales as 2L - 1. With residual connections, L is the number of layers on the shortest path, which for
    Suppl. Eq. (75), connections over S + 1 layers, differs from Suppl. Eq. (80), connections over S layers. All paths
    together are of order Δt at any depth: there are as many of them as each is small."""
    expected = 2 * shortest_path_layers(L, S) - 1
    assert abs(order("path", L, S, "time", DTS) - expected) < 0.05
    assert abs(order("formula", L, S, "time", DTS) - expected) < 0.05
    assert S or expected == papers_exponent(L)
    assert 0.95 < order("exact", L, S, "time", DTS) < 1.2


def test_the_papers_example_of_residual_connections():
    assert papers_exponent(7) == 13
    assert papers_exponent(7, 3) == 5  # as the paper counts, over S layers
    assert 2 * shortest_path_layers(7, 3) - 1 == 7  # as its equation connects them
    assert 2 * shortest_path_layers(7, 2) - 1 == 5


@pytest.mark.parametrize("L", [1, 2, 3])
def test_relative_error_of_the_formula_over_few_steps_is_of_order_dt_squared(L):
    assert abs(order(formula_error, L, 0, "steps", DTS) - (2 * L + 2)) < 0.1


def test_relative_error_of_the_formula_at_a_given_time_is_of_order_one():
    """Not Δt², as the paper states: over a time of order one, the product of n matrices 1 + Δt C is not 1 + n Δt C."""
    assert abs(order(formula_error, 1, 0, "time", DTS) - 1) < 0.05
