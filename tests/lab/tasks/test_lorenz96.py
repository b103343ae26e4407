"""Lorenz 96: its trajectories, what is seen and what is asked for."""

import numpy as np
import pytest
import torch

from unicornn.lab.tasks import lorenz96


@pytest.fixture
def load(source, monkeypatch):
    monkeypatch.setattr(lorenz96, "SEQUENCES", 4)
    return lambda seed=0, **options: lorenz96.load(source, {"F": 0.9, "inputs": "state"} | options, seed)


@pytest.mark.parametrize("F", [0.9, 8.0])
def test_trajectories_obey_the_equation(F):
    path = lorenz96.trajectories(F, 3, 0)[:, :50]
    middle, speed = path[:, 1:-1], (path[:, 2:] - path[:, :-2]) / (2 * lorenz96.STEP)
    for x, v in zip(middle, speed, strict=True):
        # central differences are good to STEP² times a third derivative, a sixth of it
        np.testing.assert_allclose(lorenz96.derivative(x, F), v, atol=0.05 if F < 1 else 5)
    assert np.abs(path[:, 0] - F).max() <= 0.5


def test_equilibrium_stays():
    assert not lorenz96.derivative(np.full((1, 5), 8.0), 8.0).any()


def test_target_is_the_state_25_steps_later(load):
    u, target, _ = load().train.batch(torch.arange(4), 0)
    torch.testing.assert_close(u[lorenz96.AHEAD :], target[: -lorenz96.AHEAD])


def test_deviation_is_from_the_equilibrium(load):
    state, deviation = (load(inputs=how).train.batch(torch.arange(4), 0) for how in ("state", "deviation"))
    torch.testing.assert_close(deviation[0], state[0] - 0.9)
    torch.testing.assert_close(deviation[1], state[1])
    assert deviation[0][0].abs().max() <= 0.5, "which is where a sequence begins"


def test_parts_differ_and_seeds_do_not(load):
    first, second = load(seed=0), load(seed=1)
    indices = torch.arange(4)
    torch.testing.assert_close(first.train.batch(indices, 0)[0], second.train.batch(indices, 0)[0])
    assert (first.train.batch(indices, 0)[0] != first.test.batch(indices, 0)[0]).all(-1).any()
