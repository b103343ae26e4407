"""ONNX files of layers, networks and estimators give the model's outputs; exported programs reload."""

import copy
import json
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
import torch

from unicornn import UnICORNN, models
from unicornn.errors import BadType, BadValue, ExportFailed
from unicornn.frames import Frames, oscillators

pytest.importorskip("onnxscript", reason="onnx, onnxscript and onnxruntime are not installed")
onnxruntime = pytest.importorskip("onnxruntime")

from unicornn import export  # noqa: E402
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor  # noqa: E402
from unicornn.export import _bank, _networks  # noqa: E402

N, LENGTHS = 300, [300, 7]
RNG = np.random.default_rng(0)
X = (np.array([500.0, -3.0]) + RNG.standard_normal((12, 40, 2)) * [20.0, 1e-3]).astype(np.float32)
SMALL = {"hidden_size": 6, "max_epochs": 1, "dt": 0.2, "random_state": 0}


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def close(got, wanted, tolerance=1e-5):
    wanted = wanted.detach().numpy()
    assert np.abs(got - wanted).max() <= tolerance * max(1.0, np.abs(wanted).max())


@pytest.fixture(autouse=True)
def _plain_memory():
    torch.use_deterministic_algorithms(False)  # the exporter cannot translate filled memory


def test_steps_of_a_layer(tmp_path):
    layer = UnICORNN(3, 7, 2, dt=(0.1, 0.4))
    run = session(export.onnx(layer, tmp_path / "step.onnx", kind="step"))
    assert [i.name for i in run.get_inputs()] == ["u", "y", "z"]
    u, state = torch.randn(N, 5, 3), None
    y = z = np.zeros((2, 5, 7))
    for u_n in u:
        with torch.no_grad():
            wanted, state = layer.step(u_n, state)
        got, y, z = run.run(None, {"u": u_n.numpy(), "y": y, "z": z})
    close(got, wanted)
    close(y, state.y)
    close(z, state.z)


@pytest.mark.slow
def test_networks_with_frames(tmp_path):
    frames = Frames([oscillators(2, 5, 8), oscillators(2, 4, 22)], [8, 22], 6, centre=True)
    network = models.Classifier(UnICORNN(9, 6, init="spread"), 3, frames=frames, readout="mean+max+state+input")
    network(torch.randn(200, 8, 2))  # sets the mean and deviation of the features
    run = session(export.onnx(network.eval(), tmp_path / "frames.onnx"))
    u, lengths = torch.randn(N + 1, 4, 2), torch.tensor([N + 1, 50, 1, 7])
    close(run.run(None, {"u": u.numpy(), "lengths": lengths.numpy()})[0], network(u, lengths), 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 4, "skip_layers": 2}, {"bidirectional": True}, {"dropout": 0.5}]
)
def test_layer_over_sequences(tmp_path, options):
    layer = UnICORNN(3, 5, **{"num_layers": 2, **options}).eval()
    u, run = torch.randn(N, 2, 3), session(export.onnx(layer, tmp_path / "layer.onnx"))
    wanted, state = layer(u, lengths=LENGTHS)
    results = run.run(None, {"u": u.numpy(), "lengths": np.array(LENGTHS)})
    for got, value in zip(results, (wanted, *state), strict=True):
        close(got, value)


READOUTS = [
    "last", "mean", "energy", "state", "every_step", "last(norm=batch)+mean(norm=start)", "last+energy+state",
    "mean+energy(segments=3)", "energy(segments=2, from_rest=True, pool=moments)", "energy(mirrored=True)",
]  # fmt: skip


def random_network(rng):
    """A network with random settings, and its kind of file."""
    d, m, L, patch, outputs = (int(rng.choice(sizes)) for sizes in ([1, 3], [1, 5, 8], [1, 2, 3], [1, 1, 3], [1, 3]))
    kind, both, text = "step" if rng.random() < 0.3 else "sequence", rng.random() < 0.2, rng.random() < 0.2
    read = str(rng.choice(READOUTS if kind == "sequence" else ["last", "state", "last+energy+state", "every_step"]))
    patch, both = 1 if read == "every_step" else patch, both and kind == "sequence" and "segments" not in read
    dtype = torch.float64 if rng.random() < 0.2 else torch.float32
    rnn = UnICORNN(
        d * patch, m, L, dt=float(10 ** rng.uniform(-2, -0.5)), alpha=float(rng.choice([0, 1, 8.4])), dtype=dtype,
        bidirectional=bool(both), skip_layers=2 * int(L == 3), init=str(rng.choice(["paper", "spread"])),
    )  # fmt: skip
    options = {"readout": read, "patch": patch, "head_size": int(rng.choice([0, 4]))}
    if text and read != "every_step" and (kind == "sequence" or patch == 1):
        network = models.TextClassifier(rnn, outputs, vectors=torch.randn(9, d), **options)
        inputs = torch.randint(9, (27, 4))
    else:
        network = (models.Regressor if rng.random() < 0.5 else models.Classifier)(rnn, outputs, **options)
        inputs = torch.randn(27, 4, d, dtype=dtype)
    network(inputs)  # sets the mean and deviation of the features
    return network.eval(), inputs, kind


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_random_networks(tmp_path, seed):
    torch.manual_seed(seed)
    network, u, kind = random_network(np.random.default_rng(seed))
    run = session(export.onnx(network, tmp_path / "network.onnx", kind))  # compares 2,000 steps
    for b in (1, 4) if kind == "sequence" else ():
        lengths = torch.tensor([27, 9, 15, 21][:b])
        wanted = network(u[:, :b], lengths)
        got = run.run(None, {"u": u[:, :b].numpy(), "lengths": lengths.numpy()})[0]
        assert got.shape == wanted.shape
        exact = copy.deepcopy(network).double()(u[:, :b].double() if u.is_floating_point() else u[:, :b], lengths)
        close(got, wanted, max(1e-5, 10 * (exact - wanted).abs().max().item()))


@pytest.mark.parametrize(
    "readout", ["mean+energy(segments=3)", "mean+energy(segments=3, from_rest=True, pool='moments')"], ids=str
)
def test_energies_of_short_segments_and_of_silence(tmp_path, readout):
    """log(E² + ε²) needs its ε, which an optimiser of graphs may round to zero."""
    torch.manual_seed(0)
    network = models.Regressor(UnICORNN(2, 6, 2, dt=0.5), 3, readout=readout, head_size=4).eval()
    run = session(export.onnx(network, tmp_path / "network.onnx"))
    for u in (torch.randn(20, 4, 2), torch.zeros(20, 4, 2)):
        lengths = np.array([20, 19, 7, 3])
        close(run.run(None, {"u": u.numpy(), "lengths": lengths})[0], network(u, torch.from_numpy(lengths)))


@pytest.mark.parametrize("kind", export.KINDS)
def test_final_states_with_dt_and_alpha_that_float32_would_round(tmp_path, kind):
    """Rounded, they would turn the phases too far over 2,000 steps."""
    torch.manual_seed(1)
    network = models.Network(UnICORNN(2, 6, 2, dt=0.53, alpha=8.4), 4, readout="state")
    network(torch.randn(50, 8, 2))  # sets the mean and deviation of the states
    u, lengths = torch.randn(20, 3, 2), np.array([20, 7, 1])
    run = session(export.onnx(network.eval(), tmp_path / "network.onnx", kind))
    if kind == "sequence":
        close(run.run(None, {"u": u.numpy(), "lengths": lengths})[0], network(u, torch.from_numpy(lengths)))
        return
    y = z = np.zeros((2, 3, 6))
    for n, u_n in enumerate(u.numpy()):
        got, y, z = run.run(None, {"u": u_n, "y": y, "z": z})
        close(got, network(u[: n + 1]))


def test_steps_of_a_classifier(tmp_path):
    model = UnICORNNClassifier("network", segments=1, **SMALL).fit(X, ["<b>", "ä\n"] * 6)
    run = session(export.onnx(model, tmp_path / "a.onnx", kind="step"))
    assert json.loads(run.get_modelmeta().custom_metadata_map["unicornn.classes"]) == ["<b>", "ä\n"]
    y = z = np.zeros((2, 12, 6))
    for n in range(40):
        output, y, z = run.run(None, {"u": X[:, n], "y": y, "z": z})
    assert output.dtype == np.float32
    np.testing.assert_allclose(output, model.predict_proba(X), atol=3e-5)  # float32, through logarithms of energies


@pytest.mark.slow
@pytest.mark.parametrize("columns", [0, 3])
def test_sequences_of_a_regressor(tmp_path, columns):
    y = 1000 + RNG.standard_normal((12, 3))
    model = UnICORNNRegressor("network", frames=0, **SMALL).fit(X, y if columns else y[:, 0])
    run = session(export.onnx(model, tmp_path / "a.onnx"))
    lengths = np.array([40, 7] * 6)
    wanted = model.predict([x[:n] for x, n in zip(X, lengths, strict=True)])
    got = run.run(None, {"u": X.transpose(1, 0, 2), "lengths": lengths})[0]
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-3)


def test_models_and_paths_that_are_rejected(tmp_path):
    layer, target = UnICORNN(3, 5), ["a", "b"] * 6
    for name, model, kind in (
        ("kind", UnICORNN(3, 5, bidirectional=True), "step"),
        ("kind", models.Classifier(layer, 2, readout="mean"), "step"),
        ("kind", models.Classifier(layer, 2, readout="energy(mirrored=True)"), "step"),
        ("kind", layer, "steps"),
        ("kind", models.TextClassifier(UnICORNN(6, 5), 2, vectors=torch.randn(9, 3), patch=2), "step"),
        ("model", torch.nn.LSTM(3, 5), "sequence"),
        ("kind", UnICORNNClassifier(random_state=0).fit(X, target), "step"),  # a bank
        ("model", UnICORNNClassifier("both", **SMALL).fit(X, target), "sequence"),
        ("model", UnICORNNClassifier("network", missing="mask", **SMALL).fit(X, target), "sequence"),
        ("model", UnICORNNClassifier("network"), "sequence"),
        ("model", UnICORNN(3, 5, dtype=torch.bfloat16), "sequence"),
    ):
        with pytest.raises((BadValue, BadType), match=rf"^{name}: "):
            export.onnx(model, tmp_path / "a.onnx", kind)
    (tmp_path / "file").touch()
    for path in ("/dev/null", tmp_path, tmp_path / "file" / "a.onnx", tmp_path / ("a" * 256), "a\0b", "", 3, None):
        with pytest.raises(BadValue, match=r"^path: "):
            export.onnx(layer, path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


BANKS: dict[str, Any] = {
    "classes": (UnICORNNClassifier, {}, ["<b>", "b", "c"] * 4),
    "gaps": (UnICORNNClassifier, {"missing": "mask", "scale": "series"}, ["a", "b", "c"] * 4),
    "live": (UnICORNNRegressor, {"live": True}, 1000 + RNG.standard_normal(12)),
    "numbers": (UnICORNNRegressor, {"layout": "channels_first"}, 1000 + RNG.standard_normal((12, 2))),
}


@pytest.mark.parametrize("name", BANKS)
def test_banks(tmp_path, name):
    estimator, options, target = BANKS[name]
    series = [x[: 40 - 3 * i].copy() for i, x in enumerate(X)]
    if name == "gaps":
        series[0][:2] = series[1][3:9, 0] = series[2][:, 1] = np.nan
    first = "layout" in options
    given = [x.T for x in series] if first else series
    model = estimator(random_state=0, n_jobs=1, **options).fit(given, target)
    run = session(export.onnx(model, tmp_path / "bank.onnx"))
    for n in (1, 2, 7, 40, 300):
        u = np.resize(X, (4, n, 2))
        if name == "gaps":
            u[:2, : n // 2, 0] = u[1] = np.nan
        answer = model.predict if estimator is UnICORNNRegressor else model.predict_proba
        wanted = answer(u.swapaxes(1, 2) if first else u)
        got = run.run(None, {"u": u.transpose(1, 0, 2)})[0]
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-3 if n == 300 else 1e-4)
    names = run.get_modelmeta().custom_metadata_map
    assert "classes" not in name or json.loads(names["unicornn.classes"]) == ["<b>", "b", "c"]


def test_a_file_that_differs_from_the_model_is_discarded(tmp_path, monkeypatch):
    path = tmp_path / "layer.onnx"
    path.write_bytes(b"the old one")
    monkeypatch.setattr(_networks._Step, "run", lambda self, session, u: torch.ones(len(u), 2, 5))
    with pytest.raises(ExportFailed, match=r"^path: "):
        export.onnx(UnICORNN(3, 5), path, kind="step")
    assert path.read_bytes() == b"the old one"
    bank = UnICORNNClassifier(random_state=0).fit(X, ["a", "b"] * 6)
    monkeypatch.setattr(_bank, "ALPHA", 1.1)
    with pytest.raises(ExportFailed, match=r"^path: "):
        export.onnx(bank, tmp_path / "bank.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["layer.onnx"]


@pytest.mark.parametrize("kind", export.KINDS)
def test_fewer_steps_are_compared_if_rounding_grows(kind, caplog):
    torch.manual_seed(0)
    wild = models.Classifier(UnICORNN(2, 8, 2, dt=1.1), 2).eval()
    u, wanted, _ = _networks._reproducible(wild, _networks.KINDS[kind](wild))
    assert 16 <= len(u) < _networks.STEPS
    assert f"over {len(u)} steps of noise" in caplog.text
    assert len(wanted) == 2
    caplog.clear()
    calm = models.Classifier(UnICORNN(2, 8, 2), 2).eval()
    assert len(_networks._reproducible(calm, _networks.KINDS[kind](calm))[0]) == _networks.STEPS
    assert not caplog.text


def test_exported_programs_reload_in_a_new_process(tmp_path):
    layer = UnICORNN(3, 5, 2).eval()
    u = torch.randn(40, 2, 3)
    shapes = {"input": {0: torch.export.Dim("N", min=2), 1: torch.export.Dim("b", min=1)}}
    program = torch.export.export(layer, (u,), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "layer.pt2")
    v = torch.randn(70, 3, 3)
    torch.save({"v": v, "output": layer(v)[0].detach()}, tmp_path / "wanted.pt")
    script = f"""
        import torch, unicornn
        wanted = torch.load({str(tmp_path / "wanted.pt")!r})
        output, (y, z) = torch.export.load({str(tmp_path / "layer.pt2")!r}).module()(wanted["v"])
        assert torch.equal(output, wanted["output"])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
