"""Three levels: autograd on the reference ⇄ adjoint by hand ⇄ kernels. Output, final state and every gradient."""

from functools import partial

import pytest
import torch

from tests.ops import adjoint
from tests.problems import CASES, COMPILED, GPU, TRITON, Problem, relative
from unicornn import UnICORNN
from unicornn._ops import reference
from unicornn._ops.cpu import driver as cpu
from unicornn._ops.triton import recurrence as gpu
from unicornn._ops.triton.driver import Stack
from unicornn._state import value


class Adjoint(adjoint.Recurrence):
    """With short chunks, like the next: plain PyTorch and the interpreter are slow."""

    limits = adjoint.Recurrence.limits._replace(steps=16)


class Triton(gpu.Recurrence):
    limits = gpu.LIMITS._replace(steps=16)


RUNGS = {
    "adjoint": partial(Stack, recurrence=Adjoint),
    "cpu": cpu.Stack,
    "triton": partial(Stack, recurrence=Triton),
}
LONGEST = adjoint.Recurrence.limits.steps  # for which the cases are written
CHUNK = {"adjoint": Adjoint.limits.steps, "cpu": cpu.LIMITS.steps, "triton": Triton.limits.steps}
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)


def problem(case, rung, dtype):
    """The case, shortened where chunks are shorter, so that it has the same number of them."""
    size = dict(CASES[case])
    spare = LONGEST - CHUNK[rung]
    if spare and size.get("N", 0) > LONGEST:
        size["N"] -= spare
        size["lengths"] = [n - spare for n in size["lengths"]] if "lengths" in size else None
    return Problem(**size, dtype=dtype).to(GPU if rung == "triton" else "cpu")


def climb(p, rung, store):
    """Output, final state and gradients, in the order of ``names``, at this level."""
    Rung = RUNGS[rung]
    arguments = p.arguments(keep="stored" if store else "reversible")
    shapes = (cpu.Stack if rung == "cpu" else Stack).saved_shapes(arguments)
    saved = [torch.empty(shape, dtype=kind, device=p.u.device) for shape, kind in shapes]
    stack = Rung(arguments, saved)
    output, final = stack.forward(), stack.state
    assert not stack.out_of_range
    stack = Rung(arguments._replace(grid=final.long()), saved)
    g = stack.backward(p.g_output, torch.stack([p.g_y, p.g_z]), True)
    assert torch.equal(stack.state.long(), arguments.grid)
    return output, value(final, arguments.rest, p.dtype), p.ordered(g)


def by_autograd(p):
    p = p.double().requiring_grad()
    output, y, z = reference.forward(p.arguments())
    return output.detach(), torch.stack([y, z]).detach(), p.gradients(output, (y, z))


@both_dtypes
@pytest.mark.parametrize("rung", ["adjoint", "cpu", TRITON])
@pytest.mark.parametrize("case", CASES)
def test_rung_agrees_with_autograd_and_reversible_with_stored(case, rung, dtype):
    """The latter bit for bit."""
    p = problem(case, rung, dtype)
    reversible, stored = (climb(p, rung, store) for store in (False, True))
    output, final, gradients = by_autograd(p.to("cpu"))
    bound = 1e-11 if dtype == torch.float64 else 1e-5
    names = ["output", "final state", *p.names()]
    exact, ours, same = (
        [first, second, *rest] for first, second, rest in ((output, final, gradients), reversible, stored)
    )
    for name, x, y, z in zip(names, exact, ours, same, strict=True):
        assert relative(y, x) < bound, name
        assert torch.equal(y, z), name


@pytest.mark.parametrize("backend", ["cpu", "triton"])
@pytest.mark.parametrize("alpha", [0.0, 1.0, 12.5])
def test_float32_kernels_within_1e_5_at_N_1000(alpha, backend):
    if backend == "triton" and not COMPILED:
        pytest.skip("too long for Triton's interpreter; the compiled kernels run this")
    torch.use_deterministic_algorithms(False)  # the reference allocates for each step, and NaN takes time
    device = GPU if backend == "triton" else "cpu"
    layer = UnICORNN(3, 24, 3, dt=0.1, alpha=alpha, skip_layers=2, backend=backend, device=device)
    twin = UnICORNN(3, 24, 3, dt=0.1, alpha=alpha, skip_layers=2, backend="reference", dtype=torch.float64)
    twin.load_state_dict(layer.state_dict())
    u = torch.randn(1000, 2, 3, requires_grad=True)
    v = u.detach().double().requires_grad_()
    weights = torch.randn(1000, 2, 24)
    results = []
    for net, x in ((layer, u), (twin, v)):
        output, (y, z) = net(x.to(net.w[0].device))
        loss = (output * weights.to(output.device)).sum() + y.sum() + z.sum()
        results.append([output, y, z, *torch.autograd.grad(loss, [x, *net.parameters()])])
    for ours, exact in zip(*results, strict=True):
        assert relative(ours.detach(), exact.detach()) < 1e-5
