"""Products between one tensor and several planes."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from unicornn.baselines._ops.products import gather, spread


def draw(*shape):
    return torch.randn(shape, dtype=torch.float64)


@given(K=st.integers(1, 4), N=st.integers(1, 5), d=st.integers(1, 6), m=st.integers(1, 6))
def test_products_of_planes(K, N, d, m):
    x, planes, W = draw(N, 2, d).requires_grad_(), draw(K, N, 2, d).requires_grad_(), draw(K, m, d).requires_grad_()
    torch.testing.assert_close(spread(x, W), torch.einsum("kmd,nbd->knbm", W, x))
    torch.testing.assert_close(gather(planes, W), torch.einsum("kmd,knbd->nbm", W, planes))
    assert torch.autograd.gradcheck(spread, (x, W), fast_mode=True)
    assert torch.autograd.gradcheck(gather, (planes, W), fast_mode=True)
