"""Crops: pieces of the recordings, nothing else; in training by chance, afterwards all of them."""

import pytest
import torch

from unicornn.lab.tasks import Sequences
from unicornn.lab.tasks._crops import LENGTHS, Crops, Shifted

N = 80


def recordings(lengths=None, shares=LENGTHS["several"]):
    """Recording i counts 1000 i + 1, 1000 i + 2, ...; NaN beyond its length."""
    u = 1000 * torch.arange(5.0)[:, None, None] + torch.arange(1.0, N + 1)[:, None]
    if lengths is not None:
        u = u.masked_fill((torch.arange(N) >= lengths[:, None])[:, :, None], torch.nan)
    return Crops(Sequences(u, torch.arange(5), lengths), shares, seed=3)


@pytest.mark.parametrize("lengths", [None, torch.tensor([80, 60, 41, 30, 7])])
def test_crops_in_training(lengths):
    split, ends = recordings(lengths), torch.full((5,), N) if lengths is None else lengths
    seen = set()
    for draw in range(40):
        u, target, sizes = split.batch(torch.arange(5), draw)
        assert torch.equal(target, torch.arange(5))
        for i in range(5):
            n = int(sizes[i])
            crop = u[:n, i, 0].abs()
            assert torch.equal(crop.diff(), torch.ones(n - 1))
            assert 1000 * i < crop[0]
            assert crop[-1] <= 1000 * i + ends[i]
            seen.add((n, int(u[0, i, 0].sign())))
    assert len(seen) >= 2 * 3


def test_crops_depend_on_sequence_and_draw_alone():
    split = recordings()
    u = split.batch(torch.tensor([4, 1]), 7).u
    assert torch.equal(split.batch(torch.tensor([1]), 7).u, u[:, 1:])


@pytest.mark.parametrize(("crops", "k"), [("several", 1), ("quarters", 4)])
def test_votes_are_equal_pieces_and_mirrored(crops, k):
    split = recordings(torch.tensor([80, 60, 41, 30, 7]), LENGTHS[crops])
    u, target, sizes = split.batch(torch.tensor([1, 0]), -1)
    assert u.shape == (N // k, 2 * 2 * k, 1)
    assert target.tolist() == [1, 0]
    n = 60 // k
    assert sizes.tolist() == 2 * k * [n] + 2 * k * [N // k]
    for i in range(k):
        assert torch.equal(u[:n, 2 * i, 0], 1000 + torch.arange(i * n + 1.0, (i + 1) * n + 1))
        assert torch.equal(u[:n, 2 * i + 1], -u[:n, 2 * i])


def shifted(by):
    u = 1000 * torch.arange(5.0)[:, None, None] + torch.arange(1.0, N + 1)[:, None]
    return Shifted(Sequences(u, torch.arange(5)), by, seed=3)


def test_shifted_in_training():
    split, first = shifted(20), set()
    for draw in range(60):
        u, target, sizes = split.batch(torch.arange(5), draw)
        assert u.shape == (N - 20, 5, 1)
        assert sizes is None or sizes.tolist() == 5 * [N - 20]
        assert torch.equal(target, torch.arange(5))
        assert torch.equal(u.diff(dim=0), torch.ones(N - 21, 5, 1))
        first |= {int(begin) - 1 for begin in u[0, :, 0] - 1000 * torch.arange(5)}
    assert first == set(range(21))
    assert torch.equal(split.batch(torch.tensor([4, 1]), 7).u[:, 1:], split.batch(torch.tensor([1]), 7).u)


def test_shifted_afterwards_votes_over_the_first_the_middle_and_the_last_piece():
    u, target, _ = shifted(20).batch(torch.tensor([2, 0]), -1)
    assert u[0, :, 0].tolist() == [2001, 2011, 2021, 1, 11, 21]
    assert u[-1, :, 0].tolist() == [2060, 2070, 2080, 60, 70, 80]
    assert target.tolist() == [2, 0]
