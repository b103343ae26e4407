"""Growth of the gradient along a sequence, and the suggested time step that follows from it."""

import math

import pytest
import torch

from unicornn import UnICORNN, suggest_dt, theory
from unicornn.theory import _growth


@pytest.mark.parametrize(("L", "S", "batch_first"), [(1, 0, False), (2, 0, True), (3, 2, False)])
def test_sizes_are_those_of_the_gradient(L, S, batch_first, monkeypatch):
    monkeypatch.setattr(_growth, "MIN_PIECE", 100)
    torch.manual_seed(0)
    layer = UnICORNN(2, 5, L, dt=0.4, skip_layers=S, dropout=0.5, dtype=torch.float64)
    u, state = torch.randn(250, 3, 2).double().requires_grad_(), torch.randn(2, L, 3, 5).double().requires_grad_()
    growth = theory.gradient_growth(layer, u, (state[0], state[1]))
    assert layer.training
    layer.eval()(u, (state[0], state[1]), output="last")[0].sum().backward()
    torch.testing.assert_close(growth.neurons[0].exp(), state.grad.square().sum(0).sqrt(), rtol=1e-9, atol=0)
    assert growth.steps.tolist() == [0, 100, 200]
    squares = u.grad.square().sum(2)
    expected = torch.stack([squares[:100].mean(0), squares[100:200].mean(0), squares[200:].mean(0)]).sqrt()
    torch.testing.assert_close(growth.input.exp(), expected, rtol=1e-9, atol=0)
    norms = state.grad.square().sum((0, 3)).sqrt()  # (L, b)
    torch.testing.assert_close(growth.layers[0], norms.square().mean(1).sqrt().log())
    if batch_first:
        other = UnICORNN(2, 5, L, dt=0.4, batch_first=True, dtype=torch.float64)
        other.load_state_dict(layer.state_dict())
        again = theory.gradient_growth(other, u.transpose(0, 1), (state[0], state[1]))
        torch.testing.assert_close(again.neurons, growth.neurons)


def test_logarithms_far_beyond_float64(monkeypatch):
    """An unstable step, a²(α + w) > 4, grows by a known factor per step."""
    layer = UnICORNN(1, 1, dt=2.0, alpha=2.0, dtype=torch.float64)
    with torch.no_grad():
        layer.c[0].fill_(30.0)
        layer.w[0].zero_()
        layer.V[0].zero_()
    monkeypatch.setattr(_growth, "MIN_PIECE", 100)
    growth = theory.gradient_growth(layer, torch.zeros(3000, 1, 1, dtype=torch.float64))
    trace = 2 - 4 * 2.0
    factor = math.log((-trace + math.sqrt(trace**2 - 4)) / 2)
    assert growth.exponent == pytest.approx(factor, rel=1e-6)
    assert growth.growth == pytest.approx(3000 * factor, rel=1e-2)
    assert growth.overflow == 100
    assert float(growth.exponents) == pytest.approx(factor, rel=1e-6)


def test_exponent_of_a_driven_neuron_is_positive():
    """Exponents as small as 1e-4 are resolved."""
    torch.manual_seed(0)
    N, a, w = 100_000, 0.05, 1.0
    layer = UnICORNN(1, 1, dt=2 * a, alpha=1.0)
    with torch.no_grad():
        layer.w[0].fill_(w)
        layer.c[0].zero_()
        layer.V[0].fill_(0.3)
    growth = theory.gradient_growth(layer, torch.randn(N, 8, 1))
    assert 1e-4 < growth.exponent < 4e-4
    with torch.no_grad():
        layer.w[0].zero_()  # a linear oscillator
    assert abs(theory.gradient_growth(layer, torch.randn(N, 8, 1)).exponent) < 1e-6


def test_suggested_dt_in_closed_form():
    dts = [suggest_dt(N) for N in (10**4, 10**5, 10**6)]
    assert dts[0] / dts[1] == pytest.approx(10 ** (2 / 3))
    assert dts[1] / dts[2] == pytest.approx(10 ** (2 / 3))
    assert suggest_dt(10**5, growth=8.0) == pytest.approx(2 * dts[1])
    assert suggest_dt(10**5, alpha=7.0) == pytest.approx(2 * dts[1])
    assert suggest_dt(2) < 1  # a step stays a fraction of a period
    assert suggest_dt(2, alpha=99.0) == pytest.approx(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.3, 1.0, 5.0])
def test_suggested_dt_for_an_input(strength):
    torch.manual_seed(0)
    u = strength * torch.randn(10_000, 2, 2)
    before = torch.get_rng_state()
    dt = suggest_dt(len(u), input=u)
    assert torch.equal(before, torch.get_rng_state())
    growth = theory.gradient_growth(UnICORNN(2, 32, 2, dt=dt), u)
    assert growth.ratio < 1e5
    assert growth.growth < 6
    assert suggest_dt(2 * len(u), input=u) < dt  # for longer sequences
    assert suggest_dt(len(u), input=u[:, 0]) == pytest.approx(dt, rel=1)


def test_a_strong_input_needs_a_smaller_step():
    torch.manual_seed(0)
    u = torch.randn(3_000, 1, 2)
    assert suggest_dt(len(u), input=10 * u) < suggest_dt(len(u), input=0.1 * u)
