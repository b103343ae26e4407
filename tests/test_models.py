"""Networks: outputs, patches, words, truncated back-propagation."""

import pytest
import torch

from unicornn import UnICORNN
from unicornn.baselines import MODELS
from unicornn.errors import BadValue
from unicornn.lab._networks import build_network as build
from unicornn.models import Classifier, Regressor, SequenceToSequence, TextClassifier, count, patched


@pytest.mark.parametrize("patch", [1, 4])
@pytest.mark.parametrize("readout", ["last", "mean"])
@pytest.mark.parametrize("model", ["unicornn", "lstm"])
def test_the_output_of_a_sequence_does_not_depend_on_the_batch(model, readout, patch):
    net = build("classify", model, 2, 3, {"hidden_size": 5, "patch": patch, "readout": readout})
    assert net.rnn.input_size == 2 * patch
    u, lengths = torch.randn(20, 4, 2), torch.tensor([20, 9, 1, 5])
    together = net(u, lengths)
    for i, n in enumerate(lengths):
        torch.testing.assert_close(together[i : i + 1], net(u[:n, i : i + 1]))
        if readout == "mean" and patch == 1:
            torch.testing.assert_close(together[i : i + 1], net.linear(net.rnn(u[:n, i : i + 1])[0].mean(0)))


@pytest.mark.parametrize("model", ["unicornn", "lstm", "cornn", "mingru"])
@pytest.mark.parametrize("lengths", [None, (20, 11, 17)])
@pytest.mark.parametrize("readout", ["last", "mean", "energy+state"])
def test_truncated_back_propagation(model, lengths, readout):
    """The output is that of the whole sequence; the gradient stops where it is cut."""
    net = build("classify", model, 2, 3, {"hidden_size": 5, "readout": readout}).eval()
    u = torch.randn(20, 3, 2, requires_grad=True)
    ends = None if lengths is None else torch.tensor(lengths)
    full, truncated = net(u, ends), net(u, ends, bptt=4)
    torch.testing.assert_close(truncated, full)
    (g,) = torch.autograd.grad(truncated.sum(), u)
    for i, n in enumerate(lengths or (20, 20, 20)):
        assert not g[: n - 4, i].any()
        assert g[n - 4 : n, i].any(1).all()
        assert not g[n:, i].any()
    assert torch.equal(net(u, ends, bptt=20), full)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("readout", ["last", "last(norm=batch)+mean(norm=start)+energy+state(norm=None)"])
def test_the_head_has_the_dtype_of_the_layers(dtype, readout):
    net = Regressor(UnICORNN(2, 5, 2, dtype=dtype), 3, readout=readout, head_size=4)
    u = torch.randn(20, 4, 2, dtype=dtype)
    for network in (net, net.eval(), net.float().to(dtype)):
        assert network(u).dtype == dtype
    text = TextClassifier(UnICORNN(4, 5, dtype=dtype), 2, vectors=torch.randn(9, 4))
    assert text(torch.randint(9, (20, 3))).dtype == dtype


def test_a_delayed_xor_is_learned():
    """The XOR of two signs, half a sequence apart, from the final state; noise in the second channel."""
    torch.manual_seed(0)
    net = Classifier(UnICORNN(2, 32, dt=0.2, init="spread"), 2, readout="state", head_size=32)
    optimiser = torch.optim.Adam(net.parameters(), 5e-3)
    for _ in range(120):
        bits, u = torch.randint(2, (2, 64)), torch.randn(200, 64, 2)
        u[:, :, 0] = 0
        u[:5, :, 0], u[100:105, :, 0] = 2 * bits - 1.0
        scores = net(u)
        torch.nn.functional.cross_entropy(scores, bits[0] ^ bits[1]).backward()
        optimiser.step()
        optimiser.zero_grad()
    assert (scores.argmax(1) == bits[0] ^ bits[1]).float().mean() > 0.95


def test_a_hidden_layer_in_the_head():
    net, u = Classifier(UnICORNN(2, 5), 3, head_size=4), torch.randn(20, 6, 2)
    expected = net.linear(net.hidden[0](net.rnn(u)[0][-1]).clamp(min=0))
    torch.testing.assert_close(net(u), expected)
    assert count(net) == count(Classifier(UnICORNN(2, 5), 4)) + 4 * 3 + 3


def test_options_that_are_rejected():
    u, rnn = torch.randn(20, 2, 2), UnICORNN(2, 5)
    for net, lengths in (
        (Classifier(rnn, 3), torch.tensor([20, 3])),
        (SequenceToSequence(rnn, 3), None),
        (Classifier(rnn, 3, readout="energy(segments=2)"), None),
        (Classifier(rnn, 3, readout="energy(mirrored=True)"), None),
    ):
        with pytest.raises(BadValue, match=r"^bptt: "):
            net(u, lengths, bptt=4)
    with pytest.raises(BadValue, match=r"^patch: "):
        build("forecast", "unicornn", 2, 3, {"hidden_size": 5, "patch": 4})


@pytest.mark.parametrize("lengths", [None, (10, 7, 4, 1)])
@pytest.mark.parametrize("k", [3, 4, 20])
def test_patches_are_the_same_numbers(lengths, k):
    u = torch.randn(10, 4, 2)
    ends = torch.tensor(lengths or (10,) * 4)
    if lengths:
        u = u.masked_fill((torch.arange(10)[:, None] >= ends)[:, :, None], torch.nan)
    short, n = patched(u, ends if lengths else None, k)
    assert short.shape == (-(-10 // k), 4, 2 * k)
    for i, end in enumerate(ends.tolist()):
        assert torch.equal(short[:, i].reshape(-1, 2)[:end], u[:end, i])
        assert not short[:, i].reshape(-1, 2)[end:].any()
        assert n is None or n[i] == -(-end // k)


def test_initial_biases_break_the_symmetry():
    u = torch.randn(20, 3, 2)
    odd = build("classify", "unicornn", 2, 3, {"hidden_size": 5})
    torch.testing.assert_close(odd(-u), -odd(u))
    net = build("classify", "unicornn", 2, 3, {"hidden_size": 5, "num_layers": 2, "b_init": 0.5})
    assert all(0 < b.abs().max() <= 0.5 for b in net.rnn.b)
    assert (net(-u) + net(u)).abs().max() > 1e-4


def test_a_linear_map_that_starts_from_zero():
    assert not Classifier(UnICORNN(2, 5), 3, readout="energy", readout_init="zero")(torch.randn(9, 2, 2)).any()


def test_a_standardised_regression_starts_from_the_mean():
    net = build("regress", "unicornn", 2, 1, {"hidden_size": 5})
    u, targets = torch.randn(10, 3, 2), torch.tensor([60.0, 80.0, 100.0])
    before = net(u)
    net.standardise(targets)
    torch.testing.assert_close(net(u), 80 + 20 * before)


def test_a_dropped_word_is_dropped_everywhere():
    vectors = torch.randn(50, 4)
    net = TextClassifier(UnICORNN(4, 5), 2, vectors=vectors, embedding_dropout=0.5)
    seen = []
    net.rnn.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    words = torch.randint(1, 50, (200, 3))
    net(words)
    dropped = {int(w) for w in words[(seen[0] == 0).all(-1)]}
    kept = {int(w) for w in words[(seen[0] != 0).any(-1)]}
    assert dropped
    assert kept
    assert not dropped & kept
    net.eval()(words)
    torch.testing.assert_close(seen[1], vectors[words])


def test_shapes_and_counts():
    u = torch.randn(7, 4, 3)
    assert Regressor(UnICORNN(3, 5), 1)(u).shape == (4,)
    assert Regressor(UnICORNN(3, 5), 2)(u).shape == (4, 2)
    assert SequenceToSequence(UnICORNN(3, 5), 2)(u).shape == (7, 4, 2)
    assert Classifier(UnICORNN(3, 5, bidirectional=True), 2)(u).shape == (4, 2)
    dense = MODELS["indrnn"](3, 5, 2, connection="dense")
    assert Classifier(dense, 2)(u).shape == (4, 2)
    orthogonal = Classifier(MODELS["exprnn"](3, 5), 2)
    assert count(orthogonal) == 5 * 4 // 2 + 5 * 3 + 5 + 5 * 2 + 2
