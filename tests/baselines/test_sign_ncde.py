"""Signature NCDE against NumPy: log-signatures by formula, windows one by one, Runge-Kutta written out."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unicornn.baselines import SignatureNCDE
from unicornn.baselines.sign_ncde import channels, log_signatures

pysiglib = pytest.importorskip("pysiglib")
d, m, b = 3, 4, 3


def make(**options):
    return SignatureNCDE(d, m, dtype=torch.float64, dt=0.1, **options)


def draw(*shape):
    return torch.randn(shape, dtype=torch.float64)


def close(x, y):
    torch.testing.assert_close(torch.as_tensor(x), torch.as_tensor(y), rtol=1e-9, atol=1e-11)


def log_signature(path, depth):
    """Increments, then ½∫(X_i dX_j - X_j dX_i) for i < j, along a piecewise linear path (points, width)."""
    steps, middle = np.diff(path, axis=0), (path[1:] + path[:-1]) / 2 - path[0]
    areas = (middle.T @ steps - steps.T @ middle) / 2
    return np.concatenate([path[-1] - path[0], areas[np.triu_indices(path.shape[1], 1)][: None if depth > 1 else 0]])


def numpy_outputs(baseline, u):
    """Outputs (N, m) for one sequence u (N, d)."""
    options, layer = baseline.hyperparameters, baseline.layers[0]
    weights = {name: p.detach().numpy() for name, p in layer.named_parameters()}

    def linear(name, z):
        return weights[f"{name}.weight"] @ z + weights[f"{name}.bias"]

    def slope(h, signature):
        z = linear("enter", h)
        for _ in range(options["hidden_layers"] - 1):
            z = linear("hidden", np.maximum(z, 0))
        return linear("leave", np.tanh(z)).reshape(m, -1) @ signature

    path = np.column_stack([options["dt"] * np.arange(len(u)), u])
    h, outputs = linear("initial", path[0]), []
    for n in range(len(u)):
        if n and n % options["step"] == 0:
            signature = log_signature(path[n - options["step"] : n + 1], options["depth"])
            k1 = slope(h, signature)
            k2 = slope(h + k1 / 3, signature)
            k3 = slope(h - k1 / 3 + k2, signature)
            k4 = slope(h + k1 - k2 + k3, signature)
            h = h + k1 / 8 + 3 * k2 / 8 + 3 * k3 / 8 + k4 / 8
        outputs.append(h)
    return np.stack(outputs)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("width", [1, 2, 7])
def test_log_signatures_are_increments_and_areas(width, depth):
    paths = draw(5, 9, width)
    close(log_signatures(paths, depth), np.stack([log_signature(path, depth) for path in paths.numpy()]))


def test_the_area_of_a_unit_square_is_one():
    square = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]])
    assert log_signatures(square, 2).tolist() == [[0.0, 0.0, 1.0]]


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("width", [1, 2, 5])
def test_number_of_channels(width, depth):
    line = torch.linspace(0, 1, 6, dtype=torch.float64)[:, None] * draw(2, 1, width)
    signatures = log_signatures(line, depth)
    assert signatures.shape == (2, channels(width, depth))
    close(signatures[:, :width], line[:, -1])
    close(signatures[:, width:], torch.zeros(2, channels(width, depth) - width, dtype=torch.float64))


@pytest.mark.parametrize(("step", "depth", "hidden_layers"), [(1, 1, 1), (4, 2, 2), (3, 2, 3), (8, 2, 1), (30, 2, 2)])
def test_layer_is_the_numpy_loop(step, depth, hidden_layers):
    baseline, u = make(step=step, depth=depth, hidden_layers=hidden_layers), draw(23, b, d)
    lengths = [23, 9, 1]
    output, (h, _, count) = baseline(u, lengths=lengths)
    for i, N in enumerate(lengths):
        expected = numpy_outputs(baseline, u[:N, i].numpy())
        close(output[:N, i].detach(), expected)
        close(h[0, i].detach(), expected[-1])
        assert count[0, i] == (N - 1) % step + 1


def test_a_step_is_of_fourth_order(monkeypatch):
    layer, A, h = make().layers[0], draw(m, m), draw(2, m)
    monkeypatch.setattr(layer, "slope", lambda h, signature: h @ A)
    powers = [torch.linalg.matrix_power(A, k) for k in range(5)]
    close(layer.advance(h, None), h @ (powers[0] + powers[1] + powers[2] / 2 + powers[3] / 6 + powers[4] / 24))


@given(
    step=st.integers(1, 6),
    depth=st.integers(1, 3),
    L=st.integers(1, 2),
    pieces=st.lists(st.lists(st.integers(1, 7), min_size=2, max_size=2), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
def test_sequences_cut_at_different_steps_continue_exactly(step, depth, L, pieces, seed):
    torch.manual_seed(seed)
    baseline = SignatureNCDE(d, m, L, step=step, depth=depth, dtype=torch.float64)
    totals = [sum(p[i] for p in pieces) for i in range(2)]
    u, state, ends, outputs = draw(max(totals), 2, d), None, [0, 0], [[], []]
    for lengths in pieces:
        piece = torch.full((max(lengths), 2, d), torch.nan, dtype=torch.float64)
        for i, N in enumerate(lengths):
            piece[:N, i] = u[ends[i] : ends[i] + N, i]
            ends[i] += N
        output, state = baseline(piece, state, lengths)
        for i, N in enumerate(lengths):
            outputs[i].append(output[:N, i])
    whole, final = baseline(u, lengths=totals)
    for i, N in enumerate(totals):
        close(torch.cat(outputs[i]), whole[:N, i])
    for t, s in zip(state, final, strict=True):
        close(t, s)


def test_only_the_first_sample_counts_before_a_window_is_complete():
    baseline, u = make(step=4), draw(4, b, d)
    output, (h, samples, count) = baseline(u)
    start = baseline.layers[0].initial(torch.nn.functional.pad(u[0], (1, 0)))
    close(output, start.expand(4, b, m))
    close(samples[0].unflatten(1, (4, d)).transpose(0, 1), u)
    assert (count == 4).all()
    other = torch.cat([u[:1], draw(3, b, d), u[:1]])
    output, (_, samples, count) = baseline(other)
    assert not torch.allclose(output[-1], h[0])
    assert (count == 1).all()
    close(samples[0].unflatten(1, (4, d)).transpose(0, 1), torch.cat([torch.zeros_like(u[:3]), u[:1]]))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_gradients_through_the_log_signature(depth):
    baseline, u = make(step=2, depth=depth), draw(6, 2, d).requires_grad_()
    assert torch.autograd.gradcheck(lambda u: baseline(u, lengths=[6, 4])[0], u, fast_mode=True)


@pytest.mark.parametrize("count", [-1.0, 5.0, float("nan")])
def test_impossible_numbers_of_samples_are_rejected(count):
    baseline = make(step=4)
    h, samples, _ = baseline(draw(2, b, d))[1]
    with pytest.raises(ValueError, match=r"^state\[2\]: "):
        baseline(draw(2, b, d), (h, samples, torch.full((1, b, 1), count, dtype=torch.float64)))


def test_error_without_the_library_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pysiglib", None)
    baseline = make()
    with pytest.raises(ImportError, match=r"pip install '\.\[ncde\]'"):
        baseline(draw(9, b, d))
