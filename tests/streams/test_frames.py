"""Streams of networks with frames: an answer at every hop, equal to the network's for all samples so far."""

import numpy as np
import pytest
import torch

from unicornn import UnICORNN
from unicornn.baselines import MODELS
from unicornn.errors import BadValue
from unicornn.frames import Frames, oscillators
from unicornn.models import Classifier
from unicornn.streams import Stream

U = np.random.default_rng(0).standard_normal((100, 2))


def network(readout="mean+max+state", levels=1, **options):
    """A network in float64 with two resolutions, frames of frames if ``levels`` is 2, and features near (0, 1)."""
    torch.manual_seed(0)
    frames = [Frames([oscillators(2, 5, 8), oscillators(2, 4, 22)], [8, 22], 6, **options)]
    if levels == 2:
        frames.append(Frames(oscillators(9, 7, 5), 5, 2))
    rnn = UnICORNN(int(frames[-1].size), 10, 2, init="spread")
    net = Classifier(rnn, 3, frames=frames, readout=readout).double()
    net(torch.randn(200, 8, 2, dtype=torch.float64))
    return net.eval()


def output_for(net, u):
    with torch.no_grad():
        return net(torch.from_numpy(u)[:, None])[0].numpy()


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("readout", ["last", "mean+max+state", "last+max+energy", "max+input", "state+input"])
def test_answers_agree_with_the_network_at_every_hop(readout, levels):
    net = network(readout, levels)
    stream = Stream(net)
    assert stream.hop == (6, 12)[levels - 1]
    pushes = [stream.push(push, return_all=True) for push in ({"a": U[:37], "b": U[:3]}, {"b": U[3:]}, {"a": U[37:]})]
    first, second = (np.concatenate([push[key] for push in pushes if key in push]) for key in "ab")
    assert (first == second).all()
    assert len(first) == 100 // stream.hop
    for k, answer in enumerate(first, 1):
        np.testing.assert_allclose(answer, output_for(net, U[: k * stream.hop]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"centre": True}])
def test_windows_of_networks_with_frames(options):
    net = network(**options)
    answers = Stream(net, window=50, hop=10).push({"a": U}, return_all=True)["a"]
    assert len(answers) == 6
    np.testing.assert_allclose(answers[2], output_for(net, U[20:70]), rtol=1e-9, atol=1e-9)


def test_undo_and_files(tmp_path):
    net = network()
    stream = Stream(net, history=100)
    stream.push({"a": U[:50]})
    told = stream.push({"a": U[50:80]})["a"]
    stream.undo("a", 30)
    assert (stream.push({"a": U[50:80]})["a"] == told).all()
    restored = Stream.load(stream.save(tmp_path / "stream"), net)
    assert (restored.push({"a": U[80:]})["a"] == stream.push({"a": U[80:]})["a"]).all()


@pytest.mark.parametrize("make", [lambda: network(centre=True), lambda: lstm()])
def test_a_window_where_answers_cannot_be_carried(make):
    with pytest.raises(BadValue, match=r"^window: "):
        Stream(make())


def lstm():
    return Classifier(MODELS["lstm"](5, 4), 2, frames=Frames(oscillators(2, 5, 8), 8, 4))


def test_the_hop_is_that_of_the_frames():
    with pytest.raises(BadValue, match=r"^hop: "):
        Stream(network(), hop=5)
