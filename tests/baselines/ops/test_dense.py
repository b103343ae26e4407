"""The kernels of the baselines with dense matrices against their references: every output, state and gradient."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unicornn.baselines import MODELS
from unicornn.baselines._ops.dense import autograd

NAMES = ["cornn", "exprnn", "lem"]
every = pytest.mark.parametrize("name", NAMES)


def evaluate(baseline, u, state, lengths, wanted=("output", "state")):
    """All outputs and final states, and the gradients of a sum over those that are wanted."""
    leaves = [*baseline.parameters(), u.requires_grad_(), *(t.requires_grad_() for t in state)]
    output, final = baseline(u, tuple(state), lengths)
    total = (output.square().sum() if "output" in wanted else 0) + sum(
        t.sin().sum() for t in final if "state" in wanted
    )
    return [output, *final], torch.autograd.grad(total, leaves, materialize_grads=True)


def problem(name, N, b, m, L=1, dtype=torch.float64):
    baseline = MODELS[name](3, m, L, dtype=dtype)
    with torch.no_grad():
        for p in baseline.parameters():
            p.add_(0.2 * torch.randn_like(p))
    state = [torch.randn(L, b, m, dtype=dtype) for _ in baseline.state_widths]
    return baseline, torch.randn(N, b, 3, dtype=dtype), state


def same(ours, theirs, tolerance):
    for x, y in zip([*ours[0], *ours[1]], [*theirs[0], *theirs[1]], strict=True):
        scale = float(y.detach().abs().max()) + 1
        torch.testing.assert_close(x.double() / scale, y.double() / scale, rtol=0, atol=tolerance)


def by_reference(*args):
    """The same without the kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(autograd, "suits", lambda x, state: False)
        return evaluate(*args)


@given(
    name=st.sampled_from(NAMES),
    N=st.integers(1, 12),
    b=st.integers(1, 4),
    m=st.sampled_from([1, 2, 5, 32, 67]),
    L=st.integers(1, 2),
    ragged=st.booleans(),
    seed=st.integers(0, 99),
)
def test_kernels_are_the_reference(name, N, b, m, L, ragged, seed):
    torch.manual_seed(seed)
    case = *problem(name, N, b, m, L), torch.randint(1, N + 1, (b,)) if ragged else None
    same(evaluate(*case), by_reference(*case), 1e-9)


@every
def test_single_precision(name):
    baseline, u, state = problem(name, 40, 3, 50, dtype=torch.float32)
    if name == "exprnn":
        baseline.layers[0].b.data.abs_().neg_()  # where modrelu has no jump
    case = baseline, u, state, torch.tensor([40, 7, 1])
    ours = evaluate(*case)
    assert ours[0][0].dtype == torch.float32
    same(ours, by_reference(*case), 1e-5)


@every
@pytest.mark.parametrize("wanted", ["output", "state"])
def test_one_gradient_without_the_other(name, wanted):
    case = *problem(name, 6, 2, 5), None, (wanted,)
    same(evaluate(*case), by_reference(*case), 1e-12)


@every
def test_kernels_pass_gradcheck(name):
    baseline, u, state = problem(name, 3, 2, 2)
    rest = [t.requires_grad_() for t in (u, *state)]

    def run(u, *state):
        output, final = baseline(u, state, torch.tensor([3, 2]))
        return output, *final

    assert torch.autograd.gradcheck(run, rest)


@every
def test_threads_change_no_bit(name):
    case = *problem(name, 9, 5, 20, dtype=torch.float32), torch.arange(5) + 5
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(evaluate(*case)[0])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(x, y) for x, y in zip(*results, strict=True))


@every
def test_what_goes_to_the_reference(name, monkeypatch):
    baseline, u, state = problem(name, 4, 2, 3)
    monkeypatch.setattr(autograd, "_run", None)
    with pytest.raises(TypeError):
        baseline(u)
    output, _ = baseline.bfloat16()(u.bfloat16(), tuple(t.bfloat16() for t in state))
    assert output.dtype == torch.bfloat16
    large, u, _ = problem(name, 1, autograd.LARGEST // 16 + 1, 16)
    assert large(u)[0].isfinite().all()


@every
def test_gradients_are_differentiable_no_further(name):
    baseline, u, _ = problem(name, 3, 1, 2)
    (g,) = torch.autograd.grad(baseline(u.requires_grad_())[0].square().sum(), u, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_vanishing_gradients_become_zero_before_they_are_subnormal():
    baseline = MODELS["lem"](1, 1)
    with torch.no_grad():
        for p in baseline.parameters():
            p.zero_()  # both time steps are a half: adjoints are halved at each step
        baseline.layers[0].V.weight.fill_(1)
    u = torch.zeros(300, 1, 1, requires_grad=True)
    (g,) = torch.autograd.grad(baseline(u)[0][-1].sum(), u)
    size = g[g != 0].abs()
    assert 2.0**-104 < size.min() < 2.0**-90
    assert not g[0].any()
