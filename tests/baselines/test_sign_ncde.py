"""Signature NCDE against NumPy: log-signatures by formula, windows one by one, Runge-Kutta written out."""

import sys

import numpy as np
import pytest
import torch

from tests.problems import draw
from unicornn.baselines import SignatureNCDE
from unicornn.baselines.sign_ncde import log_signatures

pysiglib = pytest.importorskip("pysiglib")
d, m, b = 3, 4, 3


def make(**options):
    return SignatureNCDE(d, m, dtype=torch.float64, dt=0.1, **options)


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


def test_error_without_the_library_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pysiglib", None)
    baseline = make()
    with pytest.raises(ImportError, match=r"pip install '\.\[ncde\]'"):
        baseline(draw(9, b, d))
