"""Gradient profiles."""

import pytest
import torch
from torch import nn

from unicornn import UnICORNN, theory


def modules():
    torch.manual_seed(0)
    return {
        "UnICORNN": UnICORNN(2, 6, 2, dt=0.2),
        "skip_layers": UnICORNN(2, 6, 3, dt=0.2, skip_layers=2, dropout=0.5),
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
