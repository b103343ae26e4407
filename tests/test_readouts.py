"""Energies and states as features: their values, lengths, segments, gradients, normalisation."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unicornn import UnICORNN
from unicornn._readouts import FIRST, SMALL, Features, Standardised, energy, log_energies, pieces, readouts
from unicornn.baselines import MODELS
from unicornn.lab._networks import build_network as build
from unicornn.models import Classifier, Network, SequenceToSequence


def plain(y, z, w, alpha):
    """Eq. (4) without input, with the usual functions, one number at a time."""
    potential = math.log(math.cosh(w * y)) / w if w else 0.0
    return z**2 / 2 + alpha / 2 * y**2 + potential


def features(network, u, lengths=None):
    """Before they are standardised."""
    network.features.standardise = network.features.standardise_state = torch.nn.Identity()
    return network.features(network.rnn, u, lengths)


numbers = st.floats(-20, 20)


@given(numbers, numbers, st.floats(-3, 3).filter(lambda w: w == 0 or abs(w) > 1e-3), st.floats(0, 10))
def test_the_energy_is_the_papers(y, z, w, alpha):
    got = energy(*(torch.tensor(v, dtype=torch.float64) for v in (y, z, w)), alpha)
    assert got.item() == pytest.approx(plain(y, z, w, alpha), rel=1e-6, abs=1e-8)


def test_the_limit_of_small_weights():
    """In float32 too, where log cosh divided by w would be noise; and beyond where cosh overflows."""
    y, z = torch.tensor([3.0, 3.0, 3.0, -500.0]), torch.tensor([1.0, 1.0, 1.0, 0.0])
    w = torch.tensor([0.0, 1e-6, -1e-6, 2.0], requires_grad=True)
    E = energy(y, z, w, 0.0)
    torch.testing.assert_close(E, torch.tensor([0.5, 0.5 + 4.5e-6, 0.5 - 4.5e-6, 500 - math.log(2) / 2]))
    (g,) = torch.autograd.grad(E.sum(), w)
    torch.testing.assert_close(g[:3], torch.full((3,), 4.5))  # y² / 2
    assert energy(torch.tensor(3.0), torch.tensor(0.0), torch.tensor(-1.0), 0.0) < 0  # a repulsive force


@pytest.mark.parametrize("lengths", [None, (12, 7, 5)])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_pieces_are_the_sequence(lengths, k):
    u = torch.randn(12, 3, 2)
    ends = None if lengths is None else torch.tensor(lengths)
    parts = list(pieces(u, ends, k))
    for i, n in enumerate(lengths or (12,) * 3):
        own = [piece[: len(piece) if size is None else size[i], i] for piece, size in parts]
        assert torch.equal(torch.cat(own), u[:n, i])
        assert max(map(len, own)) - min(map(len, own)) <= 1


@pytest.mark.parametrize("model", ["unicornn", "lstm", "cornn", "lru", "skip-gru"])
@pytest.mark.parametrize("pool", ["mean", "concat", "moments"])
@pytest.mark.parametrize("start", ["carried", "rest"])
def test_energies_of_segments(model, pool, start):
    """Each sequence by itself, in one go, looked at where it is cut; or each piece by itself."""
    options = {"hidden_size": 5, "num_layers": 2, "readout": "energy", "segments": 3, "segment_pool": pool}
    options["segment_start"] = start
    net = build("classify", model, 2, 3, options).double().eval()
    u, lengths = torch.randn(13, 3, 2, dtype=torch.float64), torch.tensor([13, 7, 3])
    got = features(net, u, lengths)
    for i, n in enumerate(lengths.tolist()):
        at = []
        for begin, cut in ((0, n // 3), (n // 3, 2 * n // 3), (2 * n // 3, n)):
            _, state = net.rnn(u[begin if start == "rest" else 0 : cut, i : i + 1])
            if model == "unicornn":
                E = torch.stack([
                    energy(state.y[l, 0], state.z[l, 0], net.rnn.w[l], net.rnn.alpha) for l in range(2)
                ])  # fmt: skip
            else:
                E = sum(h[:, 0] ** 2 for h in state if h.shape[-1] == 5)
            at.append((E**2 + SMALL**2).sqrt().log().flatten())
        every = torch.stack(at)
        moments = torch.cat([every.mean(0), (every.var(0, correction=0) + SMALL).sqrt()])
        expected = {"concat": every.flatten(), "mean": every.mean(0), "moments": moments}[pool]
        torch.testing.assert_close(got[i], expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("gradient", ["reversible", "stored"])
@pytest.mark.parametrize("pooling", [{}, {"segment_pool": "moments", "segment_start": "rest"}])
def test_gradients(gradient, pooling):
    torch.manual_seed(0)
    rnn = UnICORNN(2, 3, 2, dt=0.7, gradient=gradient, dtype=torch.float64)
    net = Network(rnn, 2, readout="last+mean+energy+state", segments=2, **pooling).double().eval()
    lengths = torch.tensor([6, 4])
    parameters = dict(net.named_parameters())

    def run(u, *values):
        named = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(net, named, (u, lengths))

    u = torch.randn(6, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, (u, *(p.detach().requires_grad_() for p in parameters.values())), atol=1e-4)


def test_a_neuron_at_rest_has_a_finite_gradient():
    net = Classifier(UnICORNN(2, 4, 2), 3, readout="energy")
    net(torch.zeros(5, 3, 2)).sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())


def test_equal_energies_have_a_finite_gradient():
    """Their deviation is zero, where a root's slope is infinite."""
    u = torch.ones(8, 3, 2)
    net = Classifier(UnICORNN(2, 4), 3, readout="energy", segments=2, segment_pool="moments", segment_start="rest")
    net(u).sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())


def test_readouts_side_by_side():
    u, lengths = torch.randn(20, 3, 2), torch.tensor([20, 9, 5])
    net = Classifier(UnICORNN(2, 5, 2), 4, readout=("state", "energy", "mean", "last")).eval()
    assert net.features.readouts == ("last", "mean", "energy", "state")
    assert net.readout.in_features == 5 + 5 + 10 + 20
    found = net.features(net.rnn, u, lengths)
    output, state = net.rnn(u, lengths=lengths)
    torch.testing.assert_close(found[:, :5], output[lengths - 1, torch.arange(3)])
    torch.testing.assert_close(found[:, 5:10], output.sum(0) / lengths[:, None])
    torch.testing.assert_close(found[:, 10:20], net.features.standardise(log_energies(net.rnn, state)))
    of_layers = torch.cat([state.y[0], state.y[1], state.z[0], state.z[1]], 1)
    torch.testing.assert_close(found[:, 20:], net.features.standardise_state(of_layers))
    assert "last+mean+energy+state" in repr(net)


def test_both_directions():
    net = Classifier(UnICORNN(2, 5, 2, bidirectional=True), 4, readout="last+energy+state")
    assert net.readout.in_features == 10 + 20 + 40
    u = torch.randn(20, 3, 2)
    assert net(u).shape == (3, 4)
    state = net.rnn(u)[1]
    both = torch.cat([*state.y, *state.z], 1)  # forwards and backwards, layer by layer
    torch.testing.assert_close(features(net, u)[:, 30:], both)
    with pytest.raises(ValueError, match="segments: expected 1 with both directions, got 2"):
        Classifier(UnICORNN(2, 5, bidirectional=True), 4, readout="energy", segments=2)


def test_one_dropout_mask_for_all_segments():
    rnn, u = UnICORNN(2, 50, 2, dropout=0.5), torch.randn(20, 3, 2)
    cut, whole = (Classifier(rnn, 4, readout="energy", segments=k, segment_pool="concat") for k in (4, 1))
    torch.manual_seed(1)
    at_cuts = features(cut, u)
    torch.manual_seed(1)
    torch.testing.assert_close(at_cuts[:, -100:], features(whole, u))


@pytest.mark.parametrize("readout", ["energy", "state"])
def test_one_step_and_a_batch_of_one(readout):
    net = Classifier(UnICORNN(2, 5), 4, readout=readout)
    for mode in (net.train, net.eval):
        mode()
        assert net(torch.randn(1, 1, 2)).isfinite().all()
        assert net(torch.randn(1, 3, 2)).isfinite().all()


def test_standardised_features():
    norm, x = Standardised(4), 3 + 2 * torch.randn(1000, 4)
    for _ in range(100):
        seen = norm(x)
    torch.testing.assert_close(seen.mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    before = norm.running_mean.clone()
    alone = norm(x[:1])
    assert torch.equal(norm.running_mean, before)  # a batch of one changes nothing
    torch.testing.assert_close(alone, seen[:1], atol=1e-2, rtol=0)
    torch.testing.assert_close(norm.eval()(x), seen, atol=1e-2, rtol=0)


def test_features_standardised_by_the_first_batches():
    """By mean and deviation of all of these together, though each has its own; later batches change nothing."""
    batches = [3 + k % 5 + (1 + k % 3) * torch.randn(8, 2) for k in range(FIRST)]
    norm = Standardised(2, norm="start")
    for batch in batches:
        norm(batch)
    together = torch.cat(batches)
    torch.testing.assert_close(norm.running_mean, together.mean(0))
    torch.testing.assert_close(norm.running_var, together.var(0, correction=0))
    later = torch.randn(4, 2, requires_grad=True)
    expected = (later - together.mean(0)) / (together.var(0, correction=0) + norm.eps).sqrt()
    torch.testing.assert_close(norm(later), expected)
    norm(later).sum().backward()
    assert (later.grad > 0).all()  # the batch's own mean is not taken away
    torch.testing.assert_close(norm.eval()(later), expected)
    network = Classifier(UnICORNN(2, 4), 3, readout="state+energy", feature_norm="start")
    assert (network.features.standardise.norm, network.features.standardise_state.norm) == ("start", "start")


@pytest.mark.parametrize("model", ["unicornn", "lstm", "cornn", "lru", "skip-gru"])
def test_the_state_at_each_sequences_end(model):
    """Each sequence by itself; standardised by hand."""
    net = build("classify", model, 2, 3, {"hidden_size": 5, "num_layers": 2, "readout": "state"}).double().eval()
    norm = net.features.standardise_state
    norm.running_mean.uniform_(-1, 1)
    norm.running_var.uniform_(0.1, 2)
    u, lengths = torch.randn(13, 3, 2, dtype=torch.float64), torch.tensor([13, 7, 3])
    got = net.features(net.rnn, u, lengths)
    for i, n in enumerate(lengths.tolist()):
        _, state = net.rnn(u[:n, i : i + 1])
        own = torch.cat([t[l, 0] for t in state for l in range(2)])
        expected = (own - norm.running_mean) / (norm.running_var + norm.eps).sqrt()
        torch.testing.assert_close(got[i], expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("start", ["carried", "rest"])
def test_the_state_after_segments_is_the_last_ones(start):
    reading = {"readout": "energy+state", "segments": 3, "segment_start": start}
    net = Classifier(UnICORNN(2, 5, 2), 4, **reading).double().eval()
    u, lengths = torch.randn(12, 2, 2, dtype=torch.float64), torch.tensor([12, 6])
    got = features(net, u, lengths)
    assert got.shape == (2, 10 + 20)
    for i, n in enumerate(lengths.tolist()):
        _, state = net.rnn(u[2 * n // 3 if start == "rest" else 0 : n, i : i + 1])
        torch.testing.assert_close(got[i, 10:], torch.cat([*state.y[:, 0], *state.z[:, 0]]))


@pytest.mark.parametrize("model", ["unicornn", "lstm", "cornn"])
def test_the_state_moves_every_layer(model):
    """In training, by its own gradient: the lower layer's part of the state alone reaches the lower layer."""
    net = build("classify", model, 2, 3, {"hidden_size": 5, "num_layers": 2, "readout": "state"})
    net(torch.randn(9, 4, 2)).square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in net.parameters())
    net.zero_grad()
    lower = net.features.size // 2 // len(net.rnn.state_widths)
    net.features(net.rnn, torch.randn(9, 4, 2))[:, :lower].pow(3).sum().backward()
    reached = [name for name, p in net.rnn.named_parameters() if p.grad is not None and p.grad.any()]
    assert reached
    assert not [name for name in reached if ".1" in name]


def test_truncated_back_propagation_with_energies():
    net = Classifier(UnICORNN(2, 5, 2), 3, readout="mean+energy+state").eval()
    u = torch.randn(20, 3, 2, requires_grad=True)
    torch.testing.assert_close(net(u, bptt=4), net(u))
    (g,) = torch.autograd.grad(net(u, bptt=4).sum(), u)
    assert not g[:16].any()
    assert g[16:].any(2).all()
    with pytest.raises(ValueError, match="bptt: expected 0 with 2 segments, got 4"):
        Classifier(UnICORNN(2, 5), 3, readout="energy", segments=2)(u, bptt=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"readout": "energies"}, r"readout: expected one of 'last', 'mean', 'energy', 'state', or .* got 'energies'"),
        ({"readout": ()}, r"readout: expected .* got \(\)"),
        ({"readout": 3}, "readout: expected .* got 3"),
        ({"segments": 2}, "segments: expected 1 without readout='energy', got 2"),
        ({"readout": "energy", "segments": 0}, "segments: expected an integer >= 1, got 0"),
        ({"readout": "energy", "segment_pool": "max"}, "segment_pool: expected one of 'mean', .* got 'max'"),
        ({"readout": "energy", "segment_start": "zero"}, "segment_start: expected one of 'carried', .* got 'zero'"),
    ],
)
def test_what_cannot_be_read(options, message):
    with pytest.raises(ValueError, match=message):
        Classifier(UnICORNN(2, 5), 3, **options)


def test_more_segments_than_steps():
    net = Classifier(UnICORNN(2, 5), 3, readout="energy", segments=4)
    with pytest.raises(ValueError, match="segments: expected at most the 3 steps of the shortest sequence, got 4"):
        net(torch.randn(9, 2, 2), torch.tensor([9, 3]))


def test_mirrored_energies_do_not_know_the_sign():
    rnn, u, lengths = UnICORNN(2, 5, 2, dtype=torch.float64), torch.randn(12, 3, 2).double(), torch.tensor([12, 7, 4])
    for b in rnn.b:
        torch.nn.init.uniform_(b, -1, 1)
    reading = {"readout": "energy", "segments": 3, "segment_start": "rest"}
    net = Classifier(rnn, 4, **reading, mirrored=True).double().eval()
    assert net(u, lengths).shape == (3, 4)
    torch.testing.assert_close(net(-u, lengths), net(u, lengths))
    plain = Classifier(rnn, 4, **reading).double().eval()
    mean = (features(plain, u, lengths) + features(plain, -u, lengths)) / 2
    torch.testing.assert_close(features(net, u, lengths), mean)
    assert "mirrored" in repr(net)


def test_what_cannot_be_mirrored():
    with pytest.raises(ValueError, match="mirrored: expected False but for readout='energy', got True with 'last'"):
        Classifier(UnICORNN(2, 5), 3, mirrored=True)
    with pytest.raises(TypeError, match="mirrored: expected"):
        Classifier(UnICORNN(2, 5), 3, readout="energy", mirrored="yes")
    net = Classifier(UnICORNN(2, 5), 3, readout="energy", mirrored=True)
    with pytest.raises(ValueError, match="bptt: expected 0 with mirrored sequences, got 4"):
        net(torch.randn(9, 2, 2), bptt=4)


def test_a_readout_that_starts_from_zero():
    net = Classifier(UnICORNN(2, 5), 3, readout="energy", readout_init="zero")
    assert not net(torch.randn(9, 2, 2)).any()
    with pytest.raises(ValueError, match="readout_init: expected one of 'kaiming', 'zero', got 'ones'"):
        Classifier(UnICORNN(2, 5), 3, readout_init="ones")


@pytest.mark.parametrize("readout", ["energy", "state"])
def test_every_step_has_its_output_alone(readout):
    with pytest.raises(ValueError, match=f"readout: expected 'last' with an output at every step, got '{readout}'"):
        SequenceToSequence(UnICORNN(2, 5), 3, readout=readout)


def test_names():
    assert readouts("energy+last+energy") == ("last", "energy")
    assert readouts(["mean"]) == ("mean",)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_baseline_has_something_to_square_and_a_state(name):
    rnn = MODELS[name](2, 4, 2)
    net = Features(rnn, "energy+state")
    assert net(rnn, torch.randn(6, 3, 2), None).shape == (3, net.size)
