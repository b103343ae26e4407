"""Readouts: their values, lengths, segments, gradients, normalisation and text."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unicornn import UnICORNN
from unicornn._features import FIRST_BATCHES, Features, Standardise
from unicornn._ops.reference import ENERGY_FLOOR
from unicornn.baselines import MODELS
from unicornn.errors import BadValue
from unicornn.lab._networks import build_network as build
from unicornn.models import Classifier, Network, SequenceToSequence
from unicornn.readouts import USES, Energy, EveryStep, FinalState, Last, Mean, energy, log_energies, parse
from unicornn.streams import Stream


def hamiltonian(y, z, w, alpha):
    """Eq. (4) without input, for plain numbers."""
    potential = math.log(math.cosh(w * y)) / w if w else 0.0
    return z**2 / 2 + alpha / 2 * y**2 + potential


def raw_features(network, u, lengths=None):
    """Features before they are standardised."""
    network.features.norms.update(dict.fromkeys(network.features.norms, torch.nn.Identity()))
    return network.features(network.rnn, u, lengths)


numbers = st.floats(-20, 20)


@given(numbers, numbers, st.floats(-3, 3).filter(lambda w: w == 0 or abs(w) > 1e-3), st.floats(0, 10))
def test_energy_is_eq_4(y, z, w, alpha):
    got = energy(*(torch.tensor(v, dtype=torch.float64) for v in (y, z, w)), alpha)
    assert got.item() == pytest.approx(hamiltonian(y, z, w, alpha), rel=1e-6, abs=1e-8)


def test_energy_for_small_and_large_weights():
    """In float32, where log cosh divided by w would be noise, and where cosh overflows."""
    y, z = torch.tensor([3.0, 3.0, 3.0, -500.0]), torch.tensor([1.0, 1.0, 1.0, 0.0])
    w = torch.tensor([0.0, 1e-6, -1e-6, 2.0], requires_grad=True)
    E = energy(y, z, w, 0.0)
    torch.testing.assert_close(E, torch.tensor([0.5, 0.5 + 4.5e-6, 0.5 - 4.5e-6, 500 - math.log(2) / 2]))
    (g,) = torch.autograd.grad(E.sum(), w)
    torch.testing.assert_close(g[:3], torch.full((3,), 4.5))  # y² / 2
    assert energy(torch.tensor(3.0), torch.tensor(0.0), torch.tensor(-1.0), 0.0) < 0  # a repulsive force


@pytest.mark.parametrize("readout", ["max", "max+energy(segments=3)"])
def test_max_is_that_of_each_sequence(readout):
    network, u, lengths = Network(UnICORNN(2, 3), 1, readout=readout), torch.randn(12, 3, 2), (12, 7, 5)
    features = raw_features(network, u, torch.tensor(lengths))[:, :3]
    for i, n in enumerate(lengths):
        torch.testing.assert_close(features[i], network.rnn(u[:n, i])[0].abs().amax(0))


@pytest.mark.parametrize("lengths", [None, (12, 7, 5)])
def test_moments_of_inputs_are_those_of_each_sequence(lengths):
    network, u = Network(UnICORNN(2, 3), 1, readout="input+last"), torch.randn(12, 3, 2)
    features = raw_features(network, u, lengths and torch.tensor(lengths))[:, 3:]
    for i, n in enumerate(lengths or (12,) * 3):
        expected = torch.cat([u[:n, i].mean(0), u[:n, i].std(0, correction=0)])
        torch.testing.assert_close(features[i], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", ["unicornn", "lstm", "cornn", "lru", "skip-gru"])
@pytest.mark.parametrize("pool", ["mean", "concat", "moments"])
@pytest.mark.parametrize("from_rest", [False, True])
def test_energies_of_segments_and_the_state_after_the_last(model, pool, from_rest):
    """The features of a batch are those of each sequence alone, run up to each cut, or from cut to cut."""
    readout = Energy(segments=3, pool=pool, from_rest=from_rest) + FinalState()
    net = build("classify", model, 2, 3, {"hidden_size": 5, "num_layers": 2, "readout": readout}).double().eval()
    u, lengths = torch.randn(13, 3, 2, dtype=torch.float64), torch.tensor([13, 7, 3])
    got = raw_features(net, u, lengths)
    for i, n in enumerate(lengths.tolist()):
        at = []
        for begin, cut in ((0, n // 3), (n // 3, 2 * n // 3), (2 * n // 3, n)):
            _, state = net.rnn(u[begin if from_rest else 0 : cut, i : i + 1])
            if model == "unicornn":
                E = torch.stack([
                    energy(state.y[l, 0], state.z[l, 0], net.rnn.w[l], net.rnn.alpha) for l in range(2)
                ])  # fmt: skip
            else:
                E = sum(h[:, 0] ** 2 for h in state if h.shape[-1] == 5)
            at.append((E**2 + ENERGY_FLOOR**2).sqrt().log().flatten())
        every = torch.stack(at)
        moments = torch.cat([every.mean(0), (every.var(0, correction=0) + ENERGY_FLOOR).sqrt()])
        expected = {"concat": every.flatten(), "mean": every.mean(0), "moments": moments}[pool]
        last = torch.cat([t[l, 0] for t in state for l in range(2)])
        torch.testing.assert_close(got[i], torch.cat([expected, last]), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("gradient", ["reversible", "stored"])
@pytest.mark.parametrize("options", [{}, {"pool": "moments", "from_rest": True}])
def test_gradients(gradient, options):
    torch.manual_seed(1)
    rnn = UnICORNN(2, 3, 2, dt=0.7, gradient=gradient, dtype=torch.float64)
    net = Network(rnn, 2, readout=Last() + Mean() + Energy(segments=2, **options) + FinalState()).double().eval()
    lengths = torch.tensor([6, 4])
    parameters = dict(net.named_parameters())

    def run(u, *values):
        named = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(net, named, (u, lengths))

    u = torch.randn(6, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, (u, *(p.detach().requires_grad_() for p in parameters.values())), atol=1e-4)


@pytest.mark.parametrize("readout", [Energy(), Energy(segments=2, pool="moments", from_rest=True)])
@pytest.mark.parametrize("level", [0.0, 1.0])
def test_gradients_are_finite_at_rest_and_for_equal_segments(readout, level):
    net = Classifier(UnICORNN(2, 4, 2), 3, readout=readout)
    net(torch.full((8, 3, 2), level)).sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())


def test_a_combination_has_its_parts_side_by_side():
    u, lengths = torch.randn(20, 3, 2), torch.tensor([20, 9, 5])
    net = Classifier(UnICORNN(2, 5, 2), 4, readout=FinalState() + Energy() + Mean() + Last()).eval()
    assert [part.name for part in net.readout.parts] == ["last", "mean", "energy", "state"]
    assert net.linear.in_features == net.readout.size(net.rnn) == 5 + 5 + 10 + 20
    found = net.features(net.rnn, u, lengths)
    output, state = net.rnn(u, lengths=lengths)
    torch.testing.assert_close(found[:, :5], output[lengths - 1, torch.arange(3)])
    torch.testing.assert_close(found[:, 5:10], output.sum(0) / lengths[:, None])
    norms = net.features.norms
    torch.testing.assert_close(found[:, 10:20], norms["energy"](log_energies(net.rnn, state)))
    of_layers = torch.cat([state.y[0], state.y[1], state.z[0], state.z[1]], 1)
    torch.testing.assert_close(found[:, 20:], norms["state"](of_layers))
    mean, scale = net.features.standardisation()
    torch.testing.assert_close(((raw_features(net, u, lengths) - mean) * scale).float(), found)
    assert "last+mean+energy+state" in repr(net)


def test_both_directions():
    net = Classifier(UnICORNN(2, 5, 2, bidirectional=True), 4, readout="last+energy+state")
    assert net.linear.in_features == 10 + 20 + 40
    u = torch.randn(20, 3, 2)
    assert net(u).shape == (3, 4)
    state = net.rnn(u)[1]
    both = torch.cat([*state.y, *state.z], 1)  # forwards and backwards, layer by layer
    torch.testing.assert_close(raw_features(net, u)[:, 30:], both)


def test_all_segments_have_the_same_dropout_mask():
    rnn, u = UnICORNN(2, 50, 2, dropout=0.5), torch.randn(20, 3, 2)
    divided, undivided = (Classifier(rnn, 4, readout=Energy(segments=k, pool="concat")) for k in (4, 1))
    torch.manual_seed(1)
    at_cuts = raw_features(divided, u)
    torch.manual_seed(1)
    torch.testing.assert_close(at_cuts[:, -100:], raw_features(undivided, u))


@pytest.mark.parametrize("readout", ["energy", "state"])
def test_one_step_and_a_batch_of_one(readout):
    net = Classifier(UnICORNN(2, 5), 4, readout=readout)
    for mode in (net.train, net.eval):
        mode()
        assert net(torch.randn(1, 1, 2)).isfinite().all()
        assert net(torch.randn(1, 3, 2)).isfinite().all()


def test_standardise_by_each_batch():
    norm, x = Standardise(4), 3 + 2 * torch.randn(1000, 4)
    for _ in range(100):
        seen = norm(x)
    torch.testing.assert_close(seen.mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    before = norm.running_mean.clone()
    alone = norm(x[:1])
    assert torch.equal(norm.running_mean, before)  # a batch of one changes nothing
    torch.testing.assert_close(alone, seen[:1], atol=1e-2, rtol=0)
    torch.testing.assert_close(norm.eval()(x), seen, atol=1e-2, rtol=0)


def test_standardise_by_the_first_batches():
    """Mean and variance are those of all first batches together; later batches change nothing."""
    batches = [3 + k % 5 + (1 + k % 3) * torch.randn(8, 2) for k in range(FIRST_BATCHES)]
    norm = Standardise(2, norm="start")
    for batch in batches:
        norm(batch)
    together = torch.cat(batches)
    torch.testing.assert_close(norm.running_mean, together.mean(0))
    torch.testing.assert_close(norm.running_var, together.var(0, correction=0))
    later = torch.randn(4, 2, requires_grad=True)
    expected = (later - together.mean(0)) / (together.var(0, correction=0) + norm.eps).sqrt()
    torch.testing.assert_close(norm(later), expected)
    norm(later).sum().backward()
    assert (later.grad > 0).all()  # the mean of the batch is not subtracted
    torch.testing.assert_close(norm.eval()(later), expected)
    network = Classifier(UnICORNN(2, 4), 3, readout=FinalState(norm="start") + Energy())
    assert {name: norm.norm for name, norm in network.features.norms.items()} == {"energy": "batch", "state": "start"}


@pytest.mark.parametrize("model", ["unicornn", "lstm", "cornn", "lru", "skip-gru"])
def test_the_final_state_is_that_of_each_sequence_alone(model):
    net = build("classify", model, 2, 3, {"hidden_size": 5, "num_layers": 2, "readout": "state"}).double().eval()
    norm = net.features.norms["state"]
    norm.running_mean.uniform_(-1, 1)
    norm.running_var.uniform_(0.1, 2)
    u, lengths = torch.randn(13, 3, 2, dtype=torch.float64), torch.tensor([13, 7, 3])
    got = net.features(net.rnn, u, lengths)
    for i, n in enumerate(lengths.tolist()):
        _, state = net.rnn(u[:n, i : i + 1])
        own = torch.cat([t[l, 0] for t in state for l in range(2)])
        expected = (own - norm.running_mean) / (norm.running_var + norm.eps).sqrt()
        torch.testing.assert_close(got[i], expected, atol=1e-9, rtol=1e-9)


def test_mirrored_energies_do_not_depend_on_the_sign():
    rnn, u, lengths = UnICORNN(2, 5, 2, dtype=torch.float64), torch.randn(12, 3, 2).double(), torch.tensor([12, 7, 4])
    for b in rnn.b:
        torch.nn.init.uniform_(b, -1, 1)
    net = Classifier(rnn, 4, readout=Energy(3, from_rest=True, mirrored=True)).double().eval()
    assert net(u, lengths).shape == (3, 4)
    torch.testing.assert_close(net(-u, lengths), net(u, lengths))
    plain = Classifier(rnn, 4, readout=Energy(3, from_rest=True)).double().eval()
    mean = (raw_features(plain, u, lengths) + raw_features(plain, -u, lengths)) / 2
    torch.testing.assert_close(raw_features(net, u, lengths), mean)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_baseline_has_energies_and_a_final_state(name):
    rnn = MODELS[name](2, 4, 2)
    net = Features(rnn, Energy() + FinalState())
    assert net(rnn, torch.randn(6, 3, 2), None).shape == (3, net.size)


# Text, and what is rejected

NORMS = st.sampled_from([None, "batch", "start"])
EVERY = st.builds(
    Energy, st.integers(1, 99), st.booleans(), st.sampled_from(["mean", "moments", "concat"]), st.just(False), NORMS
)


@given(
    st.sets(st.builds(lambda kind, norm: kind(norm), st.sampled_from([Last, Mean, FinalState]), NORMS)),
    EVERY,
)
def test_parsing_the_text_of_a_readout_restores_it(others, energies):
    if len({type(each) for each in others}) < len(others):
        return
    readout = energies
    for other in others:
        readout = readout + other
    assert parse(repr(readout)) == readout


def test_texts():
    assert repr(Energy() + Last() + Energy()) == "last+energy"
    assert repr(parse(" energy(segments=8, from_rest=True, pool='moments')+last")) == (
        "last+energy(segments=8, from_rest=True, pool='moments')"
    )
    assert parse("state(norm=start)") == FinalState(norm="start")  # quotes are optional
    assert parse(EveryStep()) == parse("every_step")
    assert repr(parse("every_step(state=True)")) == "every_step(state=True)"


@pytest.mark.parametrize("lengths", [None, (9, 4)])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_state_at_every_step_is_the_final_state_of_the_beginning(lengths, dropout):
    torch.manual_seed(0)
    options = {"dt": (0.3, 0.5, 0.7), "skip_layers": 2, "horizon": 50.0, "dropout": dropout, "dtype": torch.float64}
    rnn, u = UnICORNN(2, 5, 3, **options), torch.randn(9, 2, 2, dtype=torch.float64, requires_grad=True)
    ends = None if lengths is None else torch.tensor(lengths)
    torch.manual_seed(1)
    states = Features(rnn, EveryStep(state=True))(rnn, u, ends)
    assert states.shape == (9, 2, 30)
    expected = []
    for n in range(1, 10):
        torch.manual_seed(1)
        expected.append(torch.cat([t.transpose(0, 1).flatten(1) for t in rnn(u[:n])[1]], 1))
    expected = torch.stack(expected)
    if lengths is not None:
        expected = torch.where((torch.arange(9)[:, None] < ends)[:, :, None], expected, 0.0)
    torch.testing.assert_close(states, expected, rtol=1e-9, atol=1e-9)
    weight, wanted = torch.randn_like(states), [u, *rnn.parameters()]
    got, right = (torch.autograd.grad((weight * each).sum(), wanted) for each in (states, expected))
    torch.testing.assert_close(got, right, rtol=1e-7, atol=1e-9)


def test_the_state_at_every_step_in_a_stream():
    network = SequenceToSequence(UnICORNN(2, 5, 2, dt=0.4), 3, readout="every_step(state=True)").eval()
    u = torch.randn(12, 1, 2)
    answers = Stream(network).push({"a": u[:, 0]}, return_all=True)["a"]
    torch.testing.assert_close(torch.as_tensor(answers), network(u)[:, 0].detach(), rtol=1e-4, atol=1e-5)


def test_combinations_that_are_rejected():
    for rnn in (UnICORNN(2, 5, bidirectional=True), MODELS["lstm"](2, 5)):
        with pytest.raises(BadValue, match=r"^state: "):
            Network(rnn, 2, readout=EveryStep(state=True))
    for one, other in ((Energy(), Energy(2)), (EveryStep(), Last()), (Energy(mirrored=True), Last())):
        with pytest.raises(BadValue, match=r"^readout: "):
            one + other
    with pytest.raises(BadValue, match=r"^segments: "):
        Classifier(UnICORNN(2, 5, bidirectional=True), 4, readout=Energy(segments=2))
    with pytest.raises(BadValue, match=r"^segments: "):
        Classifier(UnICORNN(2, 5), 3, readout=Energy(segments=4))(torch.randn(9, 2, 2), torch.tensor([9, 3]))


@pytest.mark.parametrize(
    ("readout", "uses"),
    [(Last(), ()), (FinalState(), ()), (Mean(), ("step",)), (Energy(2), ("bptt", "step", "stream")),
     (Last() + Energy(2), ("bptt", "step", "stream")), (EveryStep(), ("bptt", "frames", "page", "patch")),
     (EveryStep(state=True), ("bptt", "frames", "page", "patch", "sequence", "step")),
     (Energy(mirrored=True), ("bptt", "frames", "page", "step", "stream"))],
)  # fmt: skip
def test_uses_that_a_readout_rejects(readout, uses):
    for use in USES:
        if use in uses:
            with pytest.raises(BadValue, match=r"^model: expected a readout that supports .* which "):
                readout.check(use, "model")
        else:
            readout.check(use, "model")
