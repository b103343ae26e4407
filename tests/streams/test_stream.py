"""Streams: the answers are those for whole sequences, bit for bit however the samples arrive."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unicornn import UnICORNN
from unicornn._ops.cpu.sizes import B
from unicornn.models import Classifier, Network, Regressor, SequenceToSequence, TextClassifier
from unicornn.streams import Stream

READOUTS = ["last", "mean", "energy", "state(norm=None)", "last(norm=batch)+energy+state", "last+mean+energy+state"]


def network(readout="last", patch=1, dtype=torch.float32):
    """A network whose features are standardised by random numbers."""
    torch.manual_seed(0)
    rnn = UnICORNN(2 * patch, 10, 3, dt=0.3, skip_layers=2)
    net = Classifier(rnn, 3, patch=patch, readout=readout, head_size=5 * ("+" in readout)).to(dtype).eval()
    for norm in net.features.norms.values():
        norm.running_mean.uniform_(-3, 0)
        norm.running_var.uniform_(0.5, 2)
    return net


@torch.no_grad()
def output_for(net, u):
    """The network's output for one sequence (N, d)."""
    return net(torch.as_tensor(u, dtype=next(net.parameters()).dtype)[:, None])[0].numpy()


def random_pushes(data, series):
    """Pushes of random keys with random numbers of samples, until all series are used up."""
    at = dict.fromkeys(series, 0)
    while any(at[key] < len(x) for key, x in series.items()):
        running = [key for key, x in series.items() if at[key] < len(x)]
        chosen = data.draw(st.lists(st.sampled_from(running), unique=True, min_size=1))
        push = {}
        for key in chosen:
            k = data.draw(st.integers(1, min(9, len(series[key]) - at[key])))
            push[key] = series[key][at[key] : at[key] + k]
            at[key] += k
        yield push


@given(st.data())
@settings(max_examples=20)
def test_answers_do_not_depend_on_other_sequences_or_on_the_pushes(data):
    patch = data.draw(st.sampled_from([1, 1, 3]))
    window = data.draw(st.sampled_from([None, (6, 3), (9, 6)]))
    options = {} if window is None else {"window": window[0], "hop": window[1]}
    net = network(
        data.draw(st.sampled_from(READOUTS)), patch, data.draw(st.sampled_from([torch.float32, torch.float64]))
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    series = {
        key: rng.standard_normal((data.draw(st.integers(1, 25)), 2)) for key in range(data.draw(st.integers(1, 40)))
    }
    stream, told = Stream(net, **options), {key: [] for key in series}
    for push in random_pushes(data, series):
        for key, answers in stream.push(push, return_all=True).items():
            told[key].append(answers)
    for key in list(series)[:3]:
        alone = Stream(net, **options)
        expected = [alone.push({key: x}, return_all=True)[key] for x in series[key]]
        assert np.concatenate(told[key]).tobytes() == np.concatenate(expected).tobytes()


@pytest.mark.parametrize("patch", [1, 3])
@pytest.mark.parametrize("readout", READOUTS)
def test_answers_agree_with_the_network(readout, patch):
    net, u = network(readout, patch, torch.float64), np.random.default_rng(0).standard_normal((40, 2))
    every = Stream(net).push({"a": u}, return_all=True)["a"]
    for n in (1, 2, 3, 17, 40):
        np.testing.assert_allclose(every[n - 1], output_for(net, u[:n]), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(Stream(net).push({"a": u[:n]})["a"], every[n - 1])


@pytest.mark.parametrize(("window", "every"), [(12, 3), (9, 6), (6, 9), (12, 12), (12, 1)])
@pytest.mark.parametrize("patch", [1, 3])
def test_windows_agree_with_the_network(window, every, patch):
    every *= patch if every == 1 else 1
    net, u = network("last+mean+energy+state", patch, torch.float64), np.random.default_rng(0).standard_normal((50, 2))
    stream, told = Stream(net, window=window, hop=every), []
    for part in np.split(u, [1, 5, 6, 30, 31]):
        rows = stream.push({"a": part, "b": u[:7]}, return_all=True)["a"]
        told += list(rows)
    ends = range(window, 51, every)
    assert len(told) == len(ends)
    for answer, end in zip(told, ends, strict=True):
        np.testing.assert_allclose(answer, output_for(net, u[end - window : end]), rtol=1e-9, atol=1e-9)


def test_ten_thousand_steps():
    torch.manual_seed(0)
    layer, u = UnICORNN(2, 32, 2, dt=0.02), torch.randn(10_000, 2, 2)
    with torch.no_grad():
        expected = layer(u)[0].numpy()
    stream = Stream(layer)
    for start in range(0, 10_000, 2500):
        told = stream.push({i: u[start : start + 2500, i] for i in range(2)}, return_all=True)
        for i in range(2):
            off = np.abs(told[i] - expected[start : start + 2500, i]).max()
            assert off <= 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("m", [1, 10, B, B + 3, 2 * B + 1])
def test_final_states_of_layers_of_any_size(m, dtype):
    """y of all layers and then z, not standardised; also if the last block of neurons is incomplete."""
    torch.manual_seed(0)
    layer, u = UnICORNN(2, m, 3, dtype=dtype), torch.randn(20, 1, 2, dtype=dtype)
    with torch.no_grad():
        state = layer(u)[1]
    told = Stream(layer, readout="state").push({"a": u[:, 0]})["a"]
    assert told.shape == (6 * m,)
    np.testing.assert_allclose(told, torch.cat([state.y[:, 0], state.z[:, 0]]).flatten(), rtol=1e-5, atol=1e-6)


def test_kinds_of_networks():
    torch.manual_seed(0)
    u = torch.randn(20, 2)
    for net, shape in (
        (Regressor(UnICORNN(2, 8), 1), ()),
        (Regressor(UnICORNN(2, 8), 2), (2,)),
        (Network(UnICORNN(2, 8), 2), (2,)),
    ):
        if isinstance(net, Regressor):
            net.standardise(torch.tensor([3.0, 5.0]))
        told = Stream(net).push({"a": u})["a"]
        assert told.shape == shape
        np.testing.assert_allclose(told, output_for(net, u), rtol=1e-5)
    forecast = SequenceToSequence(UnICORNN(2, 8), 3)
    with torch.no_grad():
        expected = forecast(u[:, None])[:, 0].numpy()
    np.testing.assert_allclose(Stream(forecast).push({"a": u}, return_all=True)["a"], expected, rtol=1e-4, atol=1e-6)
    net = network()
    assert Stream(net).predict_one("a", u) == output_for(net, u).argmax()
    text = TextClassifier(UnICORNN(4, 8), 2, vectors=torch.randn(10, 4)).eval()
    words = torch.tensor([3, 1, 9])
    with torch.no_grad():
        expected = text(words[:, None])[0].numpy()
    stream = Stream(text)
    stream.push({"a": 3, "b": [1, 9]})
    np.testing.assert_allclose(stream.push({"a": words[1:]})["a"], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("readout", ["energy", "state"])
def test_estimators(readout):
    from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 30, 2)) * 3 + 1, np.repeat(["low", "high"], 6)
    options = {"model": "network", "max_epochs": 1, "hidden_size": 8, "dt": 0.1, "random_state": 0}
    options["readout"] = readout
    classifier = UnICORNNClassifier(**options).fit(X, y)
    told = Stream(classifier).push(dict(enumerate(X)))
    np.testing.assert_allclose(np.stack(list(told.values())), classifier.predict_proba(X), rtol=1e-4, atol=1e-5)
    assert list(Stream(classifier).predict_many(dict(enumerate(X))).values()) == list(classifier.predict(X))
    regressor = UnICORNNRegressor(**options).fit(X, np.arange(12.0))
    assert np.isclose(Stream(regressor).predict_one("a", X[3]), regressor.predict(X[3:4])[0], rtol=1e-4)


def test_later_changes_of_the_model_have_no_effect():
    layer, x = UnICORNN(2, 8), np.ones((5, 2))
    stream, other = Stream(layer), Stream(layer)
    first = stream.push({"a": x})["a"]
    with torch.no_grad():
        layer.V[0].fill_(7)
    del layer
    np.testing.assert_array_equal(other.push({"a": x})["a"], first)


def test_keys_that_are_dropped_and_come_back():
    layer, rng = UnICORNN(1, 4), np.random.default_rng(0)
    stream, alive, told = Stream(layer), {}, {}
    for _ in range(60):
        for key in [key for key in alive if rng.random() < 0.2]:
            stream.drop(key)
            np.testing.assert_array_equal(Stream(layer).push({0: np.concatenate(alive.pop(key))})[0], told[key])
        push = {int(key): rng.standard_normal((int(rng.integers(1, 4)), 1)) for key in rng.integers(0, 30, 5)}
        for key, x in push.items():
            alive.setdefault(key, []).append(x)
        told |= stream.push(push)
        assert len(stream) == len(alive)
        assert set(stream) == set(alive)


def test_threads():
    layer = UnICORNN(2, 8, 2)
    stream, x = Stream(layer), np.random.default_rng(0).standard_normal((200, 8, 2))

    def work(key):
        for row in x[:, key]:
            answer = stream.push({key: row})[key]
            stream.push({(key, "short"): row})
            stream.drop((key, "short"))
        return answer

    with ThreadPoolExecutor(8) as pool:
        for key, answer in enumerate(pool.map(work, range(8))):
            np.testing.assert_array_equal(answer, Stream(layer).push({0: x[:, key]})[0])
