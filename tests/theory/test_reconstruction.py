"""Errors of inversion in plain floating point, and of the exact inverse."""

import pytest
import torch

from unicornn import UnICORNN, theory


@pytest.mark.slow
def test_float32_inversion_loses_the_start_and_the_grid_does_not():
    torch.manual_seed(0)
    layer = UnICORNN(2, 8, 3, dt=0.0343, alpha=0.0, skip_layers=2, dropout=0.2)  # EigenWorms' step and α
    result = theory.reconstruction_error(layer, torch.randn(2000, 2, 2))
    assert not result.exact.any()
    assert bool((result.plain > 1e-8).all())
    assert set(result.gradients) == {name for name, _ in layer.named_parameters()}
    assert max(result.gradients.values()) > 1e-7
    longer = theory.reconstruction_error(layer, torch.randn(8000, 2, 2))
    assert longer.plain.max() > result.plain.max()


def test_float64_inversion_is_accurate_for_longer():
    torch.manual_seed(0)
    layer, u = UnICORNN(2, 4, 2, dtype=torch.float64), torch.randn(300, 1, 2, dtype=torch.float64)
    state = tuple(torch.randn(2, 1, 4, dtype=torch.float64) for _ in range(2))
    result = theory.reconstruction_error(layer, u, state)
    assert 0 < result.plain.max() < 1e-10
    assert not result.exact.any()
    assert max(result.gradients.values()) < 1e-8
