"""Published initialisations, and the properties that define each baseline."""

import math

import pytest
import torch

from tests.problems import draw
from unicornn.baselines import (
    LRU,
    SRU,
    ExpRNN,
    Incremental,
    IndRNN,
    LinOSS,
    ReLUGRU,
    SkipGRU,
)

N, b, d, m = 6, 3, 2, 5
DOUBLE = torch.float64


def standardised(x, mean, variance):
    return (x - mean) / torch.sqrt(variance + 1e-5)


@pytest.mark.parametrize("init", ["cayley", "henaff"])
def test_exprnn_starts_in_planes_and_stays_orthogonal(init):
    baseline = ExpRNN(d, 101, init=init, dtype=DOUBLE)
    W = baseline.layers[0].W
    angles = torch.linalg.eigvals(W.weight.detach()).angle().abs()
    s = W.parametrizations.weight.original.diagonal(-1)[::2].detach().abs().repeat(2)
    torch.testing.assert_close(angles.sort().values, torch.cat([s.new_zeros(1), s]).sort().values)
    assert s.max() > (0.9 if init == "cayley" else 2.9)
    assert s.max() <= (1 if init == "cayley" else math.pi)
    before = W.weight.detach().clone()
    optimiser = torch.optim.Adam(baseline.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        baseline(draw(N, b, d), output="last")[0].square().sum().backward()
        optimiser.step()
    after = W.weight.detach()
    assert (after - before).norm() > 0.1
    torch.testing.assert_close(after.t() @ after, torch.eye(101, dtype=DOUBLE))
    assert not W.parametrizations.weight.original.grad.triu().any(), "only the part below the diagonal is free"


def test_incremental_state_leads_to_the_equilibrium():
    baseline = Incremental(d, m, iterations=200, alpha=1.5, dtype=DOUBLE)
    layer = baseline.layers[0]
    torch.nn.init.constant_(layer.eta, 0.4)
    u, h = draw(1, b, d), draw(1, b, m).requires_grad_()
    _, (after,) = baseline(u, (h,))
    s = (after + h)[0]
    torch.testing.assert_close(layer.options["alpha"] * s, torch.relu(layer.U(s) + layer.W(u[0])))
    jacobian = torch.autograd.functional.jacobian(lambda h: baseline(u[:, :1], (h,))[1][0].flatten(), h[:, :1].detach())
    torch.testing.assert_close(jacobian.reshape(m, m), -torch.eye(m, dtype=DOUBLE))


@pytest.mark.parametrize("waited", [0.2, 0.9])
def test_skip_gradient_goes_straight_through_the_gate(waited):
    baseline, u, h = SkipGRU(d, m, dtype=DOUBLE), draw(1, 1, d), draw(1, 1, m)
    wait = torch.full((1, 1, 1), waited, dtype=DOUBLE, requires_grad=True)
    output, _ = baseline(u, (h, wait))
    updated, _ = baseline(u, (h, torch.zeros_like(wait)))
    torch.testing.assert_close(output, updated if waited < 0.5 else h, rtol=0, atol=0)
    (gradient,) = torch.autograd.grad(output.sum(), wait)
    torch.testing.assert_close(gradient.squeeze(), -(updated - h).sum())


def test_relu_gru_starts_like_keras():
    layer = ReLUGRU(70, 50, dtype=DOUBLE).layers[0]
    for U in (*layer.U.weight.chunk(2), layer.U_c.weight):
        torch.testing.assert_close(U @ U.t(), torch.eye(50, dtype=DOUBLE))
    bound = (6 / 120) ** 0.5
    assert 0.95 * bound < layer.W.weight.abs().max() <= bound
    assert not layer.W.bias.any()


def test_indrnn_normalises_outputs_but_not_states():
    model, u = IndRNN(2, 3, dtype=DOUBLE), draw(50, 4, 2)
    plain = IndRNN(2, 3, batch_norm=False, dtype=DOUBLE)
    plain.load_state_dict(model.state_dict(), strict=False)
    output, (final,) = model(u)
    h, (end,) = plain(u)
    torch.testing.assert_close(final, end)
    torch.testing.assert_close(output, standardised(h, h.mean((0, 1)), h.var((0, 1), correction=0)))
    norm = model.eval().layers[0].norm
    torch.testing.assert_close(norm.running_mean, 0.1 * h.mean((0, 1)))
    torch.testing.assert_close(model(u)[0], standardised(h, norm.running_mean, norm.running_var))


def test_indrnn_clips_its_recurrent_weights():
    model, bound = IndRNN(2, 3, 2, length=8), 2 ** (1 / 8)
    with torch.no_grad():
        model.layers[0].u.copy_(torch.tensor([-3.0, 0.5, 3.0]))
    u = torch.randn(8, 4, 2)
    first, _ = model(u)
    torch.testing.assert_close(model.layers[0].u.detach(), torch.tensor([-bound, 0.5, bound]))
    second, _ = model(u)  # leaves the graph of the first run intact
    (first.sum() + second.sum()).backward()
    assert model.layers[0].u.grad.isfinite().all()


def test_indrnn_initialisation():
    m, bound = 2000, 2 ** (1 / 100)
    model = IndRNN(3, m, 2, length=100)
    below, top = (layer.u for layer in model.layers)
    assert 0 <= below.min() < 0.01
    assert bound - 0.01 < below.max() <= bound
    assert 1 / bound <= top.min() < 1 < top.max() <= bound
    limit = math.sqrt(6 / ((1 + 8**2) * m))
    assert 0.99 * limit < model.layers[1].W.abs().max() <= limit
    assert not model.layers[0].b.any()
    u = IndRNN(3, m).layers[0].u
    assert 0 <= u.min() < u.max() <= 1


def test_sru_initialisation():
    d, m = 300, 200
    layer, scale = SRU(d, m, highway_bias=-1.0).layers[0], math.sqrt(1 + 2 * math.exp(-1.0))
    for k, factor in enumerate((1, 0.5, 0.5, scale**2)):
        assert layer.W[k].var().item() == pytest.approx(factor / d, rel=0.03)
    assert layer.v.var().item() == pytest.approx(0.5, rel=0.2)
    assert not layer.b[0].any()
    assert (layer.b[1] == -1).all()


@pytest.mark.parametrize("model", [LRU, LinOSS])
def test_state_space_blocks_normalise_before_the_recurrence(model):
    normal, plain = model(4, 4, dtype=DOUBLE), model(4, 4, batch_norm=False, dtype=DOUBLE)
    plain.load_state_dict(normal.state_dict(), strict=False)
    u = 3 + 2 * draw(40, 5, 4)
    x = standardised(u, u.mean((0, 1)), u.var((0, 1), correction=0))
    torch.testing.assert_close(normal(u)[0] - u, plain(x)[0] - x)
    assert len(list(normal.layers[0].norm.parameters())) == (2 if model is LRU else 0)


def test_lru_initialisation_is_uniform_on_a_ring():
    m, P = 50, 4000
    layer = LRU(3, m, state_size=P, r_min=0.6, r_max=0.9, max_phase=1.5).layers[0]
    eigenvalues = torch.complex(*layer.eigenvalues())
    modulus, phase = eigenvalues.abs(), eigenvalues.angle()
    assert 0.6 <= modulus.min() < 0.61
    assert 0.89 < modulus.max() <= 0.9
    assert 0 < phase.min() < 0.01
    assert 1.49 < phase.max() <= 1.5
    assert modulus.square().mean().item() == pytest.approx((0.36 + 0.81) / 2, rel=0.02)  # uniform in area
    torch.testing.assert_close(layer.gamma.exp(), torch.sqrt(1 - modulus**2))
    assert layer.B.var().item() == pytest.approx(1 / (2 * m), rel=0.02)
    assert layer.C.var().item() == pytest.approx(1 / P, rel=0.02)
