"""Forward mode and torch.func are correct on every back-end, or an error; tangents are never silently zero."""

import pytest
import torch
from torch.autograd import forward_ad

from tests.problems import draw
from unicornn import UnICORNN, functional

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script.* is deprecated:DeprecationWarning")  # from torch
BACKENDS = pytest.mark.parametrize("backend", ["cpu", "reference", "auto"])


def make(backend="cpu", **options):
    torch.manual_seed(0)
    layer = UnICORNN(2, 3, 2, dt=0.7, dtype=torch.float64, backend=backend, **options)
    with torch.no_grad():
        for V in layer.V:
            V.normal_()
    return layer


@BACKENDS
@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"dropout": 0.5}], ids=str)
def test_jvp_is_the_transpose_of_vjp(backend, options):
    layer, rows = make(backend, **options), 4 if options.get("bidirectional") else 2
    names, values = zip(*((n, p.detach()) for n, p in layer.named_parameters()), strict=True)

    def f(u, y, z, *values):
        torch.manual_seed(1)
        named = dict(zip(names, values, strict=True))
        output, state = torch.func.functional_call(layer, named, (u, (y, z)), {"lengths": [6, 4]})
        return output, state.y, state.z

    primals = draw(6, 2, 2), draw(rows, 2, 3), draw(rows, 2, 3), *values
    tangents = tuple(map(torch.randn_like, primals))
    out, forward = torch.func.jvp(f, primals, tangents)
    leaves = [t.requires_grad_() for t in primals]
    results = f(*leaves)
    cotangents = [torch.randn_like(t) for t in results]
    back = torch.autograd.grad(results, leaves, cotangents)
    for ours, theirs in zip(out, results, strict=True):
        torch.testing.assert_close(ours, theirs)
    left = sum((t * g).sum() for t, g in zip(forward, cotangents, strict=True))
    right = sum((t * g).sum() for t, g in zip(tangents, back, strict=True))
    torch.testing.assert_close(left, right)
    assert left != 0


@BACKENDS
def test_jacobians_hessians_and_vmap(backend):
    layer, u = make(backend), draw(4, 1, 2)

    def f(u):
        return layer(u, output="last")[0]

    expected = torch.autograd.functional.jacobian(f, u)
    for transform in (torch.func.jacfwd, torch.func.jacrev):
        torch.testing.assert_close(transform(f)(u), expected)
    hessian = torch.func.hessian(lambda u: f(u).square().sum())(u)
    assert hessian.abs().max() > 0
    torch.testing.assert_close(torch.func.vmap(f)(u[None]), f(u)[None])


@BACKENDS
@pytest.mark.parametrize("gradient", [False, True])
def test_dual_numbers(backend, gradient):
    layer, u, t = make(backend), draw(6, 2, 2), draw(6, 2, 2)
    expected = torch.func.jvp(lambda u: layer(u)[0], (u,), (t,))[1]
    one = torch.func.jvp(lambda u: layer(u)[0], (u[:1],), (t[:1],))[1][0]
    with torch.set_grad_enabled(gradient), forward_ad.dual_level():
        dual = forward_ad.make_dual(u, t)
        torch.testing.assert_close(forward_ad.unpack_dual(layer(dual)[0]).tangent, expected)
        step, state = layer.step(forward_ad.make_dual(u[0], t[0]))
        torch.testing.assert_close(forward_ad.unpack_dual(step).tangent, one)
        assert forward_ad.unpack_dual(layer.step(u[1], state)[0]).tangent.any()  # the state carries the tangent
        back = layer.inverse(dual, layer(dual)[1])
        assert forward_ad.unpack_dual(back.y).tangent.abs().max() < 1e-9
        plain, _ = layer(u)  # an input without a tangent
        assert forward_ad.unpack_dual(plain).tangent is None


def test_the_gradient_of_the_mask_is_correct_or_refused():
    layer, u = make(), draw(6, 2, 2)
    mask = torch.rand(2, 2, 3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ValueError, match=r"^mask: "):
        functional.unicornn(u, layer.weights, mask=mask, backend="cpu")

    def f(mask):
        return functional.unicornn(u, layer.weights, mask=mask, backend="reference")[0]

    assert torch.autograd.gradcheck(f, mask)
    with torch.no_grad():
        functional.unicornn(u, layer.weights, mask=mask, backend="cpu")
    tangent = torch.func.jvp(lambda m: functional.unicornn(u, layer.weights, mask=m)[0], (mask,), (mask,))[1]
    assert tangent.any()


def test_a_horizon_has_no_forward_mode():
    layer, u = UnICORNN(2, 3, dtype=torch.float64, horizon=2.0), torch.randn(5, 2, 2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="jvp"):
        torch.func.jvp(lambda u: layer(u)[0], (u,), (torch.ones_like(u),))
    ours = torch.func.grad(lambda u: layer(u)[0].square().sum())(u)
    leaf = u.clone().requires_grad_()
    torch.testing.assert_close(ours, torch.autograd.grad(layer(leaf)[0].square().sum(), leaf)[0])
