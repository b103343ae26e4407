"""Files for other programs: what onnxruntime and reloaded programs give is what the layer gives."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from unicornn import UnICORNN, models
from unicornn.errors import BadType, BadValue, ExportFailed

pytest.importorskip("onnxscript", reason="onnx, onnxscript and onnxruntime are not installed")
onnxruntime = pytest.importorskip("onnxruntime")

from unicornn import export  # noqa: E402

N, LENGTHS = 300, [300, 7]


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def close(got, wanted, tolerance=1e-5):
    wanted = wanted.detach().numpy()
    assert np.abs(got - wanted).max() <= tolerance * max(1.0, np.abs(wanted).max())


@pytest.fixture(autouse=True)
def _plain_memory():
    torch.use_deterministic_algorithms(False)  # the exporter has no translation of filling memory


def over_sequence(model, path):
    u = torch.randn(N, 2, 3)
    got = session(export.onnx(model, path)).run(None, {"u": u.numpy(), "lengths": np.array(LENGTHS)})
    return u, got


def test_step(tmp_path):
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
@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 4, "skip_layers": 2}, {"bidirectional": True}, {"dropout": 0.5}]
)
def test_layer_over_sequences(tmp_path, options):
    layer = UnICORNN(3, 5, **{"num_layers": 2, **options}).eval()
    u, (output, y, z) = over_sequence(layer, tmp_path / "layer.onnx")
    wanted, state = layer(u, lengths=LENGTHS)
    for got, value in zip((output, y, z), (wanted, *state), strict=True):
        close(got, value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", export.KINDS)
@pytest.mark.parametrize(
    "reading",
    [{}, {"readout": "energy"}, {"readout": "last+energy", "patch": 3}, {"every_step": True},
     {"readout": "last+energy+state", "patch": 3}],
    ids=str,
)  # fmt: skip
def test_networks(tmp_path, kind, reading):
    torch.manual_seed(1)
    network = models.Network(UnICORNN(3 * reading.get("patch", 1), 6, 2), 4, **reading)
    network(torch.randn(50, 8, 3))  # the energies' mean and deviation
    run = session(export.onnx(network.eval(), tmp_path / "network.onnx", kind))  # compares 2,000 steps
    assert run.get_outputs()[0].name == "output"


@pytest.mark.parametrize(
    "reading", [{"segment_start": "carried"}, {"segment_start": "rest", "segment_pool": "moments"}], ids=str
)
def test_energies_next_to_nothing(tmp_path, reading):
    """Of short pieces, and of silence: log(E² + ε²) needs its ε, which an optimiser of graphs may take for zero."""
    torch.manual_seed(0)
    network = models.Network(UnICORNN(2, 6, 2, dt=0.5), 3, readout="energy", segments=3, **reading).eval()
    run = session(export.onnx(network, tmp_path / "network.onnx"))
    for u in (torch.randn(20, 4, 2), torch.zeros(20, 4, 2)):
        lengths = np.array([20, 19, 7, 3])
        close(run.run(None, {"u": u.numpy(), "lengths": lengths})[0], network(u, torch.from_numpy(lengths)))


@pytest.mark.parametrize("kind", export.KINDS)
def test_states(tmp_path, kind):
    """With Δt and α that float32 does not have: rounded, they would turn the phases too far over 2,000 steps."""
    torch.manual_seed(1)
    network = models.Network(UnICORNN(2, 6, 2, dt=0.53, alpha=8.4), 4, readout="state")
    network(torch.randn(50, 8, 2))  # the states' mean and deviation
    u, lengths = torch.randn(20, 3, 2), np.array([20, 7, 1])
    run = session(export.onnx(network.eval(), tmp_path / "network.onnx", kind))
    if kind == "sequence":
        close(run.run(None, {"u": u.numpy(), "lengths": lengths})[0], network(u, torch.from_numpy(lengths)))
        return
    y = z = np.zeros((2, 3, 6))
    for n, u_n in enumerate(u.numpy()):
        got, y, z = run.run(None, {"u": u_n, "y": y, "z": z})
        close(got, network(u[: n + 1]))


@pytest.mark.slow
def test_text_and_float64(tmp_path):
    text = models.TextClassifier(UnICORNN(5, 8), 2, vectors=torch.randn(30, 5))
    words = torch.randint(30, (40, 2))
    run = session(export.onnx(text.eval(), tmp_path / "text.onnx"))
    close(run.run(None, {"u": words.numpy(), "lengths": np.array([40, 3])})[0], text(words, torch.tensor([40, 3])))
    export.onnx(UnICORNN(2, 5, dtype=torch.float64), tmp_path / "double.onnx")


def test_what_cannot_be_exported(tmp_path):
    both = UnICORNN(3, 5, bidirectional=True)
    with pytest.raises(BadValue, match="kind: expected 'sequence' for both directions"):
        export.onnx(both, tmp_path / "a.onnx", kind="step")
    with pytest.raises(BadValue, match="kind: expected 'sequence' for a readout of the mean"):
        export.onnx(models.Classifier(UnICORNN(3, 5), 2, readout="mean"), tmp_path / "a.onnx", kind="step")
    mirrored = models.Classifier(UnICORNN(3, 5), 2, readout="energy", mirrored=True)
    with pytest.raises(BadValue, match="kind: expected 'sequence' for a readout of the mean"):
        export.onnx(mirrored, tmp_path / "a.onnx", kind="step")
    with pytest.raises(BadType, match=r"model: expected a UnICORNN.* got LSTM"):
        export.onnx(torch.nn.LSTM(3, 5), tmp_path / "a.onnx")
    with pytest.raises(BadValue, match="kind: expected one of 'sequence', 'step'"):
        export.onnx(UnICORNN(3, 5), tmp_path / "a.onnx", kind="steps")
    for path in ("/dev/null", tmp_path):
        with pytest.raises(BadValue, match="path: expected the path of a file to write"):
            export.onnx(UnICORNN(3, 5), path)
    assert not list(tmp_path.iterdir())


def test_a_file_that_differs_is_not_kept(tmp_path, monkeypatch):
    path = tmp_path / "layer.onnx"
    path.write_bytes(b"the old one")
    monkeypatch.setattr(export, "TOLERANCE", 0.0)
    with pytest.raises(ExportFailed, match="expected a file that agrees with the model"):
        export.onnx(UnICORNN(3, 5), path, kind="step")
    assert path.read_bytes() == b"the old one"
    assert [p.name for p in tmp_path.iterdir()] == ["layer.onnx"]


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
