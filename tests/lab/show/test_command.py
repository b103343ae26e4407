"""`unicornn show` and `unicornn export` of a run."""

import pytest
from typer.testing import CliRunner

from unicornn.lab import cli, tasks
from unicornn.lab.training import resolve, train


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    settings = {"epochs": 1, "hidden_size": 8, "readout": "last+energy"}
    train(resolve(tasks.find("digits"), settings=settings), folder)
    return folder


def test_show(run, tmp_path):
    done = CliRunner().invoke(cli.app, ["show", str(run), "--out", str(tmp_path / "page.html"), "--samples", "12"])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "page.html").read_text()
    assert page.count('"name": "test ') == 12
    assert all(f'"target": {k}' in page for k in range(10))


def test_export(run, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    done = CliRunner().invoke(cli.app, ["export", str(run), "--to", str(tmp_path / "a.onnx"), "--kind", "step"])
    assert done.exit_code == 0, done.output
    names = [value.name for value in onnxruntime.InferenceSession(str(tmp_path / "a.onnx")).get_outputs()]
    assert names == ["output", "y_next", "z_next"]
