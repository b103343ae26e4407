"""Gradient profiles and Lyapunov exponents of recurrent modules."""

import math

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


class Linear(nn.Module):
    """h ← r h + u, whose Lyapunov exponent is log r."""

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


def test_over_long_sequences_rnns_forget_and_unicornn_does_not():
    u, nets = torch.randn(10_000, 1, 2), modules()
    profiles = {name: theory.gradient_profile(nets[name], u) for name in ("UnICORNN", "LSTM", "RNN")}
    far = {name: float(p[:1000].mean() / p[-100:].mean()) for name, p in profiles.items()}
    assert far["UnICORNN"] > 0.01
    assert far["LSTM"] < 1e-20
    assert far["RNN"] < 1e-20


@pytest.mark.parametrize("r", [0.9, 1.0, 1.02])
def test_lyapunov_exponent_of_a_linear_module(r):
    exponent = theory.lyapunov_exponent(Linear(r), torch.randn(400, 2, 3))
    assert exponent == pytest.approx(math.log(r), abs=1e-5)
