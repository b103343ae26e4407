"""Orbits, energies and Jacobians: against the layer, against differentiation, and over 100,000 steps."""

import pytest
import torch

from unicornn import UnICORNN, functional, theory


def make_layer(L=2, m=4, **options):
    torch.manual_seed(0)
    return UnICORNN(2, m, L, dtype=torch.float64, **{"dt": 0.1} | options)


def constant_state():
    return tuple(torch.full((1, 1, 4), v, dtype=torch.float64) for v in (1.0, 0.5))


@pytest.mark.parametrize("skip_layers", [0, 2])
@pytest.mark.parametrize("form", ["time first", "batch first", "unbatched"])
def test_orbits_are_the_states_of_the_layer(form, skip_layers):
    layer = make_layer(4, skip_layers=skip_layers, batch_first=form == "batch first")
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


def test_energy_gives_the_equations_of_motion():
    """Eq. (3): y' = ∂H/∂z, z' = -∂H/∂y; also for w = 0."""
    (orbit,) = theory.orbits(make_layer(1), torch.randn(6, 3, 2).double())
    w = orbit.w.clone()
    w[0] = 0
    y, z = (t.clone().requires_grad_() for t in (orbit.y, orbit.z))
    H = orbit._replace(y=y, z=z, w=w).energy().sum()
    gy, gz = torch.autograd.grad(H, [y, z])
    torch.testing.assert_close(gz[1:], orbit.z[1:])
    torch.testing.assert_close(gy[1:], torch.tanh(w * orbit.y[1:] + orbit.x) + orbit.alpha * orbit.y[1:])


def test_energy_stays_in_a_band_of_order_dt_over_100_000_steps():
    torch.use_deterministic_algorithms(False)
    width = {}
    for dt in (0.02, 0.01):
        u = torch.ones(100_000, 1, 2, dtype=torch.float64)
        H = theory.hamiltonian(make_layer(1, dt=dt), u, constant_state())[0, :, 0]
        early, late = ((part.max() - part.min()) / H[0].abs() for part in (H[:10_000], H[-10_000:]))
        assert late < 1.02 * early
        width[dt] = float(early)
    assert 1.8 < width[0.02] / width[0.01] < 2.2
    assert width[0.01] < 0.02


def test_energy_of_explicit_euler_grows():
    u = torch.ones(20_000, 1, 2, dtype=torch.float64)
    (orbit,) = theory.orbits(make_layer(1, dt=0.05), u, constant_state())
    H = orbit.explicit_euler().energy().sum(-1)[:, 0]
    assert H[-1] > 1e3 * H[0]
    assert orbit.energy().sum(-1).max() < 1.1 * H[0]


def test_jacobian_is_the_derivative_of_a_step():
    layer, u = make_layer(1, m=3), torch.randn(5, 1, 2).double()
    (orbit,) = theory.orbits(layer, u)
    J = theory.jacobian(layer, u)[0]
    for n in range(5):

        def step(y, z, n=n):
            state = y.view(1, 1, 3), z.view(1, 1, 3)
            _, (y, z) = functional.unicornn(u[n : n + 1], layer.weights, dt=layer.dt, state=state, backend="reference")
            return y.flatten(), z.flatten()

        derivative = torch.autograd.functional.jacobian(step, (orbit.y[n, 0], orbit.z[n, 0]))
        for i in range(2):
            for j in range(2):
                torch.testing.assert_close(torch.diag(J[n, 0, :, i, j]), derivative[i][j])


@pytest.mark.parametrize("alpha", [0.0, 1.0, 12.5])
def test_phase_space_volume_is_preserved(alpha):
    J = theory.jacobian(make_layer(3, alpha=alpha, dt=0.5), torch.randn(200, 3, 2).double() * 5)
    assert J.shape == (3, 200, 3, 4, 2, 2)
    assert (torch.linalg.det(J) - 1).abs().max() < 1e-12
