"""Frames of energies: their values, lengths, gradients, memory, and networks that read them."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unicornn import UnICORNN
from unicornn.baselines import MODELS
from unicornn.errors import BadType, BadValue
from unicornn.frames import Frames, oscillators
from unicornn.lab._networks import build_network
from unicornn.models import Classifier, Network, SequenceToSequence, count
from unicornn.readouts import log_energies


def frame_by_frame(frames, u):
    """Log energies of every frame of one sequence u (N, d), each frame cut and run by itself."""
    rows = []
    for end in range(frames.hop, len(u) + frames.hop, frames.hop):
        parts = []
        for layer, W in zip(frames.layers, frames.length, strict=True):
            frame = torch.zeros(W, 1, u.shape[1], dtype=u.dtype)
            begin, stop = max(0, end - W), min(end, len(u))
            frame[begin - end + W : stop - end + W, 0] = u[begin:stop]
            parts.append(log_energies(layer, layer(frame)[1], frames.floor))
        rows.append(torch.cat(parts, 1))
    return torch.cat(rows)


def two_resolutions(d, W, hop, dtype=torch.float32):
    return Frames([oscillators(d, 5, W), UnICORNN(d, 3, 2)], [W, W + 4], hop).to(dtype)


@given(
    N=st.integers(1, 40), b=st.integers(1, 4), d=st.integers(1, 3), W=st.integers(1, 12), data=st.data(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)  # fmt: skip
def test_frames_are_those_of_a_loop(N, b, d, W, data, dtype):
    frames = two_resolutions(d, W, data.draw(st.integers(1, W)), dtype)
    u = torch.randn(N, b, d, dtype=dtype)
    features = frames.energies(u)
    assert features.shape == (-(-N // frames.hop), b, frames.size)
    for i in range(b):
        torch.testing.assert_close(features[:, i], frame_by_frame(frames, u[:, i]))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(1, 8))
def test_padding_changes_nothing(lengths, hop):
    frames, u = two_resolutions(2, 8, hop).eval(), torch.randn(30, len(lengths), 2)
    features, counts = frames(u, torch.tensor(lengths))
    for i, n in enumerate(lengths):
        alone, _ = frames(u[:n, i : i + 1])
        assert counts[i] == len(alone)
        torch.testing.assert_close(features[: len(alone), i], alone[:, 0])
        assert not features[len(alone) :, i].any()


def test_padding_is_not_in_the_statistics():
    frames, u = two_resolutions(1, 8, 4, torch.float64), torch.randn(40, 2, 1, dtype=torch.float64)
    features, _ = frames(u, torch.tensor([40, 8]))
    inside = torch.cat([features[:, 0], features[:2, 1]])
    torch.testing.assert_close(inside.mean(0), torch.zeros_like(inside[0]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("lengths", [None, (11, 5)])
def test_centred_energies_have_no_mean_over_frames(lengths):
    frames = Frames(oscillators(1, 5, 6), 6, 4, centre=True).double().eval()
    u, ends = torch.randn(11, 2, 1, dtype=torch.float64), lengths and torch.tensor(lengths)
    features, counts = frames(u, ends)
    for i in range(2):
        mean = features[: 3 if counts is None else counts[i], i].mean(0)
        torch.testing.assert_close(mean, torch.zeros_like(mean), atol=1e-6, rtol=0)


@pytest.mark.parametrize("lengths", [None, (11, 5)])
def test_gradients(lengths):
    torch.manual_seed(0)
    frames = two_resolutions(2, 6, 4, torch.float64)
    lengths = lengths and torch.tensor(lengths)
    parameters = [p for p in frames.parameters() if p.requires_grad]
    u = torch.randn(11, 2, 2, dtype=torch.float64, requires_grad=True)

    def run(u, *_):
        return frames(u, lengths)[0]

    assert torch.autograd.gradcheck(run, (u, *parameters), eps=1e-6, atol=1e-5)


def test_overlapping_frames_are_not_copied():
    """Memory saved for the backward pass does not grow with the number of frames that a step belongs to."""
    u, kept = torch.randn(4096, 2, 3), []
    for hop in (256, 16):
        frames, storages = Frames(oscillators(3, 4, 256), 256, hop), {}

        def keep(t, storages=storages):
            storages[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
            return t

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            frames(u)
        per_frame = 4 * 40 * frames.size * 2 * (4096 // hop)  # states and energies
        kept.append(sum(storages.values()) - per_frame)
    assert kept[1] < 2 * kept[0] + 4 * u.numel()


@pytest.mark.parametrize("model", ["unicornn", "lstm", "lem", "mingru"])
def test_any_layers_in_both_stages(model):
    settings = {"hidden_size": 6, "frames": (8, 16, 4), "frame_size": 5, "frame_model": model, "readout": "mean+max"}
    network = build_network("classify", model, 2, 3, settings)
    u = torch.randn(50, 4, 2)
    output = network(u, torch.tensor([50, 20, 3, 1]))
    output.sum().backward()
    assert output.shape == (4, 3)
    assert network.rnn.input_size == 10
    assert all(p.grad is not None for p in network.parameters() if p.requires_grad)
    assert count(network) == sum(p.numel() for p in network.parameters())


def test_frames_of_frames():
    first = Frames(oscillators(1, 8, 16), 16, 8)
    second = Frames(oscillators(8, 6, 10), 10, 5)
    network = Classifier(UnICORNN(6, 4), 2, frames=[first, second], readout="state")
    output = network(torch.randn(400, 3, 1))
    output.sum().backward()
    assert network.steps(torch.randn(400, 3, 1))[0].shape == (10, 3, 6)
    assert first.layers[0].V[0].grad.abs().sum() > 0


@pytest.mark.slow
def test_a_million_steps_by_frames_of_frames():
    """Memory for gradients is that of the features, and the gradients of the first samples are neither 0 nor huge."""
    levels = [Frames(oscillators(1, 16, 256), 256, 128), Frames(oscillators(16, 16, 64), 64, 32)]
    network = Classifier(UnICORNN(16, 16, init="spread"), 2, frames=levels, readout="mean+max+input").eval()
    u, kept = torch.randn(1_000_000, 1, 1).requires_grad_(), {}

    def keep(t):
        kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        loss = network(u)[0, 0]
    loss.backward()
    assert sum(kept.values()) < 4 * (3 * len(u) + 20 * 16 * len(u) // 128)
    first, last = (part.abs().max() for part in (u.grad[:10_000], u.grad[-10_000:]))
    assert 0.01 < first / last < 100


def test_oscillators_cover_a_frame():
    a = oscillators(2, 32, 100).time_steps()[0]
    torch.testing.assert_close(a[0].item() * 100, 2 * torch.pi * 0.8)
    torch.testing.assert_close(a[1:] / a[:-1], (a[1] / a[0]).expand(31))
    assert oscillators(1, 4, 1).time_steps().max() < 2  # a frame too short for one period


@pytest.mark.parametrize(("setting", "lengths", "hop"), [((256.0, 128.0), [256], 128), (64, [64], 32), ((), [], 0)])
def test_setting_of_frames(setting, lengths, hop):
    network = build_network("classify", "unicornn", 1, 2, {"hidden_size": 4, "frames": setting})
    assert [W for level in network.frames for W in level.length] == lengths
    assert [level.hop for level in network.frames] == [hop] * bool(lengths)


def test_half_the_sampling_rate_has_the_same_energies():
    """Tones that both rates represent, within the range of the oscillators."""
    torch.manual_seed(0)
    frames = Frames(oscillators(1, 24, 256), 256, 128)
    with torch.no_grad():
        frames.layers[0].b[0].zero_()
    steps = torch.arange(2048.0)
    for frequency in (0.05, 0.2, 0.5):
        tone = 0.3 * torch.sin(frequency * steps)[:, None, None]
        full = frames.energies(tone)
        half = copy.deepcopy(frames)
        half.resample(0.5)
        close = (half.energies(tone[::2]) - full).abs().mean()
        unadapted = (frames.energies(tone[::2])[:8] - full[::2][:8]).abs().mean()
        assert close < 0.35 * unadapted


def test_resampling_back_is_the_identity():
    frames = Frames(oscillators(1, 24, 64, fastest=1.0), 64, 32)
    before = frames.layers[0].time_steps()
    frames.resample(0.5)
    frames.resample(2.0)
    assert (frames.length, frames.hop) == ((64,), 32)
    torch.testing.assert_close(frames.layers[0].time_steps(), before, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("length", lambda: Frames(oscillators(1, 4), 0)),
        ("length", lambda: Frames([oscillators(1, 4)], [8, 16], 4)),
        ("hop", lambda: Frames(oscillators(1, 4), 8, 9)),
        ("floor", lambda: Frames(oscillators(1, 4), 8, 4, floor=0)),
        ("factor", lambda: Frames(oscillators(1, 4), 8, 3).resample(0.5)),
        ("layers", lambda: Frames(MODELS["gru"](1, 4), 8, 4).resample(0.5)),
        ("layers", lambda: Frames(torch.nn.LSTM(1, 4), 8, 4)),
        ("frame_size", lambda: build_network("classify", "unicornn", 1, 2, {"frames": (8, 4), "frame_size": (3, 4)})),
        ("fastest", lambda: oscillators(1, 4, fastest=2.0)),
        ("u", lambda: Frames(oscillators(1, 4), 8, 4)(torch.zeros(8, 1))),
        ("lengths", lambda: Frames(oscillators(1, 4), 8, 4)(torch.zeros(8, 1, 1), torch.tensor([1, 2]))),
        ("frames", lambda: Network(UnICORNN(3, 4), 2, frames=Frames(oscillators(1, 4), 8, 4))),
        ("frames", lambda: SequenceToSequence(UnICORNN(4, 4), 2, frames=Frames(oscillators(1, 4), 8, 4))),
        ("frames", lambda: build_network("classify", "unicornn", 1, 2, {"frames": (8, 4.5), "hidden_size": 4})),
    ],
)
def test_wrong_arguments(name, make):
    with pytest.raises((BadType, BadValue), match=f"^{name}: "):
        make()


def test_no_file_for_single_steps(tmp_path):
    from unicornn.export import onnx

    network = Classifier(UnICORNN(4, 4), 2, frames=Frames(oscillators(1, 4), 8, 4))
    with pytest.raises(BadValue, match=r"^kind: .*without frames"):
        onnx(network, tmp_path / "a.onnx", kind="step")
