"""Properties specific to the Triton kernels: fixed point, tanh, half precision, NaN, launches."""

import copy
import math

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from tests.problems import GPU, Problem, relative
from unicornn import UnICORNN
from unicornn._ops import op
from unicornn._ops.triton import kernels as gpu_kernels
from unicornn._state import RANGE, UNIT

UNITS = UNIT[torch.float32]


@triton.jit
def tanh_of(v, t, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(t + i, gpu_kernels.tanh(tl.load(v + i)))


@triton.jit
def increments(t, Y, Z, a, κ, kick, drift, real, numbers, B: tl.constexpr, UNIT: tl.constexpr):  # noqa: PLR0917
    i = tl.arange(0, B)
    a, κ, Y, Z = tl.load(a + i), tl.load(κ + i), tl.load(Y + i), tl.load(Z + i)
    At, Ay, Az, kick_by, drift_by, kick_top, kick_low, drift_top, drift_low = gpu_kernels.time_steps(a, κ)
    t = tl.load(t + i)
    tl.store(kick + i, gpu_kernels.kick(t, Y, a, κ, At, Ay, kick_by, kick_top, kick_low, UNIT, False))
    tl.store(drift + i, gpu_kernels.drift(Z, a, Az, drift_by, drift_top, drift_low, False))
    tl.store(real + i, gpu_kernels.real(Y, UNIT, False))
    tl.store(numbers + i, At.to(tl.int64))
    tl.store(numbers + B + i, Ay.to(tl.int64))
    tl.store(numbers + 2 * B + i, Az.to(tl.int64))
    tl.store(numbers + 3 * B + i, kick_by)
    tl.store(numbers + 4 * B + i, drift_by)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_tanh_to_a_few_ulps(dtype):
    half = torch.cat([torch.logspace(-30, 3, 2000, dtype=torch.float64), torch.linspace(0, 12, 2095)]).to(dtype)
    v = torch.cat([half, -half, torch.tensor([math.nan, math.inf])]).to(GPU)
    t = torch.empty_like(v)
    size = triton.next_power_of_2(len(v))
    assert size == len(v)
    tanh_of[(1,)](v, t, B=size)
    t, v = t.cpu(), v.cpu()
    exact = np.tanh(v.numpy().astype(np.longdouble))
    ulp = np.spacing(np.abs(exact).astype(t.numpy().dtype))
    assert np.nanmax(np.abs(t.numpy() - exact) / ulp) <= 4
    assert t[-2].isnan()
    assert t[-1] == 1
    saturated = v.abs() > (10 if dtype == torch.float32 else 20)
    assert bool((t[saturated].abs() == 1).all())  # of which the adjoint makes 1 - t² = 0


def exact_increments(t, Y, Z, n):
    """The increments in Python integers; n: the factors of t, y, z and the two shifts."""
    At, Ay, Az, kick_by, drift_by = n
    high = round(t * 2**14)
    T = high * 2**22 + round((t * 2**14 - high) * 2**22)
    kick = (T * At + Y * Ay + 2 ** (21 + kick_by)) >> (22 + kick_by)
    return kick, (Z * Az + 2 ** (21 + drift_by)) >> (22 + drift_by)


limit = round(RANGE / UNITS) - 1
states = st.integers(-limit, limit) | st.integers(-(2**30), 2**30)


@given(
    st.lists(
        st.tuples(
            st.floats(-1, 1, width=32) | st.just(1.0),
            states,
            states,
            st.floats(2.0**-60, 511) | st.floats(1e-4, 1.0) | st.just(0.0),
            st.floats(0, 100) | st.just(0.0),
        ),
        min_size=16,
        max_size=16,
    )
)
def test_increments_are_exact_fixed_point(values):
    t, Y, Z, a, alpha = zip(*values, strict=True)
    a = torch.tensor(a, dtype=torch.float64)
    κ = torch.minimum(a * torch.tensor(alpha, dtype=torch.float64), torch.tensor(511.0, dtype=torch.float64))
    tensors = torch.tensor(t), torch.tensor(Y), torch.tensor(Z), a, κ
    kick, drift = torch.empty(2, 16, dtype=torch.int64, device=GPU)
    real, numbers = torch.empty(16, device=GPU), torch.empty(5, 16, dtype=torch.int64, device=GPU)
    increments[(1,)](*(v.to(GPU) for v in tensors), kick, drift, real, numbers, B=16, UNIT=UNITS)
    numbers = numbers.cpu()
    assert bool((numbers[:3] < 2**31).all())
    for factor, exact, by in ((0, a, 3), (1, κ, 3), (2, a, 4)):
        given_back = torch.ldexp(numbers[factor].double(), -22 - numbers[by])
        bound = torch.maximum(a, κ) * 2.0**-31 if by == 3 else a * 2.0**-31
        assert bool(((given_back - exact).abs() <= bound.clamp_min(2.0**-63)).all())
    for i in range(16):
        expected = exact_increments(t[i], Y[i], Z[i], numbers[:, i].tolist())
        assert (int(kick[i]), int(drift[i])) == expected
    near = torch.tensor(Y).abs() < 2**46  # beyond, rounded twice
    assert torch.equal(real.cpu()[near], (torch.tensor(Y).double() * UNITS).float()[near])


def layer_and_input(N=7, dtype=torch.float32, **options):
    torch.manual_seed(1)
    layer = UnICORNN(3, 6, 3, skip_layers=2, dt=0.3, backend="triton", **options).to(GPU, dtype)
    return layer, torch.randn(N, 4, 3, dtype=dtype, device=GPU)


def gradients_of(layer, u, gradient):
    layer.gradient = gradient
    output, _ = layer(u, lengths=[7, 3, 5, 7])
    weights = torch.linspace(-64, 64, output.numel(), device=GPU).view_as(output)
    return [output, *torch.autograd.grad((output * weights).sum(), [u, *layer.parameters()])]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision(dtype):
    """x, y, gradients and matrix products have half precision; the state is that of float32."""
    layer, u = layer_and_input(dtype=dtype)
    u.requires_grad_()
    inverted, stored = (gradients_of(layer, u, way) for way in ("reversible", "stored"))
    assert all(torch.equal(a, b) for a, b in zip(inverted, stored, strict=True))
    assert {t.dtype for t in inverted} == {dtype}
    _, state = layer(u)
    assert state.y.dtype == torch.float32
    with torch.no_grad():
        start = layer.inverse(u, state)
    assert not start.y.any()
    assert not start.z.any()
    full = copy.deepcopy(layer).float()
    exact = gradients_of(full, u.detach().float().requires_grad_(), "stored")
    for ours, theirs in zip(inverted, exact, strict=True):
        assert relative(ours, theirs) < (0.03 if dtype == torch.bfloat16 else 0.004)


def test_autocast():
    layer, u = layer_and_input()
    with torch.autocast(u.device.type, dtype=torch.bfloat16):
        output, state = layer(u)
    assert output.dtype == torch.bfloat16
    assert state.y.dtype == torch.float32
    output.sum().backward()
    assert layer.w[0].grad.dtype == layer.V[0].grad.dtype == torch.float32
    assert relative(output, layer(u)[0]) < 0.02


def test_agrees_with_the_cpu_kernels():
    layer, u = layer_and_input(dropout=0.4)
    twin = copy.deepcopy(layer).cpu()
    twin.backend = "cpu"
    layer.eval()
    twin.eval()
    ours, state = layer(u, output=torch.tensor([0, 3, 6]))
    theirs, other = twin(u.cpu(), output=torch.tensor([0, 3, 6]))
    assert relative(ours, theirs) < 1e-6
    assert relative(state.grid, other.grid) < 1e-6
    moved = other.detach().map(lambda t: t.to(GPU))
    assert relative(layer(u, moved)[0], twin(u.cpu(), other)[0]) < 1e-6  # a state may change back-ends


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("far", [1, -1])
def test_a_state_beyond_the_grid_is_told(dtype, far):
    layer = UnICORNN(1, 2, dt=1.0, alpha=0.0, dtype=dtype, backend="triton", device=GPU)
    start = tuple(torch.full((1, 1, 2), far * v, dtype=dtype, device=GPU) for v in (RANGE - 100, 60.0))
    u = torch.ones(5, 1, 1, dtype=dtype, device=GPU)
    layer(u[:2], start)
    with pytest.raises(OverflowError, match=r"layer 1 left the range.*backend='reference'"):
        layer(u, start)
    layer.gradient = "stored"
    with pytest.warns(RuntimeWarning, match="layer 1 left the range"):
        layer(u, start)[0].sum().backward()


def test_opcheck():
    p = Problem(N=2, L=1, batch=3, lengths=[2, 1, 2], dropout=True, dtype=torch.float32).to(GPU)
    for keep in ("reversible", "stored"):
        torch.library.opcheck(op.forward, tuple(p.leaves(keep=keep, backend="triton")))


def test_kernels_are_launched_on_the_device_of_the_tensors(monkeypatch):
    seen = []
    real = torch.cuda.device_of
    monkeypatch.setattr(torch.cuda, "device_of", lambda t: (seen.append(t.device), real(t))[1])
    layer, u = layer_and_input(N=2)
    layer(u)[0].sum().backward()
    assert set(seen) == {u.device}
    assert len(seen) == 3 * 3  # forwards, backwards, adjoint; three layers
