"""Published initialisations, and the properties that define each baseline."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unicornn.baselines import (
    LRU,
    SRU,
    Antisymmetric,
    ExpRNN,
    FastRNN,
    GatedAntisymmetric,
    Incremental,
    IndRNN,
    LinOSS,
    Lipschitz,
    ReLUGRU,
    SkipGRU,
    SkipLSTM,
)

N, b, d, m = 6, 3, 2, 5
DOUBLE = torch.float64


def draw(*shape):
    return torch.randn(shape, dtype=DOUBLE)


def standardised(x, mean, variance):
    return (x - mean) / torch.sqrt(variance + 1e-5)


@pytest.mark.parametrize("init", ["cayley", "henaff"])
def test_exprnn_starts_in_planes_and_stays_orthogonal(init):
    baseline = ExpRNN(d, 101, init=init, dtype=DOUBLE)
    W = baseline.layers[0].W
    angles = torch.linalg.eigvals(W.weight.detach()).angle().abs()
    s = W.parametrizations.weight.original.diagonal(-1)[::2].detach().abs().repeat(2)
    torch.testing.assert_close(angles.sort().values, torch.cat([s.new_zeros(1), s]).sort().values)
    assert s.max() > (0.9 if init == "cayley" else 2.9)
    assert s.max() <= (1 if init == "cayley" else math.pi)
    before = W.weight.detach().clone()
    optimiser = torch.optim.Adam(baseline.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        baseline(draw(N, b, d), output="last")[0].square().sum().backward()
        optimiser.step()
    after = W.weight.detach()
    assert (after - before).norm() > 0.1
    torch.testing.assert_close(after.t() @ after, torch.eye(101, dtype=DOUBLE))
    assert not W.parametrizations.weight.original.grad.triu().any(), "only the part below the diagonal is free"


def test_exprnn_preserves_the_norm_of_a_state():
    baseline = ExpRNN(d, m, dtype=DOUBLE)
    torch.nn.init.zeros_(baseline.layers[0].b)
    h = draw(1, b, m)
    _, (final,) = baseline(torch.zeros(50, b, d, dtype=DOUBLE), (h,))
    torch.testing.assert_close(final.norm(dim=-1), h.norm(dim=-1))


@pytest.mark.parametrize("kind", [Antisymmetric, GatedAntisymmetric])
def test_antisymmetric_eigenvalues_have_real_part_minus_gamma(kind):
    baseline = kind(d, 8, gamma=0.3, dtype=DOUBLE)
    optimiser = torch.optim.SGD(baseline.parameters(), lr=0.5)
    baseline(draw(N, b, d), output="last")[0].sum().backward()
    optimiser.step()
    real = torch.linalg.eigvals(baseline.layers[0].matrix()).real
    torch.testing.assert_close(real, torch.full_like(real, -0.3))


def test_lipschitz_beta_interpolates_from_symmetric_to_antisymmetric():
    for beta, sign in ((0.5, 0.0), (1.0, -1.0)):
        layer = Lipschitz(d, m, beta=beta, gamma=0.0, dtype=DOUBLE).layers[0]
        torch.testing.assert_close(layer.matrix(layer.M_A), layer.M_A + sign * layer.M_A.t())
    layer = Lipschitz(300, 200, init_std=4.0).layers[0]
    assert 0.9 < layer.M_W.std() * 200 / 4 < 1.1
    assert 0.9 < layer.U.weight.std() * (500 / 2) ** 0.5 < 1.1


def test_fastrnn_starts_close_to_the_identity():
    layer = FastRNN(d, m).layers[0]
    assert layer.alpha.sigmoid().item() == pytest.approx(0.0474, abs=1e-4)
    assert layer.beta.sigmoid().item() == pytest.approx(0.9526, abs=1e-4)
    assert (layer.W.bias == 1).all()


def test_incremental_state_leads_to_the_equilibrium():
    baseline = Incremental(d, m, iterations=200, alpha=1.5, dtype=DOUBLE)
    layer = baseline.layers[0]
    torch.nn.init.constant_(layer.eta, 0.4)
    u, h = draw(1, b, d), draw(1, b, m).requires_grad_()
    _, (after,) = baseline(u, (h,))
    s = (after + h)[0]
    torch.testing.assert_close(layer.options["alpha"] * s, torch.relu(layer.U(s) + layer.W(u[0])))
    jacobian = torch.autograd.functional.jacobian(lambda h: baseline(u[:, :1], (h,))[1][0].flatten(), h[:, :1].detach())
    torch.testing.assert_close(jacobian.reshape(m, m), -torch.eye(m, dtype=DOUBLE))


@pytest.mark.parametrize("kind", [SkipLSTM, SkipGRU])
def test_skip_counts_up_to_the_next_update(kind):
    baseline = kind(d, m, dtype=DOUBLE)
    torch.nn.init.zeros_(baseline.layers[0].w.weight)
    torch.nn.init.constant_(baseline.layers[0].w.bias, math.log(0.2 / 0.8))  # ũ = 1, 0.2, 0.4, 0.6, 0.2, …
    output, state = baseline(draw(10, b, d))
    changed = (output[1:] != output[:-1]).all(dim=2).all(dim=1)
    assert changed.tolist() == [n % 3 == 0 for n in range(1, 10)]
    assert output[0].all(), "a zero state begins with an update"
    torch.testing.assert_close(state[-1], torch.full_like(state[-1], 0.8))


def test_skip_waits_until_the_gate_is_open_and_not_longer():
    baseline = SkipGRU(d, m, dtype=DOUBLE)
    state = (draw(1, 2, m), torch.tensor([[[0.6], [0.95]]], dtype=DOUBLE))
    torch.nn.init.zeros_(baseline.layers[0].w.weight)  # δ = σ̂(1) = 0.731…
    _, (h, wait) = baseline(draw(1, 2, d), state)
    assert torch.equal(h, state[0])
    assert wait.flatten().tolist() == pytest.approx([0, 0.95 - 1 / (1 + math.exp(-1))])


@pytest.mark.parametrize("waited", [0.2, 0.9])
def test_skip_gradient_goes_straight_through_the_gate(waited):
    baseline, u, h = SkipGRU(d, m, dtype=DOUBLE), draw(1, 1, d), draw(1, 1, m)
    wait = torch.full((1, 1, 1), waited, dtype=DOUBLE, requires_grad=True)
    output, _ = baseline(u, (h, wait))
    updated, _ = baseline(u, (h, torch.zeros_like(wait)))
    torch.testing.assert_close(output, updated if waited < 0.5 else h, rtol=0, atol=0)
    (gradient,) = torch.autograd.grad(output.sum(), wait)
    torch.testing.assert_close(gradient.squeeze(), -(updated - h).sum())


def test_relu_gru_starts_like_keras():
    layer = ReLUGRU(70, 50, dtype=DOUBLE).layers[0]
    for U in (*layer.U.weight.chunk(2), layer.U_c.weight):
        torch.testing.assert_close(U @ U.t(), torch.eye(50, dtype=DOUBLE))
    bound = (6 / 120) ** 0.5
    assert 0.95 * bound < layer.W.weight.abs().max() <= bound
    assert not layer.W.bias.any()


def test_dense_indrnn_supports_lengths_batch_first_and_dropout():
    L, ends = 5, torch.tensor([6, 1, 4])
    model = IndRNN(d, 4, L, connection="dense", dtype=DOUBLE).eval()
    u, start = draw(N, b, d), torch.rand(L, b, 4, dtype=DOUBLE)
    for i, end in enumerate(ends):
        u[end:, i] = torch.nan
    output, (final,) = model(u, (start,), ends)
    for i, end in enumerate(ends):
        alone, (h,) = model(u[:end, i], (start[:, i],))
        torch.testing.assert_close(output[:end, i], alone)
        torch.testing.assert_close(final[:, i], h)
        assert not output[end:, i].any()
    last, _ = model(u, (start,), ends, output="last")
    torch.testing.assert_close(last, output[ends - 1, torch.arange(b)])
    model.batch_first, model.dropout = True, 0.5
    torch.testing.assert_close(model(u.transpose(0, 1), (start,), ends)[0].transpose(0, 1), output)
    dropped, state = model.train()(u.transpose(0, 1), (start,), ends)
    assert ((dropped[:, 0] == 0) == (torch.cat(list(state.mask), -1) == 0)).all()


def test_indrnn_normalises_outputs_but_not_states():
    model, u = IndRNN(2, 3, dtype=DOUBLE), draw(50, 4, 2)
    plain = IndRNN(2, 3, batch_norm=False, dtype=DOUBLE)
    plain.load_state_dict(model.state_dict(), strict=False)
    output, (final,) = model(u)
    h, (end,) = plain(u)
    torch.testing.assert_close(final, end)
    torch.testing.assert_close(output, standardised(h, h.mean((0, 1)), h.var((0, 1), correction=0)))
    norm = model.eval().layers[0].norm
    torch.testing.assert_close(norm.running_mean, 0.1 * h.mean((0, 1)))
    torch.testing.assert_close(model(u)[0], standardised(h, norm.running_mean, norm.running_var))


def test_indrnn_clips_its_recurrent_weights():
    model, bound = IndRNN(2, 3, 2, length=8), 2 ** (1 / 8)
    with torch.no_grad():
        model.layers[0].u.copy_(torch.tensor([-3.0, 0.5, 3.0]))
    u = torch.randn(8, 4, 2)
    first, _ = model(u)
    torch.testing.assert_close(model.layers[0].u.detach(), torch.tensor([-bound, 0.5, bound]))
    second, _ = model(u)  # leaves the graph of the first run intact
    (first.sum() + second.sum()).backward()
    assert model.layers[0].u.grad.isfinite().all()


def test_indrnn_initialisation():
    m, bound = 2000, 2 ** (1 / 100)
    model = IndRNN(3, m, 2, length=100)
    below, top = (layer.u for layer in model.layers)
    assert 0 <= below.min() < 0.01
    assert bound - 0.01 < below.max() <= bound
    assert 1 / bound <= top.min() < 1 < top.max() <= bound
    limit = math.sqrt(6 / ((1 + 8**2) * m))
    assert 0.99 * limit < model.layers[1].W.abs().max() <= limit
    assert not model.layers[0].b.any()
    u = IndRNN(3, m).layers[0].u
    assert 0 <= u.min() < u.max() <= 1


def test_sru_initialisation():
    d, m = 300, 200
    layer, scale = SRU(d, m, highway_bias=-1.0).layers[0], math.sqrt(1 + 2 * math.exp(-1.0))
    for k, factor in enumerate((1, 0.5, 0.5, scale**2)):
        assert layer.W[k].var().item() == pytest.approx(factor / d, rel=0.03)
    assert layer.v.var().item() == pytest.approx(0.5, rel=0.2)
    assert not layer.b[0].any()
    assert (layer.b[1] == -1).all()


@pytest.mark.parametrize("d", [4, 8])
def test_sru_initially_preserves_the_variance_of_its_input(d):
    torch.manual_seed(0)
    output, _ = SRU(d, 8)(torch.randn(1000, 200, d))
    assert 0.5 < output[100:].var() < 1.5


def test_sru_normalises_its_outputs():
    output, _ = SRU(3, 4, batch_norm=True, dtype=DOUBLE)(draw(30, 2, 3))
    torch.testing.assert_close(output.mean((0, 1)), torch.zeros(4, dtype=DOUBLE))


@pytest.mark.parametrize("model", [LRU, LinOSS])
def test_state_space_blocks_normalise_before_the_recurrence(model):
    normal, plain = model(4, 4, dtype=DOUBLE), model(4, 4, batch_norm=False, dtype=DOUBLE)
    plain.load_state_dict(normal.state_dict(), strict=False)
    u = 3 + 2 * draw(40, 5, 4)
    x = standardised(u, u.mean((0, 1)), u.var((0, 1), correction=0))
    torch.testing.assert_close(normal(u)[0] - u, plain(x)[0] - x)
    assert len(list(normal.layers[0].norm.parameters())) == (2 if model is LRU else 0)


def test_lru_initialisation_is_uniform_on_a_ring():
    m, P = 50, 4000
    layer = LRU(3, m, state_size=P, r_min=0.6, r_max=0.9, max_phase=1.5).layers[0]
    eigenvalues = torch.complex(*layer.eigenvalues())
    modulus, phase = eigenvalues.abs(), eigenvalues.angle()
    assert 0.6 <= modulus.min() < 0.61
    assert 0.89 < modulus.max() <= 0.9
    assert 0 < phase.min() < 0.01
    assert 1.49 < phase.max() <= 1.5
    assert modulus.square().mean().item() == pytest.approx((0.36 + 0.81) / 2, rel=0.02)  # uniform in area
    torch.testing.assert_close(layer.gamma.exp(), torch.sqrt(1 - modulus**2))
    assert layer.B.var().item() == pytest.approx(1 / (2 * m), rel=0.02)
    assert layer.C.var().item() == pytest.approx(1 / P, rel=0.02)


def test_lru_initialisation_is_finite_on_the_whole_disc():
    for seed in range(20):
        torch.manual_seed(seed)
        assert all(p.isfinite().all() for p in LRU(1, 4, state_size=1000).parameters())


def test_linoss_initialisation():
    layer = LinOSS(3, 16, state_size=400).layers[0]
    ranges = ((layer.A, 0, 1), (layer.step, 0, 1), (layer.B, -0.25, 0.25), (layer.C, -0.05, 0.05))
    for parameter, low, high in ranges:
        margin = 0.02 * (high - low)
        assert low <= parameter.min() < low + margin
        assert high - margin < parameter.max() <= high


@given(A=st.floats(0, 1.9), step=st.floats(-3, 3), implicit=st.booleans())
def test_linoss_damps_or_conserves(A, step, implicit):
    """The eigenvalues of a step have modulus 1/√(1 + Δt² A) if implicit, 1 if symplectic."""
    layer = LinOSS(1, 1, discretisation="im" if implicit else "imex", dtype=DOUBLE).layers[0]
    torch.nn.init.constant_(layer.A, A)
    torch.nn.init.constant_(layer.step, step)
    M, dt = layer.transition()
    determinant = M[0] * M[3] - M[1] * M[2]
    torch.testing.assert_close(determinant, 1 / (1 + dt**2 * A) if implicit else torch.ones_like(dt))
    assert ((M[0] + M[3]).square() <= 4 * determinant + 1e-12).all(), "a rotation, not a stretch"
