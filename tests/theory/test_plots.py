"""Every plot is drawn, also from JSON."""

import dataclasses
import json

import pytest
import torch
from torch import nn

from unicornn import UnICORNN
from unicornn.theory import plots


def small():
    torch.manual_seed(0)
    return UnICORNN(2, 4, 2, dt=0.005), torch.randn(60, 2, 2)


NETS = {"UnICORNN": UnICORNN(2, 4), "LSTM": nn.LSTM(2, 4)}
PLOTS = {
    "energy": lambda: plots.energy(*small()),
    "bounds": lambda: plots.bounds(*small()),
    "contributions": lambda: plots.contributions(*small()),
    "profile": lambda: plots.profile(NETS, small()[1]),
    "growth": lambda: plots.growth(UnICORNN(2, 4, 2, dt=0.5), torch.randn(5000, 1, 2)),
    "time steps": lambda: plots.time_steps(small()[0]),
}


@pytest.mark.parametrize("name", PLOTS)
def test_plots_are_drawn(name, tmp_path):
    plot = PLOTS[name]()
    again = plots.Plot.from_dict(json.loads(json.dumps(dataclasses.asdict(plot))))
    drawn = []
    for path, each in ((tmp_path / "a.png", plot), (tmp_path / "b.png", again)):
        figure = each.draw()
        figure.savefig(path, metadata={"Software": None})
        drawn.append(path.read_bytes())
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) > 5000
    assert len(figure.axes) == len(plot.panels)
    for axis, panel in zip(figure.axes, plot.panels, strict=True):
        assert (axis.get_xlabel(), axis.get_ylabel()) == (panel.x, panel.y) != ("", "")
        for drawn_line, line in zip(axis.lines, panel.lines, strict=False):
            assert list(drawn_line.get_ydata()) == list(line.y)
            assert len(line.x) == len(line.y) >= 1
