"""Reconstruction errors: what inversion in plain floats loses, and ours does not."""

import pytest
import torch

from unicornn import UnICORNN, theory


@pytest.mark.slow
def test_reconstruction_in_plain_floats_loses_and_ours_does_not():
    torch.manual_seed(0)
    layer = UnICORNN(2, 8, 3, dt=0.0343, alpha=0.0, skip_layers=2, dropout=0.2)  # EigenWorms' step and α
    u = torch.randn(2000, 2, 2)
    result = theory.reconstruction_error(layer, u)
    assert not result.exact.any()
    assert bool((result.plain > 1e-8).all())
    assert set(result.gradients) == {"w.0", "w.1", "w.2", "b.0", "b.1", "b.2", "V.0", "V.1", "V.2", "Lambda.2"}
    assert max(result.gradients.values()) > 1e-7
    longer = theory.reconstruction_error(layer, torch.randn(8000, 2, 2))
    assert longer.plain.max() > result.plain.max()


def test_in_float64_the_plain_inverse_is_good_for_longer():
    torch.manual_seed(0)
    layer, u = UnICORNN(2, 4, 2, dtype=torch.float64), torch.randn(300, 1, 2, dtype=torch.float64)
    state = tuple(torch.randn(2, 1, 4, dtype=torch.float64) for _ in range(2))
    result = theory.reconstruction_error(layer, u, state)
    assert 0 < result.plain.max() < 1e-10
    assert not result.exact.any()
    assert max(result.gradients.values()) < 1e-8
