"""Gradient profiles, Lyapunov exponents, reconstruction errors, norms."""

import pytest
import torch
from torch import nn

from unicornn import UnICORNN, theory


def modules():
    torch.manual_seed(0)
    return {
        "UnICORNN": UnICORNN(2, 6, 2, dt=0.2),
        "residual": UnICORNN(2, 6, 3, dt=0.2, residual=2, dropout=0.5),
        "batch first": UnICORNN(2, 6, batch_first=True),
        "LSTM": nn.LSTM(2, 6, 2, dropout=0.3),
        "LSTM, batch first": nn.LSTM(2, 6, batch_first=True),
        "GRU": nn.GRU(2, 6),
        "RNN": nn.RNN(2, 6),
    }


@pytest.mark.parametrize("name", modules())
def test_profile_is_the_gradient(name):
    net = modules()[name].double()
    first = net.batch_first
    u = torch.randn(57, 3, 2).double()
    u = u.transpose(0, 1) if first else u

    def loss(output):
        return output.exp().sum()

    profile = theory.gradient_profile(net, u, loss, chunk=20)
    assert net.training
    net.eval()
    leaf = u.clone().requires_grad_()
    output = net(leaf)[0]
    (g,) = torch.autograd.grad(loss(output[:, -1] if first else output[-1]), leaf)
    expected = (g.transpose(0, 1) if first else g).flatten(1).norm(dim=1)
    torch.testing.assert_close(profile, expected, rtol=1e-8, atol=1e-12)


def test_profile_of_a_long_sequence():
    """What the picture shows: an RNN and an LSTM forget, UnICORNN does not."""
    u = torch.randn(10_000, 1, 2)
    nets = modules()
    far = {}
    for name in ("UnICORNN", "LSTM", "RNN"):
        profile = theory.gradient_profile(nets[name], u)
        far[name] = float(profile[:1000].mean() / profile[-100:].mean())
    assert far["UnICORNN"] > 0.01
    assert far["LSTM"] < 1e-20
    assert far["RNN"] < 1e-20


def test_profile_refuses_other_input():
    with pytest.raises(ValueError, match=r"input: expected a tensor of shape \(N, b, d\), got \(5, 2\)"):
        theory.gradient_profile(nn.LSTM(2, 3), torch.randn(5, 2))
    with pytest.raises(ValueError, match="chunk"):
        theory.gradient_profile(nn.LSTM(2, 3), torch.randn(5, 1, 2), chunk=0)


class Linear(nn.Module):
    """h ← r h + u: its Lyapunov exponent is log r."""

    def __init__(self, r):
        super().__init__()
        self.r = r

    def forward(self, u, h=None):
        h = u.new_zeros(1, *u.shape[1:]) if h is None else h
        outputs = []
        for u_n in u:
            h = self.r * h + u_n
            outputs.append(h[0])
        return torch.stack(outputs), h


@pytest.mark.parametrize("r", [0.9, 1.0, 1.02])
def test_lyapunov_exponent_of_a_linear_module(r):
    result = theory.lyapunov_exponent(Linear(r), torch.randn(400, 2, 3))
    assert result.exponent == pytest.approx(torch.tensor(r).log().item(), abs=1e-5)
    assert result.running.shape == (35, 2)


def test_exponents_of_unicornn():
    """UnICORNN's is positive if it is driven and nonlinear; test_growth.py sees one of 1e-4."""
    torch.manual_seed(0)
    u = torch.randn(6000, 4, 2)
    layer = UnICORNN(2, 16, dt=1.0)
    assert 2e-3 < theory.lyapunov_exponent(layer, u).exponent < 2e-2
    torch.nn.init.zeros_(layer.w[0])
    assert abs(theory.lyapunov_exponent(layer, u).exponent) < 3e-4


def test_exponents_of_lstms():
    torch.manual_seed(1)
    u = torch.randn(2000, 4, 2)
    lstm = nn.LSTM(2, 16)
    assert theory.lyapunov_exponent(lstm, u).exponent < -0.05  # as initialised: it forgets
    for p in lstm.parameters():
        nn.init.normal_(p, std=2.0)
    wild = theory.lyapunov_exponent(lstm, 0.1 * u).exponent
    assert wild > 0.01  # with large weights: chaos
    batch = nn.LSTM(2, 16, batch_first=True)
    batch.load_state_dict(lstm.state_dict())
    assert theory.lyapunov_exponent(batch, 0.1 * u.transpose(0, 1)).exponent == pytest.approx(wild, rel=0.2)
    with pytest.raises(ValueError, match="input: expected at least 20 periods of 10 steps, got N=50"):
        theory.lyapunov_exponent(lstm, u[:50])


@pytest.mark.slow
def test_reconstruction_in_plain_floats_loses_and_ours_does_not():
    torch.manual_seed(0)
    layer = UnICORNN(2, 8, 3, dt=0.0343, alpha=0.0, residual=2, dropout=0.2)  # EigenWorms' step and α
    u = torch.randn(2000, 2, 2)
    result = theory.reconstruction_error(layer, u)
    assert not result.exact.any()
    assert bool((result.plain > 1e-8).all())
    assert set(result.gradients) == {"w.0", "w.1", "w.2", "b.0", "b.1", "b.2", "V.0", "V.1", "V.2", "Lambda.2"}
    assert max(result.gradients.values()) > 1e-7
    longer = theory.reconstruction_error(layer, torch.randn(8000, 2, 2))
    assert longer.plain.max() > result.plain.max()


def test_in_float64_the_plain_inverse_is_good_for_longer():
    torch.manual_seed(0)
    layer, u = UnICORNN(2, 4, 2, dtype=torch.float64), torch.randn(300, 1, 2, dtype=torch.float64)
    state = tuple(torch.randn(2, 1, 4, dtype=torch.float64) for _ in range(2))
    result = theory.reconstruction_error(layer, u, state)
    assert 0 < result.plain.max() < 1e-10
    assert not result.exact.any()
    assert max(result.gradients.values()) < 1e-8


def test_weight_norms():
    layer = UnICORNN(2, 4, 2)
    norms = theory.WeightNorms(layer)
    assert norms.norms.shape == (0, 2)
    norms()
    nn.init.constant_(layer.w[1], -3.0)
    norms(at=10)
    assert norms.at == [0, 10]
    assert norms.norms[1, 1] == 3.0
