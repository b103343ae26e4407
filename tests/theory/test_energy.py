"""Energies and volumes: against differentiation, and over a million steps."""

import pytest
import torch

from unicornn import UnICORNN, functional, theory
from unicornn.theory._jacobian import blocks


def layer_of(L=2, m=4, dtype=torch.float64, **options):
    torch.manual_seed(0)
    return UnICORNN(2, m, L, dtype=dtype, **{"dt": 0.1} | options)


@pytest.mark.parametrize("skip_layers", [0, 2])
@pytest.mark.parametrize("form", ["time first", "batch first", "unbatched"])
def test_orbits_are_the_layers_states(form, skip_layers):
    layer = layer_of(4, skip_layers=skip_layers, batch_first=form == "batch first")
    u = torch.randn(*{"time first": (30, 3, 2), "batch first": (3, 30, 2), "unbatched": (30, 2)}[form]).double()
    state = tuple(torch.randn(4, *((4,) if form == "unbatched" else (3, 4))).double() for _ in range(2))
    run = theory.orbits(layer, u, state)
    output, final = layer(u, state)
    for l, orbit in enumerate(run):
        for ours, theirs in ((orbit.y, final.y), (orbit.z, final.z)):
            torch.testing.assert_close(ours[-1].squeeze(0) if form == "unbatched" else ours[-1], theirs[l])
    top = run[-1].y[1:]
    top = {"time first": top, "batch first": top.transpose(0, 1), "unbatched": top.squeeze(1)}[form]
    torch.testing.assert_close(top, output)


def test_orbits_refuse_what_they_do_not_know():
    with pytest.raises(TypeError, match="layer: expected a UnICORNN, got LSTM"):
        theory.orbits(torch.nn.LSTM(2, 3), torch.randn(5, 1, 2))
    with pytest.raises(ValueError, match="bidirectional=False"):
        theory.orbits(UnICORNN(2, 3, bidirectional=True), torch.randn(5, 1, 2))


def test_the_equations_of_motion_are_the_hamiltonians():
    """Eq. (3): y' = ∂H/∂z, z' = -∂H/∂y; also where w = 0."""
    (orbit,) = theory.orbits(layer_of(1), torch.randn(6, 3, 2).double())
    w = orbit.w.clone()
    w[0] = 0
    y, z = (t.clone().requires_grad_() for t in (orbit.y, orbit.z))
    H = theory.energy(orbit._replace(y=y, z=z, w=w)).sum()
    gy, gz = torch.autograd.grad(H, [y, z])
    torch.testing.assert_close(gz[1:], orbit.z[1:])
    torch.testing.assert_close(gy[1:], torch.tanh(w * orbit.y[1:] + orbit.x) + orbit.alpha * orbit.y[1:])


def test_energy_stays_bounded_over_a_million_steps():
    """And the error is of the order of Δt."""
    torch.use_deterministic_algorithms(False)
    spread = {}
    for dt in (0.02, 0.01):
        layer = layer_of(1, dt=dt)
        state = tuple(torch.full((1, 1, 4), v, dtype=torch.float64) for v in (1.0, 0.5))
        H = theory.hamiltonian(layer, torch.ones(1_000_000, 1, 2, dtype=torch.float64), state)[0, :, 0]
        early, late = ((part.max() - part.min()) / H[0].abs() for part in (H[:10_000], H[-10_000:]))
        assert late < 1.02 * early
        spread[dt] = float(early)
    assert 1.8 < spread[0.02] / spread[0.01] < 2.2
    assert spread[0.01] < 0.02


def test_energy_of_explicit_euler_grows():
    layer = layer_of(1, dt=0.05)
    state = tuple(torch.full((1, 1, 4), v, dtype=torch.float64) for v in (1.0, 0.5))
    (orbit,) = theory.orbits(layer, torch.ones(20_000, 1, 2, dtype=torch.float64), state)
    H = theory.energy(theory.explicit_euler(orbit)).sum(-1)[:, 0]
    assert H[-1] > 1e3 * H[0]
    assert theory.energy(orbit).sum(-1).max() < 1.1 * H[0]


@pytest.mark.parametrize("parameter", ["w", "b"])
def test_gradient_orbits_are_gradients(parameter):
    layer, u = layer_of(1), torch.randn(12, 2, 2).double()
    y, z = theory.gradient_orbit(theory.orbits(layer, u)[0], parameter)
    w, V, b, c = (list(letter) for letter in (layer.w, layer.V, layer.b, layer.c))

    def final(θ):
        values = {"w": w, "b": b} | {parameter: [θ]}
        _, state = functional.unicornn(u, functional.Weights(values["w"], V, values["b"], c), dt=layer.dt)
        return torch.stack(list(state))[:, 0]

    J = torch.autograd.functional.jacobian(final, getattr(layer, parameter)[0].detach())
    exact = torch.diagonal(J, dim1=2, dim2=3)
    torch.testing.assert_close(torch.stack([y[-1], z[-1]]), exact)
    assert not (J.sum(-1) - exact).any()  # a neuron's parameter moves that neuron alone


def test_gradients_follow_the_hamiltonian_of_gradients():
    """Eq. (8): y_θ' = ∂H/∂z_θ, z_θ' = -∂H/∂y_θ, as the step does to first order in Δt."""
    layer = layer_of(1, dt=1e-4)
    u = torch.ones(2000, 1, 2, dtype=torch.float64)
    state = tuple(torch.full((1, 1, 4), v, dtype=torch.float64) for v in (1.0, 0.5))
    H = theory.gradient_hamiltonian(layer, u, "b", state)
    assert H.shape == (1, 2000, 1, 4)
    (orbit,) = theory.orbits(layer, u, state)
    y, z = theory.gradient_orbit(orbit, "b")
    force = orbit.slope * (orbit.w * y[:-1] + 1) + orbit.alpha * y[:-1]
    torch.testing.assert_close((z[1:] - z[:-1]) / orbit.a, -force)
    assert H.abs().max() > 1e-5
    with pytest.raises(ValueError, match="parameter: expected one of 'w', 'b', got 'V'"):
        theory.gradient_hamiltonian(layer, u, "V")


def test_jacobian_is_the_derivative_of_a_step():
    layer = layer_of(1, m=3)
    (orbit,) = theory.orbits(layer, torch.randn(5, 1, 2).double())

    def step(y, z, x):
        z = z - orbit.a * (torch.tanh(orbit.w * y + x) + orbit.alpha * y)
        return y + orbit.a * z, z

    B = blocks(orbit)
    for n in range(5):
        J = torch.autograd.functional.jacobian(
            lambda y, z, n=n: step(y, z, orbit.x[n, 0]), (orbit.y[n, 0], orbit.z[n, 0])
        )
        for i in range(2):
            for j in range(2):
                torch.testing.assert_close(torch.diag(B[n, 0, :, i, j]), J[i][j])


@pytest.mark.parametrize("alpha", [0.0, 1.0, 12.5])
def test_phase_space_volume_is_preserved(alpha):
    layer = layer_of(3, alpha=alpha, dt=0.5)
    J = theory.jacobian(layer, torch.randn(200, 3, 2).double() * 5)
    assert J.shape == (3, 200, 3, 4, 2, 2)
    assert (torch.linalg.det(J) - 1).abs().max() < 1e-12
