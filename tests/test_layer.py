"""The interface of the layer beyond that of the baselines, see baselines/test_base.py."""

import copy
import itertools

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_packed_sequence

from unicornn import UnICORNN, UnICORNNCell

both_backends = pytest.mark.parametrize("backend", ["reference", "cpu"])


def test_initialisation_of_appendix_a():
    layer = UnICORNN(200, 300, 4, skip_layers=2, dt=0.3)
    for l in range(4):
        assert 0 <= layer.w[l].min() < 0.1
        assert 0.9 < layer.w[l].max() <= 1
        assert -0.1 <= layer.c[l].min() < -0.05 < 0.05 < layer.c[l].max() <= 0.1
        assert not layer.b[l].any()
        bound = (6 / ((1 + 8**2) * layer.V[l].shape[1])) ** 0.5
        assert 0.9 * bound < layer.V[l].abs().max() <= bound
    assert [None if Λ is None else tuple(Λ.shape) for Λ in layer.Lambda] == [None, None, (300, 200), (300, 300)]
    steps = layer.time_steps()
    assert steps.shape == (4, 300)
    assert 0.3 * 0.47 < steps.min() < steps.max() < 0.3 * 0.53


@pytest.mark.parametrize("bidirectional", [False, True])
def test_initialisation_with_spread_time_scales(bidirectional):
    layer = UnICORNN(2, 500, 2, dt=0.3, init="spread", bidirectional=bidirectional)
    assert 18 < layer.time_steps().max() / layer.time_steps().min() < 20.1
    layer.reset_parameters()
    for c in layer.c:
        assert -3 <= c.min() < -2.8 < 2.8 < c.max() <= 3
        assert 0.4 < (c < 0).float().mean() < 0.6


def test_time_steps_may_be_frozen_and_differ_by_layer():
    layer = UnICORNN(2, 3, 2, dt=(0.1, 0.2), learn_dt=False)
    assert not any(c.requires_grad for c in layer.c)
    torch.testing.assert_close(layer.time_steps()[1], 0.2 * torch.sigmoid(layer.c[1]))
    layer(torch.randn(5, 1, 2))[0].sum().backward()
    assert layer.c[0].grad is None
    assert layer.w[0].grad is not None


@both_backends
def test_requested_outputs(backend):
    layer = UnICORNN(3, 4, 2, backend=backend, dropout=0.5)
    u, lengths = torch.randn(9, 3, 3), torch.tensor([4, 9, 6])

    def run(output):
        torch.manual_seed(1)
        return layer(u, lengths=lengths, output=output)

    whole, final = run("all")
    last, state = run("last")
    torch.testing.assert_close(last, whole[lengths - 1, torch.arange(3)])
    torch.testing.assert_close(state.y, final.y)
    some, _ = run(torch.tensor([3, 0, 0]))
    torch.testing.assert_close(some, whole[[3, 0, 0]])
    steps = torch.tensor([[3, 8, 5], [0, 1, 2]])
    each, _ = run(steps)
    torch.testing.assert_close(each, torch.stack([whole[steps[k], torch.arange(3)] for k in range(2)]))
    (g,) = torch.autograd.grad((each * 2).sum(), layer.w[0], retain_graph=True)
    (expected,) = torch.autograd.grad(2 * sum(whole[steps[k], torch.arange(3)].sum() for k in range(2)), layer.w[0])
    torch.testing.assert_close(g, expected)
    layer.batch_first = True
    u = u.transpose(0, 1)
    assert run(steps)[0].shape == (3, 2, 4)
    assert run(torch.zeros(0, dtype=torch.long))[0].shape == (3, 0, 4)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("enforce_sorted", [False, True])
def test_packed_sequences_as_nn_lstm(bidirectional, enforce_sorted):
    layer, lstm = (kind(3, 4, 2, bidirectional=bidirectional) for kind in (UnICORNN, torch.nn.LSTM))
    lengths = [9, 6, 4] if enforce_sorted else [4, 9, 6]
    sequences = [torch.randn(n, 3) for n in lengths]
    packed = pack_sequence(sequences, enforce_sorted=enforce_sorted)
    output, (y, z) = layer(packed)
    theirs, (h, _) = lstm(packed)
    assert isinstance(output, PackedSequence)
    assert output.data.shape == theirs.data.shape
    assert y.shape == z.shape == h.shape
    for field in ("batch_sizes", "sorted_indices", "unsorted_indices"):
        ours, other = getattr(output, field), getattr(theirs, field)
        assert ours is other is None or torch.equal(ours, other)
    padded, _ = pad_packed_sequence(output)
    for i, sequence in enumerate(sequences):
        alone, state = layer(sequence)
        torch.testing.assert_close(padded[: lengths[i], i], alone)
        torch.testing.assert_close(y[:, i], state.y)
    assert not layer.inverse(packed, layer(packed)[1]).y.any()
    assert layer(packed, output="last")[0].shape == (3, 8 if bidirectional else 4)


def test_variational_dropout():
    layer = UnICORNN(3, 50, 2, dropout=0.4)
    u = torch.randn(30, 6, 3)
    output, state = layer(u)
    assert state.mask.unique().tolist() == pytest.approx([0, 1 / 0.6])
    dropped = output == 0
    assert torch.equal(dropped.all(0), dropped.any(0))  # constant in time
    assert torch.equal(dropped[0], state.mask[-1] == 0)  # after the last layer too
    assert 0.25 < dropped[0].float().mean() < 0.55
    assert not (state.y == 0).any()  # the state itself is not masked


@both_backends
def test_skip_connections_match_the_equation(backend):
    """Suppl. Eq. (75) with S = 2, L = 4 for one step from zero: y = -a² tanh(x)."""
    layer = UnICORNN(3, 5, 4, skip_layers=2, backend=backend, dtype=torch.float64)
    u = torch.randn(1, 1, 3, dtype=torch.float64)
    a, ys = layer.time_steps(), [u[0]]
    for l in range(4):
        x = ys[l] @ layer.V[l].t() + layer.b[l]
        if l >= 2:
            x = x + ys[l - 2] @ layer.Lambda[l].t()
        ys.append(-(a[l] ** 2) * torch.tanh(x))
    torch.testing.assert_close(layer(u)[0][0], ys[-1], rtol=1e-9, atol=1e-13)


@both_backends
def test_bidirectional_is_two_layers(backend):
    layer = UnICORNN(3, 4, 2, bidirectional=True, backend=backend, dt=(0.1, 0.3))
    u, lengths = torch.randn(8, 2, 3), [8, 5]
    output, state = layer(u, lengths=lengths)
    assert output.shape == (8, 2, 8)
    assert state.y.shape == (4, 2, 4)
    sequence = u[:5, 1]
    for l in range(2):
        outputs = []
        for k in range(2):
            i = 2 * l + k
            one = UnICORNN(layer.V[i].shape[1], 4, dt=layer.dt[l], backend="reference")
            one.load_state_dict({f"{n}.0": getattr(layer, n)[i] for n in "wVbc"})
            out, end = one(sequence.flip(0) if k else sequence)
            torch.testing.assert_close(state.y[i, 1], end.y[0])
            outputs.append(out.flip(0) if k else out)
        sequence = torch.cat(outputs, 1)
    torch.testing.assert_close(output[:5, 1], sequence)
    last, _ = layer(u, lengths=lengths, output="last")
    torch.testing.assert_close(last, torch.cat([output[torch.tensor(lengths) - 1, [0, 1], :4], output[0, :, 4:]], 1))
    steps = torch.tensor([[1, 2]])
    torch.testing.assert_close(layer(u, lengths=lengths, output=steps)[0], output[steps, [0, 1]])


@both_backends
def test_cell_steps_match_the_layer(backend):
    layer = UnICORNN(3, 4, dt=0.2, alpha=2.0, backend=backend)
    cell = UnICORNNCell(3, 4, dt=0.2, alpha=2.0, backend=backend)
    cell.load_state_dict({n: getattr(layer, n)[0] for n in "wVbc"})
    u, state = torch.randn(20, 5, 3), None
    outputs = []
    for u_n in u:
        state = cell(u_n, state)
        outputs.append(state[0])
    whole, final = layer(u)
    torch.testing.assert_close(torch.stack(outputs), whole)
    torch.testing.assert_close(state.z, final.z[0])
    alone = cell(u[0, 0], (torch.zeros(4), torch.zeros(4)))
    assert alone.y.shape == (4,)
    torch.testing.assert_close(alone.y, outputs[0][0])
    torch.testing.assert_close(cell(u[1, 0], alone).y, outputs[1][0])
    state.y.sum().backward()
    assert cell.c.grad is not None


def test_half_precision_input_and_autocast_keep_the_state():
    layer = UnICORNN(3, 8, 2)
    u = torch.randn(200, 4, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _, cast = layer(u.bfloat16())  # the output of an autocast layer
    assert cast.y.dtype == torch.float32
    half = copy.deepcopy(layer).bfloat16()
    output, state = half(u.bfloat16())
    assert output.dtype == torch.bfloat16
    assert state.y.dtype == torch.float32
    assert not half.inverse(u.bfloat16(), state).z.any()
    output.sum().backward()
    assert half.w[0].grad.dtype == torch.bfloat16
    for bidirectional, chosen in itertools.product((False, True), ("all", "last", torch.tensor([1]))):
        half = UnICORNN(3, 8, 2, bidirectional=bidirectional, dropout=0.5, dtype=torch.bfloat16)
        assert half(u.bfloat16(), output=chosen)[0].dtype == torch.bfloat16


def test_repr_has_the_settings():
    layer = UnICORNN(2, 3, 2, dt=(0.1, 0.2), skip_layers=2, dropout=0.1)
    assert "2, 3, num_layers=2, dt=(0.1, 0.2), alpha=1.0, dropout=0.1, skip_layers=2" in repr(layer)
