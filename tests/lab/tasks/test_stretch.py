import numpy as np
import pytest
import torch

from unicornn.errors import BadValue
from unicornn.lab import tasks
from unicornn.lab.cli._options import source_in
from unicornn.lab.tasks import Sequences
from unicornn.lab.tasks._stretch import Stretched

HZ, N = 50, 1000


def sines(rates):
    """One channel, (n, N, 1); the rates are per minute."""
    t = torch.arange(N) / HZ
    return Sequences(torch.sin(2 * np.pi * rates[:, None] / 60 * t)[..., None], rates)


def heard(u):
    """The rate per minute of the loudest frequency in each of u (N, b, 1)."""
    loudest = torch.fft.rfft(u[..., 0], n=16 * N, dim=0).abs().argmax(0)
    return loudest * HZ * 60 / (16 * N)


def test_a_signal_has_the_rate_that_its_target_says():
    split = Stretched(sines(torch.linspace(50.0, 120.0, 40)), by=0.5, seed=3)
    u, rates, _ = split.batch(torch.arange(40), draw=0)
    assert u.shape == (N, 40, 1)
    assert ((heard(u) - rates).abs() < 3).all()
    speeds = rates / split.target
    assert 1 / 1.5 <= speeds.min() < 0.8
    assert 1.25 < speeds.max() <= 1.5


def test_speeds_depend_on_index_and_draw_alone():
    split = Stretched(sines(torch.full((10,), 60.0)), by=0.3, seed=0)
    both, one = split.batch(torch.tensor([7, 2]), draw=4), split.batch(torch.tensor([2]), draw=4)
    assert torch.equal(both.u[:, 1:], one.u)
    assert torch.equal(both.target[1:], one.target)
    assert not torch.equal(one.target, split.batch(torch.tensor([2]), draw=5).target)


def test_nothing_is_changed_after_training():
    whole = sines(torch.full((4,), 60.0))
    found = Stretched(whole, by=0.3, seed=0).batch(torch.arange(4), draw=-1)
    assert torch.equal(found.u, whole.batch(torch.arange(4), draw=-1).u)
    assert torch.equal(found.target, whole.target)


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [("stretch", by, "a number from 0 to below 1") for by in (-0.1, 1.0, float("nan"))]
    + [("shift", by, "a number of steps from 0 to below 4000") for by in (-1, 4000)],
)
def test_refused_before_data_are_sought(tmp_path, option, value, expected):
    task = tasks.find("bidmc-hr")
    options = {name: values[0] for name, values in task.options.items()} | {option: value}
    with pytest.raises(BadValue, match=f"{option}: expected {expected}, got"):
        task.load(source_in(tmp_path), options, 0)
