"""The interface that every baseline shares with UnICORNN: input forms, lengths, states, dropout."""

import copy
import functools
import importlib.util

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

from tests.problems import draw
from unicornn import State, UnICORNN
from unicornn.baselines import MODELS
from unicornn.baselines._base import SequenceNorm, within

N, b, d, m, L = 7, 4, 3, 6, 2
lengths = torch.tensor([7, 2, 1, 5])
unavailable = {"sign-ncde"} if importlib.util.find_spec("pysiglib") is None else set()
skipped = pytest.mark.skip(reason="pysiglib is not installed")
names = [pytest.param(name, marks=skipped) if name in unavailable else pytest.param(name) for name in MODELS]
every = pytest.mark.parametrize("name", names)
OURS = {"unicornn": UnICORNN, "unicornn, reference": functools.partial(UnICORNN, backend="reference")}
and_ours = pytest.mark.parametrize("name", [*names, *OURS])
# Finite differences see the jumps of a binary gate, the straight-through gradient does not.
smooth = pytest.mark.parametrize("name", [name for name in names if not name.values[0].startswith("skip")])


def make(name, num_layers=L, **options):
    """In eval(), because batch statistics would make the sequences of a batch depend on each other."""
    return (MODELS | OURS)[name](d, m, num_layers, dtype=torch.float64, **options).eval()


def start(baseline, batch=b):
    """A random state of the right shapes, with values in the range of probabilities."""
    _, state = baseline(draw(1, batch, d))
    return tuple(torch.rand_like(t) for t in state)


def close(x, y):
    torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-11)


@and_ours
def test_forms_of_input(name):
    baseline, first = make(name), make(name, batch_first=True)
    first.load_state_dict(baseline.state_dict())
    u = draw(N, b, d)
    output, state = baseline(u)
    assert output.shape == (N, b, m)
    assert isinstance(state, State)
    assert state[0].shape == (L, b, m)
    assert all(t.shape[:2] == (L, b) for t in state)
    swapped, same = first(u.transpose(0, 1))
    close(swapped.transpose(0, 1), output)
    for t, s in zip(same, state, strict=True):
        close(t, s)
    alone, one = baseline(u[:, 2])
    close(alone, output[:, 2])
    for t, s in zip(one, state, strict=True):
        close(t, s[:, 2])
    again, _ = baseline(u[:, 2], one)
    close(again, baseline(u, state)[0][:, 2])
    wide = draw(N, b, 2 * d)[..., ::2]
    close(baseline(wide)[0], baseline(wide.contiguous())[0])


@and_ours
def test_last_is_the_output_at_each_end(name):
    for batch_first in (False, True):
        baseline = make(name, batch_first=batch_first)
        u = draw(N, b, d)
        given_u = u.transpose(0, 1) if batch_first else u
        output, _ = baseline(given_u, lengths=lengths)
        output = output.transpose(0, 1) if batch_first else output
        last, _ = baseline(given_u, lengths=lengths, output="last")
        close(last, output[lengths - 1, torch.arange(b)])
        close(baseline(given_u, output="last")[0], baseline(given_u)[0].select(int(batch_first), -1))
    assert baseline(u[:, 0], output="last")[0].shape == (m,)


@given(
    name=st.sampled_from([name for name in (*MODELS, *OURS) if name not in unavailable]),
    cut=st.integers(1, N - 1),
    seed=st.integers(0, 99),
)
def test_continuing_from_a_state_equals_one_run(name, cut, seed):
    torch.manual_seed(seed)
    baseline, u = make(name), draw(N, b, d)
    begin = start(baseline)
    whole, final = baseline(u, begin)
    head, state = baseline(u[:cut], begin)
    tail, same = baseline(u[cut:], state)
    close(torch.cat([head, tail]), whole)
    for t, s in zip(same, final, strict=True):
        close(t, s)


@and_ours
@pytest.mark.parametrize("lengths", [[7, 2, 1, 5], [3, 1, 4, 4]], ids=["some end", "all end"])
def test_sequences_of_a_batch_are_independent(name, lengths):
    baseline = make(name)
    u = draw(N, b, d)
    for i, end in enumerate(lengths):
        u[end:, i] = torch.nan
    u.requires_grad_()
    begin = start(baseline)
    output, final = baseline(u, begin, lengths)
    for i, end in enumerate(lengths):
        alone, state = baseline(u[:end, i], tuple(t[:, i] for t in begin))
        close(output[:end, i], alone)
        assert not output[end:, i].any()
        for t, s in zip(final, state, strict=True):
            close(t[:, i], s)
    gradients = torch.autograd.grad(output.sum() + sum(t.sum() for t in final), [u, *baseline.parameters()])
    for g in gradients:
        assert g.isfinite().all()
    for i, end in enumerate(lengths):
        assert not gradients[0][end:, i].any()
    assert gradients[0].any()


@smooth
def test_gradients_of_input_state_and_parameters(name):
    baseline, u = make(name), draw(4, 2, d).requires_grad_()
    names, values = zip(*baseline.named_parameters(), strict=True)
    begin = [t.requires_grad_() for t in start(baseline, 2)]

    def run(u, *rest):
        state, parameters = rest[: len(begin)], dict(zip(names, rest[len(begin) :], strict=True))
        ends = torch.tensor([4, 2])
        output, final = torch.func.functional_call(baseline, parameters, (u, state, ends))
        return output, *final

    assert torch.autograd.gradcheck(run, (u, *begin, *values), fast_mode=True)


@and_ours
def test_dropout_is_one_mask_per_sequence_and_layer_and_part_of_the_state(name):
    baseline, u = make(name, 1, dropout=0.5).train(), draw(N, b, d)
    output, state = baseline(u)
    baseline.dropout = 0.0
    plain, _ = baseline(u)
    mask = state.mask[0]
    assert set(mask.flatten().tolist()) == {0.0, 2.0}
    close(output, plain * mask)
    baseline.dropout = 0.5
    baseline.eval()
    assert baseline(u)[1].mask is None
    again, _ = baseline(u)
    close(again, baseline(u)[0])
    baseline = make(name, dropout=0.5).train()
    _, state = baseline(u)
    _, after = baseline(u, state.detach())
    assert torch.equal(after.mask, state.mask)
    assert not torch.equal(baseline(u, tuple(state))[1].mask, state.mask)
    _, alone = baseline(u[:, 0])
    assert torch.equal(baseline(u[:, 0], alone)[1].mask, alone.mask)
    assert alone.mask.shape == (L, m)


@every
def test_copies_and_saved_parameters_give_the_same_output(name):
    baseline, other, u = make(name), make(name), draw(N, b, d)
    other.load_state_dict(baseline.state_dict())
    output, state = baseline(u)
    close(other(u)[0], output)
    close(copy.deepcopy(baseline)(u)[0], output)
    assert type(copy.deepcopy(state.detach())) is State
    assert all(t is s for t, s in zip(pytree.tree_leaves(state), state, strict=True))
    assert repr(baseline).startswith(f"{type(baseline).__name__}(\n  {d}, {m}, num_layers={L}")


@every
def test_parameters_are_reset_and_counted(name):
    baseline = make(name)
    before = [p.clone() for p in baseline.parameters()]
    with torch.no_grad():
        for p in baseline.parameters():
            p.fill_(torch.nan)
    baseline.reset_parameters()
    after = list(baseline.parameters())
    assert all(p.isfinite().all() for p in after)
    assert any(not torch.equal(p, q) for p, q in zip(before, after, strict=True))
    assert 0 < baseline.free_parameters() <= sum(p.numel() for p in after)


@every
def test_published_initialisation_is_finite_over_a_thousand_steps(name):
    baseline = MODELS[name](d, 64).eval()
    last, _ = baseline(torch.rand(1000, 2, d), output="last")
    assert last.isfinite().all()
    for g in torch.autograd.grad(last.sum(), list(baseline.parameters())):
        assert g.isfinite().all()


def test_normalisation_ignores_the_padding():
    x, ends = draw(6, 3, 4), torch.tensor([6, 1, 3])
    norm, plain = SequenceNorm(4, dtype=torch.float64), torch.nn.BatchNorm1d(4, dtype=torch.float64)
    inside = within(6, ends).squeeze(-1)
    result = norm(torch.where(inside[..., None], x, 1e6), ends)
    torch.testing.assert_close(result[inside], plain(x[inside]))
    assert not result[~inside].any()
    torch.testing.assert_close(norm.running_var, plain.running_var)
    torch.testing.assert_close(norm(x), plain(x.flatten(0, 1)).view(6, 3, 4))
    assert torch.autograd.gradcheck(lambda x: norm(x, ends), x.requires_grad_())
