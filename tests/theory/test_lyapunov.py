"""Lyapunov exponents."""

import pytest
import torch
from torch import nn

from unicornn import UnICORNN, theory


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
