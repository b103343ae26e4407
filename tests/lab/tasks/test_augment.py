"""Crops, shifts and stretches: random in training, the same pieces in every evaluation."""

from functools import partial

import numpy as np
import pytest
import torch

from tests.lab.tasks import helpers
from unicornn.lab.tasks import Sequences
from unicornn.lab.tasks._views import View, crop, shift, stretch
from unicornn.lab.tasks.worms import CROPS

N, HZ = 80, 50
RAGGED = torch.tensor([80, 60, 41, 30, 7])


def counting(change, lengths=None, **settings):
    """Recording i counts 1000 i + 1, 1000 i + 2, ...; NaN beyond its length."""
    u = 1000 * torch.arange(5.0)[:, None, None] + torch.arange(1.0, N + 1)[:, None]
    if lengths is not None:
        u = u.masked_fill((torch.arange(N) >= lengths[:, None])[:, :, None], torch.nan)
    return View(Sequences(u, torch.arange(5), lengths), change=partial(change, seed=3, **settings))


def sines(rates, **settings):
    """Sines (n, 1000, 1) with these rates per minute, stretched."""
    u = torch.sin(2 * np.pi * rates[:, None] / 60 * torch.arange(1000) / HZ)[..., None]
    return View(Sequences(u, rates), change=partial(stretch, seed=3, **settings))


@pytest.mark.parametrize("lengths", [None, RAGGED])
def test_crops_in_training_are_consecutive_steps(lengths):
    split, ends = counting(crop, lengths, shares=CROPS["several"]), torch.full((5,), N) if lengths is None else lengths
    seen = set()
    for draw in range(40):
        u, target, sizes = split.batch(torch.arange(5), draw)
        assert torch.equal(target, torch.arange(5))
        for i in range(5):
            n = int(sizes[i])
            piece = u[:n, i, 0].abs()
            assert torch.equal(piece.diff(), torch.ones(n - 1))
            assert 1000 * i < piece[0]
            assert piece[-1] <= 1000 * i + ends[i]
            seen.add((n, int(u[0, i, 0].sign())))
    assert len(seen) >= 2 * 3


@pytest.mark.parametrize(("crops", "k"), [("several", 1), ("quarters", 4)])
def test_evaluation_has_equal_pieces_and_their_mirror_images(crops, k):
    u, target, sizes = counting(crop, RAGGED, shares=CROPS[crops]).batch(torch.tensor([1, 0]), -1)
    assert u.shape == (N // k, 2 * 2 * k, 1)
    assert target.tolist() == [1, 0]
    n = 60 // k
    assert sizes.tolist() == 2 * k * [n] + 2 * k * [N // k]
    for i in range(k):
        assert torch.equal(u[:n, 2 * i, 0], 1000 + torch.arange(i * n + 1.0, (i + 1) * n + 1))
        assert torch.equal(u[:n, 2 * i + 1], -u[:n, 2 * i])


def test_shifts_begin_anywhere_in_training_and_at_three_places_in_evaluation():
    split, first = counting(shift, steps=20), set()
    for draw in range(60):
        u, target, sizes = split.batch(torch.arange(5), draw)
        assert u.shape == (N - 20, 5, 1)
        assert sizes is None
        assert torch.equal(target, torch.arange(5))
        assert torch.equal(u.diff(dim=0), torch.ones(N - 21, 5, 1))
        first |= {int(begin) - 1 for begin in u[0, :, 0] - 1000 * torch.arange(5)}
    assert first == set(range(21))
    u, target, _ = split.batch(torch.tensor([2, 0]), -1)
    assert u[0, :, 0].tolist() == [2001, 2011, 2021, 1, 11, 21]
    assert u[-1, :, 0].tolist() == [2060, 2070, 2080, 60, 70, 80]
    assert target.tolist() == [2, 0]


def test_a_stretched_signal_has_the_rate_of_its_target():
    split = sines(torch.linspace(50.0, 120.0, 40), by=0.5)
    u, rates, _ = split.batch(torch.arange(40), draw=0)
    assert u.shape == (1000, 40, 1)
    measured = torch.fft.rfft(u[..., 0], n=16_000, dim=0).abs().argmax(0) * HZ * 60 / 16_000
    assert ((measured - rates).abs() < 3).all()
    speeds = rates / split.target
    assert 1 / 1.5 <= speeds.min() < 0.8
    assert 1.25 < speeds.max() <= 1.5
    evaluated = helpers.everything(split)
    assert torch.equal(evaluated.u, helpers.everything(split.base).u)
    assert torch.equal(evaluated.target, split.target)
