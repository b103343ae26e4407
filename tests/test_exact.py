"""Exact reversal as properties: inverse ∘ forward = identity and reversible = stored, bit for bit, with all options."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.problems import COMPILED, GPU, TRITON
from unicornn import UnICORNN

sizes = st.integers(1, 9)
both_backends = pytest.mark.parametrize("backend", ["cpu", TRITON])


@st.composite
def problems(draw, backend, longest=1300, directions=(1,), horizons=(None,)):
    """A layer in training mode, its input, an initial state and lengths; small for Triton's interpreter."""
    slow = backend == "triton" and not COMPILED
    device, longest = GPU if backend == "triton" else "cpu", 4 if slow else longest
    L = draw(st.integers(1, 3 if slow else 5))
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    d, m, batch = draw(sizes), draw(st.integers(1, 14 if slow else 40)), draw(sizes)
    N = draw(st.integers(1, longest))
    torch.manual_seed(draw(st.integers(0, 2**32)))
    options = {
        "dt": draw(st.floats(1e-5, 0.6) | st.lists(st.floats(1e-5, 0.6), min_size=L, max_size=L)),
        "alpha": draw(st.floats(0, 10)),
        "dropout": draw(st.sampled_from([0.0, 0.3])),
        "skip_layers": draw(st.sampled_from([0, 2, 3])),
        "bidirectional": draw(st.sampled_from(directions)) == 2,
        "horizon": draw(st.sampled_from(horizons)),
    }
    layer = UnICORNN(d, m, L, dtype=dtype, backend=backend, device=device, **options)
    u = torch.randn(N, batch, d, dtype=dtype, device=device)
    scale = draw(st.sampled_from([0.0, 1e-6, 1.0, 50.0]))
    rows = L * (1 + options["bidirectional"])
    y, z = torch.randn(2, rows, batch, m, dtype=dtype, device=device) * scale + 0.0  # the grid has no -0
    lengths = draw(st.none() | st.lists(st.integers(1, N), min_size=batch, max_size=batch))
    return layer, u, draw(st.sampled_from([None, (y, z)])), lengths


def bits(*tensors):
    return [t.detach().cpu().numpy().tobytes() for t in tensors]


def or_zero(state, like):
    return state or (torch.zeros_like(like.y), torch.zeros_like(like.z))


def gradients(layer, u, state, lengths, gradient, seed):
    layer.gradient = gradient
    torch.manual_seed(seed)  # the same dropout mask
    u = u.detach().clone().requires_grad_()
    state = None if state is None else tuple(t.detach().clone().requires_grad_() for t in state)
    output, (y, z) = layer(u, state, lengths)
    weights = torch.linspace(-1, 1, output.numel(), dtype=u.dtype, device=u.device).view_as(output)
    loss = (output * weights).sum() + y.sum() - z.sum()
    return torch.autograd.grad(loss, [u, *(state or ()), *layer.parameters()])


@both_backends
@given(st.data())
def test_inverse_after_forward_is_the_identity(backend, data):
    layer, u, state, lengths = data.draw(problems(backend, directions=(1, 2)))
    _, final = layer(u, state, lengths)
    start = layer.inverse(u, final, lengths)
    assert bits(*start) == bits(*or_zero(state, start))


@both_backends
@given(st.data(), st.integers(0, 1000))
def test_reversible_and_stored_gradients_are_identical(backend, data, seed):
    layer, u, state, lengths = data.draw(problems(backend, directions=(1, 2), horizons=(None, 1.0, 1000.0)))
    reversible, stored = (gradients(layer, u, state, lengths, how, seed) for how in ("reversible", "stored"))
    assert bits(*reversible) == bits(*stored)


@both_backends
@given(st.data())
def test_chunks_give_the_same_as_the_whole_sequence(backend, data):
    """Up to rounding, since matrix products of other shapes round differently; but each chunk is undone exactly."""
    layer, u, state, _ = data.draw(problems(backend, longest=200))
    torch.manual_seed(7)
    whole, final = layer(u, state)
    cut = data.draw(st.integers(0, len(u) - 1))
    parts, at, states = [], state, []
    torch.manual_seed(7)
    for piece in (u[:cut], u[cut:]) if cut else (u,):
        output, at = layer(piece, at)
        parts.append(output)
        states.append(at)
    tolerance = {"rtol": 1e-3, "atol": 1e-3} if u.dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(torch.cat(parts), whole, **tolerance)
    torch.testing.assert_close(at.y, final.y, **tolerance)
    if cut:
        middle = layer.inverse(u[cut:], at)
        assert bits(*middle) == bits(*states[0])
        assert bits(*layer.inverse(u[:cut], middle)) == bits(*or_zero(state, at))


@both_backends
@given(st.data())
def test_single_steps_give_the_same_as_the_whole_sequence(backend, data):
    layer, u, state, _ = data.draw(problems(backend, longest=30))
    layer.eval()
    whole, final = layer(u, state)
    with torch.no_grad():
        at, outputs = state, []
        for u_n in u:
            output, at = layer.step(u_n, at)
            outputs.append(output)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if u.dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(torch.stack(outputs), whole, **tolerance)
    torch.testing.assert_close(at.z, final.z, **tolerance)
    for u_n in u.flip(0):
        at = layer.inverse(u_n[None], at)
    assert bits(*at) == bits(*or_zero(state, at))


@pytest.mark.parametrize(("backend", "N"), [("cpu", 1_000_000), ("triton", 100_000)])
def test_a_million_steps_are_undone(backend, N):
    if backend == "triton" and not COMPILED:
        pytest.skip("too many steps for Triton's interpreter")
    device = GPU if backend == "triton" else "cpu"
    layer = UnICORNN(2, 4, 3, dt=0.3, skip_layers=2, dropout=0.2, backend=backend, device=device)
    u = torch.randn(N, 1, 2, device=device)
    start = (torch.randn(3, 1, 4, device=device), torch.randn(3, 1, 4, device=device))
    torch.use_deterministic_algorithms(False)
    _, final = layer(u, start, output="last")
    assert bits(*layer.inverse(u, final)) == bits(*start)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the gradient")  # it grows, but is identical
def test_gradients_are_identical_over_a_million_steps():
    layer = UnICORNN(2, 8, 3, dt=0.3, skip_layers=2, dropout=0.2)
    u, state = torch.randn(1_000_000, 2, 2), (torch.randn(3, 2, 8), torch.randn(3, 2, 8))
    reversible, stored = (gradients(layer, u, state, [1_000_000, 654_321], how, 3) for how in ("reversible", "stored"))
    assert bits(*reversible) == bits(*stored)


def test_a_state_changed_in_place_is_used_as_changed():
    layer = UnICORNN(2, 6, 2)
    u = torch.randn(50, 3, 2)
    with torch.no_grad():
        _, state = layer(u)
        state.y[:, 0] = 0.25
        again, _ = layer(u, state)
        plain, _ = layer(u, (state.y.clone(), state.z.clone()))
        torch.testing.assert_close(again, plain, rtol=1e-5, atol=1e-6)
        output, _ = layer.step(u[0], state)
        torch.testing.assert_close(output, again[0], rtol=1e-4, atol=1e-5)


def test_input_may_lie_anywhere_in_memory():
    """The inverse gets a copy with another alignment to cache lines."""
    layer = UnICORNN(5, 7, 2)
    u = torch.randn(100, 3, 5)
    with torch.no_grad():
        _, state = layer(u)
    shifted = torch.empty(u.numel() + 1)[1:].view_as(u).copy_(u)
    assert shifted.data_ptr() % 64 != u.data_ptr() % 64
    assert not layer.inverse(shifted, state).y.any()
    assert not layer.inverse(u.transpose(0, 1).contiguous().transpose(0, 1), state).z.any()


def test_threads_may_use_the_layer_concurrently():
    layer = UnICORNN(4, 64, 2)
    u = torch.randn(200, 64, 4)

    def run(_):
        with torch.no_grad():
            return layer(u)[0]

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(run, range(8))
    for other in others:
        torch.testing.assert_close(other, first, rtol=1e-4, atol=1e-5)


def test_memory_mapped_input(tmp_path):
    """The sequence stays on disk and is never read as a whole."""
    N = 30_000
    on_disk = np.memmap(tmp_path / "u.bin", dtype=np.float32, mode="w+", shape=(N, 1, 3))
    on_disk[:] = np.random.default_rng(0).standard_normal((N, 1, 3))
    on_disk.flush()
    u = torch.from_file(str(tmp_path / "u.bin"), size=N * 3).view(N, 1, 3)
    layer = UnICORNN(3, 5, 2)
    output, state = layer(u, output="last")
    output.sum().backward()
    assert not layer.inverse(u, state).y.any()
    assert torch.equal(layer(torch.from_numpy(np.array(on_disk)), output="last")[0], output)
