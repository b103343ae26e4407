"""Every figure is drawn."""

import matplotlib as mpl
import pytest
import torch
from torch import nn

from unicornn import UnICORNN, theory

mpl.use("Agg")
import matplotlib.pyplot as plt

from unicornn.theory import figures


def small():
    torch.manual_seed(0)
    return UnICORNN(2, 4, 2, dt=0.005), torch.randn(60, 2, 2)


def weight_norms():
    norms = theory.WeightNorms(small()[0])
    norms()
    norms()
    return norms


NETS = {"UnICORNN": UnICORNN(2, 4), "LSTM": nn.LSTM(2, 4)}
DRAWN = {
    "energy": lambda: figures.energy_figure(*small()),
    "gradient energy": lambda: figures.gradient_energy_figure(*small()),
    "volume": lambda: figures.volume_figure(*small()),
    "bounds": lambda: figures.bounds_figure(*small()),
    "contributions": lambda: figures.contributions_figure(*small()),
    "profile": lambda: figures.profile_figure(NETS, small()[1]),
    "growth": lambda: figures.growth_figure(UnICORNN(2, 4, 2, dt=0.5), torch.randn(5000, 1, 2)),
    "lyapunov": lambda: figures.lyapunov_figure(NETS, small()[1], period=2),
    "reconstruction": lambda: figures.reconstruction_figure(*small(), lengths=[20, 60]),
    "time steps": lambda: figures.time_steps_figure(small()[0]),
    "weight norms": lambda: figures.weight_norms_figure(weight_norms()),
}


@pytest.mark.parametrize("name", DRAWN)
def test_figure(name, tmp_path):
    figure = DRAWN[name]()
    figure.savefig(tmp_path / "f.png")
    plt.close(figure)
    assert (tmp_path / "f.png").stat().st_size > 5000
    for axis in figure.axes:
        assert axis.get_xlabel()
        assert axis.get_ylabel()
        assert len(axis.lines) >= 1
