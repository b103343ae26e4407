"""Baselines with matrices between neurons: each against its equations in plain numpy, and what makes it itself."""

import math

import numpy as np
import pytest
import torch

from unicornn.baselines import (
    LSTM,
    MODELS,
    Antisymmetric,
    ExpRNN,
    FastRNN,
    GatedAntisymmetric,
    Incremental,
    Lipschitz,
    ReLUGRU,
    SkipGRU,
    SkipLSTM,
)

N, b, d, m = 6, 3, 2, 5


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


# One step for one sequence, from the equations: parameters p, input x (d,), states (m,), hyperparameters.


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
    into, gate = np.split(p["V.weight"] @ x + p["V.bias"], 2)
    return (h + epsilon * sigmoid(A @ h + gate) * np.tanh(A @ h + into),)


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
    """The gate around a new state: u, then the next ũ, as the paper has them."""
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
def test_against_the_equations(name):
    step, own = STEPS[name]
    baseline = MODELS[name](d, m, dtype=torch.float64, **own)
    with torch.no_grad():
        for p in baseline.parameters():  # biases and the like too, away from their published start
            p.add_(0.3 * torch.randn_like(p))
    p = {key.removeprefix("layers.0."): v.numpy() for key, v in baseline.state_dict().items()}
    u = torch.randn(N, b, d, dtype=torch.float64)
    state = tuple(torch.rand(1, b, width, dtype=torch.float64) for width in baseline.state_widths)
    output, final = baseline(u, state)
    for i in range(b):
        s = tuple(t[0, i].numpy() for t in state)
        for n in range(N):
            s = step(p, u[n, i].numpy(), *s, **own)
            np.testing.assert_allclose(output[n, i].detach(), s[0], rtol=1e-10, atol=1e-12)
        for t, expected in zip(final, s, strict=True):
            np.testing.assert_allclose(t[0, i].detach(), expected, rtol=1e-10, atol=1e-12)


def test_lstm_layers_are_a_torch_lstm():
    ours, theirs, u = LSTM(d, m, 3), torch.nn.LSTM(d, m, 3), torch.randn(N, b, d)
    with torch.no_grad():
        for l, layer in enumerate(ours.layers):
            for key, p in layer.rnn.named_parameters():
                p.copy_(getattr(theirs, key.replace("l0", f"l{l}")))
    torch.testing.assert_close(ours(u)[0], theirs(u)[0])


@pytest.mark.parametrize("init", ["cayley", "henaff"])
def test_exprnn_starts_in_planes_and_stays_orthogonal(init):
    baseline = ExpRNN(d, 101, init=init, dtype=torch.float64)
    W = baseline.layers[0].W
    eye = torch.eye(101, dtype=torch.float64)
    angles = torch.linalg.eigvals(W.weight.detach()).angle().abs()
    s = W.parametrizations.weight.original.diagonal(-1)[::2].detach().abs().repeat(2)
    torch.testing.assert_close(angles.sort().values, torch.cat([s.new_zeros(1), s]).sort().values)
    assert s.max() > (0.9 if init == "cayley" else 2.9)
    assert s.max() <= (1 if init == "cayley" else math.pi)
    before = W.weight.detach().clone()
    optimiser = torch.optim.Adam(baseline.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        baseline(torch.randn(N, b, d, dtype=torch.float64), output="last")[0].square().sum().backward()
        optimiser.step()
    after = W.weight.detach()
    assert (after - before).norm() > 0.1
    torch.testing.assert_close(after.t() @ after, eye)
    assert not W.parametrizations.weight.original.grad.triu().any(), "only what is below the diagonal is free"


def test_exprnn_keeps_the_length_of_a_state():
    baseline = ExpRNN(d, m, dtype=torch.float64)
    torch.nn.init.zeros_(baseline.layers[0].b)
    h = torch.randn(1, b, m, dtype=torch.float64)
    _, (final,) = baseline(torch.zeros(50, b, d, dtype=torch.float64), (h,))
    torch.testing.assert_close(final.norm(dim=-1), h.norm(dim=-1))


@pytest.mark.parametrize("kind", [Antisymmetric, GatedAntisymmetric])
def test_antisymmetric_eigenvalues_have_real_part_minus_gamma(kind):
    baseline = kind(d, 8, gamma=0.3, dtype=torch.float64)
    optimiser = torch.optim.SGD(baseline.parameters(), lr=0.5)
    baseline(torch.randn(N, b, d, dtype=torch.float64), output="last")[0].sum().backward()
    optimiser.step()
    real = torch.linalg.eigvals(baseline.layers[0].matrix()).real
    torch.testing.assert_close(real, torch.full_like(real, -0.3))


def test_lipschitz_beta_goes_from_symmetric_to_antisymmetric():
    for beta, sign in ((0.5, 0.0), (1.0, -1.0)):
        layer = Lipschitz(d, m, beta=beta, gamma=0.0, dtype=torch.float64).layers[0]
        A = layer.matrix(layer.M_A)
        torch.testing.assert_close(A, layer.M_A + sign * layer.M_A.t())
    layer = Lipschitz(300, 200, init_std=4.0).layers[0]
    assert 0.9 < layer.M_W.std() * 200 / 4 < 1.1
    assert 0.9 < layer.U.weight.std() * (500 / 2) ** 0.5 < 1.1


def test_fastrnn_starts_close_to_the_identity():
    baseline = FastRNN(d, m)
    layer = baseline.layers[0]
    assert layer.alpha.sigmoid().item() == pytest.approx(0.0474, abs=1e-4)
    assert layer.beta.sigmoid().item() == pytest.approx(0.9526, abs=1e-4)
    assert (layer.W.bias == 1).all()


def test_incremental_state_leads_to_the_equilibrium():
    baseline = Incremental(d, m, iterations=200, alpha=1.5, dtype=torch.float64)
    layer = baseline.layers[0]
    with torch.no_grad():
        layer.eta.fill_(0.4)
    u = torch.randn(1, b, d, dtype=torch.float64)
    h = torch.randn(1, b, m, dtype=torch.float64, requires_grad=True)
    _, (after,) = baseline(u, (h,))
    s = (after + h)[0]
    torch.testing.assert_close(layer.alpha * s, torch.relu(layer.U(s) + layer.W(u[0])))
    jacobian = torch.autograd.functional.jacobian(lambda h: baseline(u[:, :1], (h,))[1][0].flatten(), h[:, :1].detach())
    torch.testing.assert_close(jacobian.reshape(m, m), -torch.eye(m, dtype=torch.float64))


@pytest.mark.parametrize("kind", [SkipLSTM, SkipGRU])
def test_skip_counts_up_to_the_next_update(kind):
    baseline = kind(d, m, dtype=torch.float64)
    torch.nn.init.zeros_(baseline.layers[0].w.weight)
    torch.nn.init.constant_(baseline.layers[0].w.bias, math.log(0.2 / 0.8))  # ũ = 1, 0.2, 0.4, 0.6, 0.2, …
    output, state = baseline(torch.randn(10, b, d, dtype=torch.float64))
    changed = (output[1:] != output[:-1]).all(dim=2).all(dim=1)
    assert changed.tolist() == [n % 3 == 0 for n in range(1, 10)]
    assert output[0].all(), "a state of zeros begins with an update"
    torch.testing.assert_close(state[-1], torch.full_like(state[-1], 0.8))


def test_skip_waits_no_longer_than_until_the_gate_is_open():
    baseline = SkipGRU(d, m, dtype=torch.float64)
    state = (torch.randn(1, 2, m, dtype=torch.float64), torch.tensor([[[0.6], [0.95]]], dtype=torch.float64))
    torch.nn.init.zeros_(baseline.layers[0].w.weight)  # δ = σ̂(1) = 0.731…
    _, (h, wait) = baseline(torch.randn(1, 2, d, dtype=torch.float64), state)
    assert torch.equal(h, state[0])
    assert wait.flatten().tolist() == pytest.approx([0, 0.95 - 1 / (1 + math.exp(-1))])


def test_skip_lstm_that_never_skips_is_an_lstm():
    baseline, theirs = SkipLSTM(d, m), torch.nn.LSTM(d, m)
    layer, u = baseline.layers[0], torch.randn(N, b, d)
    torch.nn.init.constant_(layer.w.bias, 30.0)
    with torch.no_grad():
        for p, q in ((layer.W.weight, theirs.weight_ih_l0), (layer.W.bias, theirs.bias_ih_l0),
                     (layer.U[0].weight, theirs.weight_hh_l0)):  # fmt: skip
            q.copy_(p)
        theirs.bias_hh_l0.zero_()
    torch.testing.assert_close(baseline(u)[0], theirs(u)[0])


@pytest.mark.parametrize("waited", [0.2, 0.9])
def test_skip_gradient_goes_straight_through_the_gate(waited):
    baseline = SkipGRU(d, m, dtype=torch.float64)
    u, h = torch.randn(1, 1, d, dtype=torch.float64), torch.randn(1, 1, m, dtype=torch.float64)
    wait = torch.full((1, 1, 1), waited, dtype=torch.float64, requires_grad=True)
    output, _ = baseline(u, (h, wait))
    updated, _ = baseline(u, (h, torch.zeros_like(wait)))
    torch.testing.assert_close(output, updated if waited < 0.5 else h, rtol=0, atol=0)
    (gradient,) = torch.autograd.grad(output.sum(), wait)
    torch.testing.assert_close(gradient.squeeze(), -(updated - h).sum())


def test_relu_gru_starts_as_keras_does():
    layer = ReLUGRU(70, 50, dtype=torch.float64).layers[0]
    for U in (*layer.U.weight.chunk(2), layer.U_c.weight):
        torch.testing.assert_close(U @ U.t(), torch.eye(50, dtype=torch.float64))
    bound = (6 / 120) ** 0.5
    assert 0.95 * bound < layer.W.weight.abs().max() <= bound
    assert not layer.W.bias.any()
