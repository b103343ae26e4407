"""Batch normalisation over time."""

import torch

from unicornn.baselines._base import within
from unicornn.baselines._normalise import SequenceNorm

DOUBLE = torch.float64


def test_normalisation_leaves_the_padding_out():
    x, lengths = torch.randn(6, 3, 4, dtype=DOUBLE), torch.tensor([6, 1, 3])
    norm, plain = SequenceNorm(4, dtype=DOUBLE), torch.nn.BatchNorm1d(4, dtype=DOUBLE)
    inside = within(6, lengths).squeeze(-1)
    result = norm(torch.where(inside[..., None], x, 1e6), lengths)
    torch.testing.assert_close(result[inside], plain(x[inside]))
    assert not result[~inside].any()
    torch.testing.assert_close(norm.running_var, plain.running_var)
    torch.testing.assert_close(norm(x), plain(x.flatten(0, 1)).view(6, 3, 4))
    assert torch.autograd.gradcheck(lambda x: norm(x, lengths), x.requires_grad_())
