"""Lorenz 96: trajectories, inputs and targets."""

import numpy as np
import pytest
import torch

from tests.lab.tasks import helpers
from unicornn.lab.tasks import lorenz96


@pytest.fixture
def batch_of(source, monkeypatch):
    """A function that returns all four sequences of a split."""
    monkeypatch.setattr(lorenz96, "SEQUENCES", 4)
    return lambda seed=0, name="train", **options: helpers.everything(
        getattr(helpers.load(lorenz96.TASK, source, seed, **options), name)
    )


@pytest.mark.parametrize("F", [0.9, 8.0])
def test_trajectories_obey_the_equation(F):
    path = lorenz96._trajectories(F, 3, 0)[:, :50]
    middle, speed = path[:, 1:-1], (path[:, 2:] - path[:, :-2]) / (2 * lorenz96.STEP)
    for x, v in zip(middle, speed, strict=True):
        # the error of central differences is STEP² / 6 times the third derivative
        np.testing.assert_allclose(lorenz96._derivative(x, F), v, atol=0.05 if F < 1 else 5)
    assert np.abs(path[:, 0] - F).max() <= 0.5
    assert not lorenz96._derivative(np.full((1, 5), F), F).any()  # the equilibrium


def test_target_is_the_state_25_steps_later(batch_of):
    u, target, _ = batch_of()
    torch.testing.assert_close(u[lorenz96.AHEAD :], target[: -lorenz96.AHEAD])


def test_deviation_is_from_the_equilibrium(batch_of):
    state, deviation = batch_of(), batch_of(inputs="deviation")
    torch.testing.assert_close(deviation.u, state.u - 0.9)
    torch.testing.assert_close(deviation.target, state.target)
    assert deviation.u[0].abs().max() <= 0.5
