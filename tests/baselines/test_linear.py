"""minGRU, LRU and LinOSS: the papers' equations step by step, initialisations, numbers of parameters."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unicornn.baselines import LRU, LinOSS, MinGRU

DOUBLE = torch.float64
sizes = st.tuples(*(st.integers(1, 5) for _ in range(6)))
seeds = st.integers(0, 99)


def draw(*shape):
    return torch.randn(shape, dtype=DOUBLE)


def check(model, u, start, published):
    """Output, final state and every gradient are those of ``published(layer, x, state)``, layer by layer."""
    start = [t.requires_grad_() for t in start]
    output, final = model(u.requires_grad_(), start)
    x, ends = u, []
    for l, layer in enumerate(model.layers):
        x, end = published(layer, x, [t[l] for t in start])
        ends.append(end)
    ends = [torch.stack(t) for t in zip(*ends, strict=True)]
    leaves = [u, *start, *model.parameters()]
    results = []
    for shown, states in ((output, final), (x, ends)):
        total = shown.square().sum() + sum(t.sin().sum() for t in states)
        results.append([shown, *states, *torch.autograd.grad(total, leaves)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def mingru(layer, x, state):
    (h,), outputs = state, []
    for x_n in x:
        z = 1 / (1 + torch.exp(-(x_n @ layer.W[1].T + layer.b[1])))
        h = (1 - z) * h + z * (x_n @ layer.W[0].T + layer.b[0])
        outputs.append(h)
    return torch.stack(outputs), [h]


@given(sizes=sizes, seed=seeds)
def test_mingru_is_the_published_one(sizes, seed):
    torch.manual_seed(seed)
    N, b, d, m, L, _ = sizes
    check(MinGRU(d, m, L, dtype=DOUBLE), draw(N, b, d), [draw(L, b, m)], mingru)


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


@given(sizes=sizes, seed=seeds)
def test_lru_is_the_published_one(sizes, seed):
    torch.manual_seed(seed)
    N, b, d, m, L, P = sizes
    model = LRU(d, m, L, state_size=P, batch_norm=False, dtype=DOUBLE)
    check(model, draw(N, b, d), [draw(L, b, P) for _ in range(2)], lru)


def linoss(layer, x, state):
    """The implicit equations are solved by linear algebra, oscillator by oscillator."""
    B, C = torch.complex(*layer.B), torch.complex(*layer.C)
    A, dt = torch.relu(layer.A), torch.sigmoid(layer.step)
    if layer.implicit:  # z_n + Δt A y_n and y_n - Δt z_n are known
        one = torch.ones_like(A)
        left = torch.stack([torch.stack([one, dt * A], -1), torch.stack([-dt, one], -1)], -2).to(B.dtype)

    def recurrence(x):
        z, y, outputs = torch.complex(*state[:2]), torch.complex(*state[2:]), []
        for x_n in x.to(B.dtype):
            kick = dt * (x_n @ B.T)
            if layer.implicit:
                z, y = torch.linalg.solve(left, torch.stack([z + kick, y], -1).unsqueeze(-1)).squeeze(-1).unbind(-1)
            else:
                z = z - dt * A * y + kick
                y = y + dt * z
            outputs.append((y @ C.T).real)
        return torch.stack(outputs), [z.real, z.imag, y.real, y.imag]

    return block(layer, x, recurrence)


@given(discretisation=st.sampled_from(["im", "imex"]), sizes=sizes, seed=seeds)
def test_linoss_is_the_published_one(discretisation, sizes, seed):
    torch.manual_seed(seed)
    N, b, d, m, L, P = sizes
    model = LinOSS(d, m, L, state_size=P, discretisation=discretisation, batch_norm=False, dtype=DOUBLE)
    with torch.no_grad():
        model.layers[0].A -= 0.5  # some below zero, where the relu holds them
    check(model, draw(N, b, d), [draw(L, b, P) for _ in range(4)], linoss)


@pytest.mark.parametrize("model", [LRU, LinOSS])
def test_blocks_normalise_before_the_recurrence(model):
    torch.manual_seed(0)
    normal, plain = model(4, 4, dtype=DOUBLE), model(4, 4, batch_norm=False, dtype=DOUBLE)
    plain.load_state_dict(normal.state_dict(), strict=False)
    u = 3 + 2 * draw(40, 5, 4)
    still = (u - u.mean((0, 1))) / torch.sqrt(u.var((0, 1), correction=0) + 1e-5)
    torch.testing.assert_close(normal(u)[0] - u, plain(still)[0] - still)
    assert len(list(normal.layers[0].norm.parameters())) == (2 if model is LRU else 0)


def test_lru_is_drawn_on_a_ring():
    torch.manual_seed(0)
    m, P = 50, 4000
    layer = LRU(3, m, state_size=P, r_min=0.6, r_max=0.9, max_phase=1.5).layers[0]
    eigenvalues = torch.complex(*layer.eigenvalues())
    modulus, phase = eigenvalues.abs(), eigenvalues.angle()
    assert 0.6 <= modulus.min() < 0.61
    assert 0.89 < modulus.max() <= 0.9
    assert 0 < phase.min() < 0.01
    assert 1.49 < phase.max() <= 1.5
    # uniform in area: |λ|² is uniform
    assert modulus.square().mean().item() == pytest.approx((0.36 + 0.81) / 2, rel=0.02)
    torch.testing.assert_close(layer.gamma.exp(), torch.sqrt(1 - modulus**2))
    assert layer.B.var().item() == pytest.approx(1 / (2 * m), rel=0.02)
    assert layer.C.var().item() == pytest.approx(1 / P, rel=0.02)


def test_lru_is_finite_on_the_whole_disc():
    for seed in range(20):
        torch.manual_seed(seed)
        assert all(p.isfinite().all() for p in LRU(1, 4, state_size=1000).parameters())


def test_linoss_is_drawn_as_published():
    torch.manual_seed(0)
    m, P = 16, 400
    layer = LinOSS(3, m, state_size=P).layers[0]
    for parameter, low, high in (
        (layer.A, 0, 1),
        (layer.step, 0, 1),
        (layer.B, -0.25, 0.25),
        (layer.C, -0.05, 0.05),
    ):
        margin = 0.02 * (high - low)
        assert low <= parameter.min() < low + margin
        assert high - margin < parameter.max() <= high


@given(A=st.floats(0, 1.9), step=st.floats(-3, 3))
def test_linoss_damps_or_conserves(A, step):
    """The eigenvalues of a step: of modulus 1/√(1 + Δt² A) if implicit, 1 if symplectic."""
    for discretisation in ("im", "imex"):
        layer = LinOSS(1, 1, discretisation=discretisation, dtype=DOUBLE).layers[0]
        with torch.no_grad():
            layer.A.fill_(A)
            layer.step.fill_(step)
        M, dt = layer.transition()
        determinant = M[0] * M[3] - M[1] * M[2]
        expected = 1 / (1 + dt**2 * A) if discretisation == "im" else torch.ones_like(dt)
        torch.testing.assert_close(determinant, expected)
        assert ((M[0] + M[3]).square() <= 4 * determinant + 1e-12).all(), "a rotation, not a stretch"


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (MinGRU(3, 8, 2), 2 * 8 * (3 + 1) + 2 * 8 * (8 + 1)),
        # encoder; per layer λ and γ, B and C, D, GLU, normalisation
        (LRU(3, 8, 2, state_size=5), 4 * 8 + 2 * (3 * 5 + 2 * 2 * 8 * 5 + 8 + 2 * 8 * 9 + 2 * 8)),
        # encoder; per layer A and Δt, B and C, D, GLU
        (LinOSS(3, 8, 2, state_size=5), 4 * 8 + 2 * (2 * 5 + 2 * 2 * 8 * 5 + 8 + 2 * 8 * 9)),
    ],
)
def test_number_of_parameters(model, count):
    assert model.free_parameters() == count


@pytest.mark.parametrize(
    ("model", "argument", "value"),
    [
        (LRU, "state_size", 0),
        (LRU, "r_min", 1.0),
        (LRU, "r_max", 1.1),
        (LRU, "max_phase", 7.0),
        (LinOSS, "discretisation", "explicit"),
        (LinOSS, "state_size", 0),
    ],
)
def test_wrong_hyperparameters_are_named(model, argument, value):
    with pytest.raises(ValueError, match=f"{argument}: expected"):
        model(3, 4, **{argument: value})
