"""NaN and infinities propagate in every dtype and back-end; values outside the grid's range never look plausible."""

import math
import warnings

import pytest
import torch

from tests.problems import GPU
from unicornn import UnICORNN
from unicornn._state import RANGE
from unicornn.errors import OutOfRange

both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
every_backend = pytest.mark.parametrize("backend", ["reference", "cpu", "triton"])
numbers = pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])

N, b, d, m, L = 9, 3, 2, 4, 2
pytestmark = pytest.mark.filterwarnings("ignore:the state of layer:RuntimeWarning")


def layer_and_input(backend, dtype, gradient="stored", **options):
    device = GPU if backend == "triton" else "cpu"
    layer = UnICORNN(d, m, L, backend=backend, dtype=dtype, device=device, gradient=gradient, **options)
    return layer, torch.randn(N, b, d, dtype=dtype, device=device)


@both_dtypes
@every_backend
@numbers
def test_input(backend, dtype, bad):
    """Outputs, final state and gradients become NaN for this sequence from this step on, and for no other."""
    layer, u = layer_and_input(backend, dtype)
    u[4, 1, 0] = bad
    u.requires_grad_()
    output, (y, z) = layer(u)
    assert output[4:, 1].isnan().all()
    assert output[:4].isfinite().all()
    assert output[:, [0, 2]].isfinite().all()
    for state in (y, z):
        assert state[:, 1].isnan().all()
        assert state[:, [0, 2]].isfinite().all()
    gradients = torch.autograd.grad(output.sum(), [u, *layer.parameters()])
    assert gradients[0][:, 1].isnan().all()
    assert gradients[0][:, [0, 2]].isfinite().all()
    assert all(g.isnan().all() for g in gradients[1:])


@both_dtypes
@every_backend
@numbers
@pytest.mark.parametrize("length", [1, N])
@torch.no_grad()
def test_step_and_inverse(backend, dtype, bad, length):
    layer, u = layer_and_input(backend, dtype)
    _, state = layer(u[:length])
    u[0, 1, 0] = bad
    output, (y, z) = layer.step(u[0], state)
    for tensor in (output, y[0], y[1], z[0], z[1]):
        assert tensor[1].isnan().all()
        assert tensor[[0, 2]].isfinite().all()
    try:
        start = layer.inverse(u[:length], state)
    except OutOfRange:
        return
    assert start.z[0, 1].isnan().all()
    assert start.z[:, [0, 2]].isfinite().all()


@both_dtypes
@every_backend
@pytest.mark.parametrize("letter", ["w", "V", "b", "c"])
def test_parameters(backend, dtype, letter):
    layer, u = layer_and_input(backend, dtype)
    with torch.no_grad():
        getattr(layer, letter)[0][1] = math.nan
        output, (y, _) = layer(u)
    assert output.isnan().all()
    assert y[0, :, 1].isnan().all()
    assert y[0, :, 0].isfinite().all()


@both_dtypes
@pytest.mark.parametrize("backend", ["cpu", "triton"])
def test_reversible_gradients_are_refused(backend, dtype):
    layer, u = layer_and_input(backend, dtype, gradient="reversible")
    u[4, 1, 0] = math.nan
    with pytest.raises(OverflowError, match="not finite"):
        layer(u)


@both_dtypes
@pytest.mark.parametrize("backend", ["cpu", "triton"])
@pytest.mark.parametrize("speed", [60.0, 3e3, RANGE / 2])
@pytest.mark.parametrize("dt", [1.0, 200.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_values_out_of_range_are_exact_or_not_finite(backend, dtype, speed, dt, sign):
    """Finite values match the reference; all others are not finite, in the output, the state and the gradients."""
    device = GPU if backend == "triton" else "cpu"
    layer = UnICORNN(1, 2, dt=dt, alpha=0.0, dtype=dtype, backend=backend, device=device, gradient="stored")
    exact = UnICORNN(1, 2, dt=dt, alpha=0.0, dtype=torch.float64, backend="reference")
    exact.load_state_dict(layer.state_dict())
    start = [torch.full((1, 1, 2), sign * v, dtype=dtype, device=device) for v in (RANGE - 100, speed)]
    u = torch.ones(40, 1, 1, dtype=dtype, device=device, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        output, (y, z) = layer(u, start)
    truth, final = exact(u.detach().cpu().double(), [t.cpu().double() for t in start])
    for ours, theirs in ((output, truth), (y, final.y), (z, final.z)):
        ours = ours.detach().cpu().double()
        finite = ours.isfinite()
        torch.testing.assert_close(ours[finite], theirs.detach()[finite], rtol=1e-4, atol=1e-2)
        assert (ours[finite].abs() < RANGE).all()
    if dtype == torch.float64 or backend == "triton":  # computed in integers
        assert output[-1].isnan().all()
        (g,) = torch.autograd.grad(output.sum(), u)
        assert g[0].isnan().all()
