"""Suppl. Eq. (7) and Eq. (12) on random networks where their proofs reach, and counterexamples where they do not."""

import math
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unicornn import UnICORNN, theory
from unicornn.theory._bounds import proven_steps


@given(st.floats(0.01, 50), st.floats(1e-5, 0.9))
def test_steps_for_which_the_proofs_hold(rate, dt):
    n = proven_steps(rate, dt)
    r = rate * dt

    def holds(n):
        return n * math.log1p(r) <= math.log1p(2 * n * r)

    assert n >= 1
    assert holds(n)
    assert not holds(n + 1)
    assert n * r > 1.2  # e^x ≤ 1 + 2x up to x = 1.256, and (1 + r)ⁿ ≤ e^(nr)


@given(st.data())
def test_states_and_gradients_are_within_their_bounds(data):
    L, alpha = data.draw(st.integers(1, 3)), data.draw(st.floats(0.05, 3))
    dt = data.draw(st.floats(1e-4, 0.05))
    torch.manual_seed(data.draw(st.integers(0, 2**32)))
    layer = UnICORNN(2, 5, L, dt=dt, alpha=alpha, dtype=torch.float64)
    for w in layer.w:
        torch.nn.init.uniform_(w, -2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = theory.bounds(layer, 1)
        N = min(found.gradient_steps if L == 1 else found.steps, 300)
        target = torch.randn(N, 1, 5, dtype=torch.float64)
        limits = theory.bounds(layer, N, float(target.abs().max()))
    assert limits.proven == (L == 1)
    u = torch.randn(N, 1, 2, dtype=torch.float64) * data.draw(st.sampled_from([0.1, 1.0, 10.0]))
    # The proof treats the input as a hidden state y⁰ (Suppl. Eq. (38)), so it has to satisfy the same bound
    u = u.clamp(-float(limits.y[0]), float(limits.y[0]))
    for orbit in theory.orbits(layer, u):
        y, z = (t[1:].abs().amax((1, 2)) for t in (orbit.y, orbit.z))
        for states, limit in ((y, limits.y), (z, limits.z), (y, limits.y_always), (z, limits.z_always)):
            assert bool((states <= limit).all())
    output, _ = layer(u)
    loss = (output - target).square().sum() / 2 / N
    largest = max(float(g.abs().max()) for g in torch.autograd.grad(loss, list(layer.parameters())))
    assert largest <= limits.gradient_always
    if L == 1:
        assert largest <= limits.gradient


def test_gradient_bound_is_neither_proven_nor_true_for_two_layers():
    """The top layer has w = 0, so γ is small; the proof ignores paths in time through the first layer."""
    layer = UnICORNN(1, 1, 2, dt=1e-3, alpha=0.1, dtype=torch.float64)
    with torch.no_grad():
        for letter, values in (("w", (-1e4, 0.0)), ("c", (30.0, 30.0)), ("V", (1.0, 1.0)), ("b", (0.0, 0.0))):
            for parameter, value in zip(getattr(layer, letter), values, strict=True):
                parameter.fill_(value)
    N, target = 315, 1.0
    with pytest.warns(RuntimeWarning, match="up to no steps"):
        limits = theory.bounds(layer, N, target)
    assert limits.steps >= N  # the proof of Suppl. Eq. (7) covers all steps
    assert not limits.proven
    loss = (layer(torch.zeros(N, 1, 1, dtype=torch.float64))[0] - target).square().sum() / 2 / N
    largest = max(float(g.abs().max()) for g in torch.autograd.grad(loss, list(layer.parameters())))
    assert limits.gradient == pytest.approx(125, rel=0.01)
    assert largest > 50 * limits.gradient
    assert largest <= limits.gradient_always < 1e30


def test_state_bound_is_false_at_long_times():
    """For a resonant square wave the amplitude grows as 2t/π, the bound as √t; the bound for any length grows as t."""
    N, layer = 3000, UnICORNN(1, 1, dt=0.05, alpha=1.0, dtype=torch.float64)
    with torch.no_grad():
        layer.w[0].fill_(0.0)
        layer.V[0].fill_(1.0)
        layer.c[0].fill_(30.0)
    u = 20 * torch.sign(torch.sin(0.05 * torch.arange(N) + 0.01)).double()[:, None, None]
    with pytest.warns(RuntimeWarning, match="proven up to 7 steps"):
        limits = theory.bounds(layer, N)
    y = theory.orbits(layer, u)[0].y[1:, 0, 0].abs()
    passed = (y > limits.y).nonzero()
    assert 700 < int(passed[0]) < 1000
    assert bool((y <= limits.y_always).all())
    assert (y / limits.y_always)[-500:].max() > 0.6  # 2/π: a square wave nearly attains it


def test_constants_are_the_papers():
    layer = UnICORNN(2, 3, 2, dt=0.01, alpha=0.5, dtype=torch.float64)
    torch.nn.init.constant_(layer.w[1], -3.0)
    torch.nn.init.constant_(layer.V[0], 1.0)  # ‖V¹‖_∞ = 2
    torch.nn.init.constant_(layer.V[1], 0.1)  # below 1, hence 1
    with pytest.warns(RuntimeWarning, match="up to no steps"):
        limits = theory.bounds(layer, 10, target=0.25)
    assert limits.beta == 2.0
    assert limits.gamma == 3.5 + 3.5**2 / 2
    assert limits.V == 2.0
    assert pytest.approx(0.1) == limits.T
    assert pytest.approx(math.sqrt(4 * 1.4)) == limits.F
    assert limits.Delta == pytest.approx(2 + math.sqrt(2 * 1.4) + 2.5 * math.sqrt(4 * 1.4))
    expected = (1 - 0.01**2) / 0.99 * 0.1 * (1 + 2 * limits.gamma * 0.1) * 2 * (0.25 + limits.F) * limits.Delta
    assert limits.gradient == pytest.approx(expected)


def test_warning_outside_the_proofs_and_rejected_layers():
    layer = UnICORNN(2, 3, dt=0.1)
    with pytest.warns(RuntimeWarning, match=r"up to \d+ steps, got N=1000"):
        assert not theory.bounds(layer, 1000).proven
    for arguments in ({"alpha": 0.0}, {"dt": 1.5}, {"skip_layers": 2}):
        with pytest.raises(ValueError, match=r"^layer: "):
            theory.bounds(UnICORNN(2, 3, 3, **arguments), 5)
    with pytest.raises(ValueError, match=r"^N: "):
        theory.bounds(layer, 0)
