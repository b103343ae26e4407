"""Norms of the weights during training."""

from torch import nn

from unicornn import UnICORNN, theory


def test_weight_norms():
    layer = UnICORNN(2, 4, 2)
    norms = theory.WeightNorms(layer)
    assert norms.norms.shape == (0, 2)
    norms()
    nn.init.constant_(layer.w[1], -3.0)
    norms(at=10)
    assert norms.at == [0, 10]
    assert norms.norms[1, 1] == 3.0
