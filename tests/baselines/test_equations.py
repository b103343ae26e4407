"""Every baseline against its published equations, written out in NumPy or, with gradients, in torch."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.problems import draw
from unicornn.baselines import LRU, MODELS, SRU, IndRNN, LinOSS, MinGRU

N, b, d, m = 6, 3, 2, 5
DOUBLE = torch.float64


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


def antisymmetric_matrix(p, gamma):
    W = np.zeros((m, m))
    k = 0
    for i in range(m):
        for j in range(i + 1, m):
            W[i, j] = p["W"][k]
            k += 1
    return W - W.T - gamma * np.eye(m)


# One step of one sequence: parameters p, input x (d,), states (m,), hyperparameters.


def lstm(p, x, h, c):
    i, f, g, o = np.split(
        p["rnn.weight_ih_l0"] @ x + p["rnn.bias_ih_l0"] + p["rnn.weight_hh_l0"] @ h + p["rnn.bias_hh_l0"], 4
    )
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru(p, x, h):
    x_r, x_z, x_g = np.split(p["rnn.weight_ih_l0"] @ x + p["rnn.bias_ih_l0"], 3)
    h_r, h_z, h_g = np.split(p["rnn.weight_hh_l0"] @ h + p["rnn.bias_hh_l0"], 3)
    z = sigmoid(x_z + h_z)
    return ((1 - z) * np.tanh(x_g + sigmoid(x_r + h_r) * h_g) + z * h,)


def cornn(p, x, y, z, dt, gamma, epsilon):
    force = np.tanh(p["W.weight"] @ y + p["Wz.weight"] @ z + p["V.weight"] @ x + p["V.bias"])
    z = z + dt * (force - gamma * y - epsilon * z)
    return y + dt * z, z


def lem(p, x, y, z, dt):
    V, bias = np.split(p["V.weight"], 4), np.split(p["V.bias"], 4)
    W = np.split(p["W.weight"], 3)
    dt_z, dt_y = (dt * sigmoid(W[i] @ y + V[i] @ x + bias[i]) for i in range(2))
    z = (1 - dt_z) * z + dt_z * np.tanh(W[2] @ y + V[2] @ x + bias[2])
    return (1 - dt_y) * y + dt_y * np.tanh(p["Wy.weight"] @ z + V[3] @ x + bias[3]), z


def antisymmetric(p, x, h, epsilon, gamma):
    A = antisymmetric_matrix(p, gamma)
    return (h + epsilon * np.tanh(A @ h + p["V.weight"] @ x + p["V.bias"]),)


def gated_antisymmetric(p, x, h, epsilon, gamma):
    A = antisymmetric_matrix(p, gamma)
    candidate, gate = np.split(p["V.weight"] @ x + p["V.bias"], 2)
    return (h + epsilon * sigmoid(A @ h + gate) * np.tanh(A @ h + candidate),)


def lipschitz(p, x, h, epsilon, beta, gamma, init_std):
    A, W = ((1 - beta) * (M + M.T) + beta * (M - M.T) - gamma * np.eye(m) for M in (p["M_A"], p["M_W"]))
    return (h + epsilon * (A @ h + np.tanh(W @ h + p["U.weight"] @ x + p["U.bias"])),)


def fastrnn(p, x, h):
    new = np.tanh(p["W.weight"] @ x + p["U.weight"] @ h + p["W.bias"])
    return (sigmoid(p["alpha"]) * new + sigmoid(p["beta"]) * h,)


def incremental(p, x, h, iterations, alpha):
    g = h
    for i in range(iterations):
        right = relu(p["U.weight"] @ (g + h) + p["W.weight"] @ x + p["W.bias"]) - alpha * (g + h)
        g = g + p["eta"][i] * right
    return (g,)


def exprnn(p, x, h, init):
    A = np.tril(p["W.parametrizations.weight.original"], -1)
    A = A - A.T
    term, W = np.eye(m), np.eye(m)
    for k in range(1, 60):
        term = term @ A / k
        W = W + term
    a = W @ h + p["V.weight"] @ x
    return (np.sign(a) * relu(np.abs(a) + p["b"]),)


def cho(x_z, x_r, x_c, h, U_z, U_r, U_c, activation):
    z, r = sigmoid(x_z + U_z @ h), sigmoid(x_r + U_r @ h)
    return (1 - z) * h + z * activation(x_c + U_c @ (r * h))


def relu_gru(p, x, h):
    return (cho(*np.split(p["W.weight"] @ x + p["W.bias"], 3), h, *np.split(p["U.weight"], 2), p["U_c.weight"], relu),)


def skip(p, s_new, s, key, wait):
    """The gate around a new state: u, then the next ũ, as in the paper."""
    u_tilde = 1 - wait
    u = np.round(u_tilde)
    s = [u * new + (1 - u) * old for new, old in zip(s_new, s, strict=True)]
    delta = sigmoid(p["w.weight"] @ s[key] + p["w.bias"])
    u_tilde = u * delta + (1 - u) * (u_tilde + np.minimum(delta, 1 - u_tilde))
    return *s, 1 - u_tilde


def skip_lstm(p, x, h, c, wait):
    i, f, g, o = np.split(p["W.weight"] @ x + p["W.bias"] + p["U.0.weight"] @ h, 4)
    c_new = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return skip(p, (sigmoid(o) * np.tanh(c_new), c_new), (h, c), 1, wait)


def skip_gru(p, x, h, wait):
    x_z, x_r, x_c = np.split(p["W.weight"] @ x + p["W.bias"], 3)
    new = cho(x_z, x_r, x_c, h, *np.split(p["U.0.weight"], 2), p["U.1.weight"], np.tanh)
    return skip(p, (new,), (h,), 0, wait)


STEPS = {
    "lstm": (lstm, {}),
    "gru": (gru, {}),
    "relu-gru": (relu_gru, {}),
    "skip-lstm": (skip_lstm, {}),
    "skip-gru": (skip_gru, {}),
    "exprnn": (exprnn, {"init": "henaff"}),
    "antisymmetric": (antisymmetric, {"epsilon": 0.3, "gamma": 0.2}),
    "gated-antisymmetric": (gated_antisymmetric, {"epsilon": 0.3, "gamma": 0.2}),
    "lipschitz": (lipschitz, {"epsilon": 0.2, "beta": 0.8, "gamma": 0.1, "init_std": 3.0}),
    "fastrnn": (fastrnn, {}),
    "incremental": (incremental, {"iterations": 3, "alpha": 0.7}),
    "cornn": (cornn, {"dt": 0.2, "gamma": 1.3, "epsilon": 0.9}),
    "lem": (lem, {"dt": 0.8}),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_are_the_published_ones(name):
    step, options = STEPS[name]
    baseline = MODELS[name](d, m, dtype=DOUBLE, **options)
    with torch.no_grad():
        for p in baseline.parameters():  # move biases and the like away from their published start
            p.add_(0.3 * torch.randn_like(p))
    p = {key.removeprefix("layers.0."): v.numpy() for key, v in baseline.state_dict().items()}
    u = draw(N, b, d)
    state = tuple(torch.rand(1, b, width, dtype=DOUBLE) for width in baseline.state_widths)
    output, final = baseline(u, state)
    for i in range(b):
        s = tuple(t[0, i].numpy() for t in state)
        for n in range(N):
            s = step(p, u[n, i].numpy(), *s, **options)
            np.testing.assert_allclose(output[n, i].detach(), s[0], rtol=1e-10, atol=1e-12)
        for t, expected in zip(final, s, strict=True):
            np.testing.assert_allclose(t[0, i].detach(), expected, rtol=1e-10, atol=1e-12)


# One layer over x (N, b, width), from the equations: outputs and final state.


def indrnn(layer, x, state):
    (h,), outputs = state, []
    for x_n in x @ layer.W.T + layer.b:
        h = torch.clamp(x_n + layer.u * h, min=0)
        outputs.append(h)
    return torch.stack(outputs), [h]


def sru(layer, x, state):
    W, (v_f, v_r), (b_f, b_r), (c,), outputs = layer.W, layer.v, layer.b, state, []
    alpha = math.sqrt(1 + 2 * math.exp(layer.options["highway_bias"]))
    for x_n in x:
        f = 1 / (1 + torch.exp(-(x_n @ W[1].T + v_f * c + b_f)))
        r = 1 / (1 + torch.exp(-(x_n @ W[2].T + v_r * c + b_r)))
        c = f * c + (1 - f) * (x_n @ W[0].T)
        highway = alpha * x_n if len(W) == 3 else x_n @ W[3].T
        outputs.append(r * c + (1 - r) * highway)
    return torch.stack(outputs), [c]


def mingru(layer, x, state):
    (h,), outputs = state, []
    for x_n in x:
        z = 1 / (1 + torch.exp(-(x_n @ layer.W[1].T + layer.b[1])))
        h = (1 - z) * h + z * (x_n @ layer.W[0].T + layer.b[0])
        outputs.append(h)
    return torch.stack(outputs), [h]


def block(layer, x, recurrence):
    """The block around the recurrence, with GELU and GLU written out."""
    x = x if layer.encoder is None else x @ layer.encoder.weight.T + layer.encoder.bias
    inner, end = recurrence(x)
    v = inner + layer.D * x
    v = 0.5 * v * (1 + torch.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
    m = len(layer.D)
    W, bias = layer.glu.weight, layer.glu.bias
    return x + (v @ W[:m].T + bias[:m]) * torch.sigmoid(v @ W[m:].T + bias[m:]), end


def lru(layer, x, state):
    B, C = torch.complex(*layer.B), torch.complex(*layer.C)
    eigenvalues = torch.exp(torch.complex(-torch.exp(layer.nu), torch.exp(layer.theta)))

    def recurrence(x):
        s, outputs = torch.complex(*state), []
        for x_n in x.to(B.dtype):
            s = eigenvalues * s + torch.exp(layer.gamma) * (x_n @ B.T)
            outputs.append((s @ C.T).real)
        return torch.stack(outputs), [s.real, s.imag]

    return block(layer, x, recurrence)


def linoss(layer, x, state):
    """The implicit equations are solved by linear algebra, oscillator by oscillator."""
    B, C = torch.complex(*layer.B), torch.complex(*layer.C)
    A, dt = torch.relu(layer.A), torch.sigmoid(layer.step)
    if layer.options["discretisation"] == "im":  # z_n + Δt A y_n and y_n - Δt z_n are known
        one = torch.ones_like(A)
        left = torch.stack([torch.stack([one, dt * A], -1), torch.stack([-dt, one], -1)], -2).to(B.dtype)

    def recurrence(x):
        z, y, outputs = torch.complex(*state[:2]), torch.complex(*state[2:]), []
        for x_n in x.to(B.dtype):
            kick = dt * (x_n @ B.T)
            if layer.options["discretisation"] == "im":
                z, y = torch.linalg.solve(left, torch.stack([z + kick, y], -1).unsqueeze(-1)).squeeze(-1).unbind(-1)
            else:
                z = z - dt * A * y + kick
                y = y + dt * z
            outputs.append((y @ C.T).real)
        return torch.stack(outputs), [z.real, z.imag, y.real, y.imag]

    return block(layer, x, recurrence)


LAYERS = {
    "indrnn": (IndRNN, indrnn, {"batch_norm": False}),
    "sru": (SRU, sru, {}),
    "sru, highway bias": (SRU, sru, {"highway_bias": -2.0}),
    "mingru": (MinGRU, mingru, {}),
    "lru": (LRU, lru, {"batch_norm": False}),
    "linoss-im": (LinOSS, linoss, {"batch_norm": False, "discretisation": "im"}),
    "linoss-imex": (LinOSS, linoss, {"batch_norm": False, "discretisation": "imex"}),
}


@given(
    name=st.sampled_from(list(LAYERS)),
    sizes=st.tuples(*(st.integers(1, 5) for _ in range(6))),
    seed=st.integers(0, 99),
)
def test_stacks_are_the_published_ones(name, sizes, seed):
    """Outputs, final states and every gradient."""
    torch.manual_seed(seed)
    kind, layer_outputs, options = LAYERS[name]
    N, b, d, m, L, P = sizes
    options = options | ({"state_size": P} if kind in (LRU, LinOSS) else {})
    model = kind(d, m, L, dtype=DOUBLE, **options)
    with torch.no_grad():
        if kind is IndRNN:
            model.layers[0].b.normal_()
        if kind is LinOSS:
            model.layers[0].A -= 0.5  # partly negative, where the relu clips
    u = draw(N, b, d).requires_grad_()
    start = [torch.rand(L, b, width, dtype=DOUBLE).requires_grad_() for width in model.state_widths]
    output, final = model(u, start)
    x, ends = u, []
    for l, layer in enumerate(model.layers):
        x, end = layer_outputs(layer, x, [t[l] for t in start])
        ends.append(end)
    leaves, results = [u, *start, *model.parameters()], []
    for outputs, states in ((output, final), (x, [torch.stack(t) for t in zip(*ends, strict=True)])):
        total = outputs.square().sum() + sum(t.sin().sum() for t in states)
        results.append([outputs, *states, *torch.autograd.grad(total, leaves)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def test_dense_indrnn_reads_and_returns_all_layers_below():
    model = IndRNN(2, 4, 3, connection="dense", batch_norm=False, dtype=DOUBLE)
    u, start = draw(6, 3, 2), torch.rand(3, 3, 4, dtype=DOUBLE)
    output, (final,) = model(u, (start,))
    x, outputs = u, []
    for l, layer in enumerate(model.layers):
        h, (end,) = indrnn(layer, x, [start[l]])
        outputs.append(h)
        x = torch.cat(outputs, -1)
        torch.testing.assert_close(final[l], end)
    torch.testing.assert_close(output, x)
    assert output.shape[-1] == model.output_size == 12
