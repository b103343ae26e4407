"""Every recorded command and every published recipe is valid; the driver trains, resumes and records."""

import json
import re
import shlex

import pytest
from typer.testing import CliRunner

from docs.build.pages import ROOT
from docs.build.reproduction import recipe
from reproduction import RESULTS
from reproduction import __main__ as driver
from tests.lab.training import helpers
from unicornn.lab import cli


@pytest.fixture
def accepted(monkeypatch, tmp_path):
    """Asserts that ``unicornn train`` accepts some arguments, without training."""
    monkeypatch.setattr("unicornn.lab.training.train", lambda config, folder, **_: driver.Run(folder))

    def check(name, arguments):
        outcome = CliRunner().invoke(cli.app, ["train", *arguments, "--out", str(tmp_path / name)])
        assert outcome.exit_code == 0, outcome.exception

    return check


SHOWN = "ablations curves energies images imdb lorenz protocol scales subsampling worms-alone"  # on pages


@pytest.mark.parametrize("group", SHOWN.split())
def test_recorded_commands_are_valid(group, accepted):
    for name, record in driver.recorded(RESULTS / f"{group}.json").items():
        accepted(name, shlex.split(record["command"])[2:])


@pytest.mark.parametrize("names", re.findall("<!-- recipe (.*) -->", (ROOT / "docs/reproduction.md").read_text()))
def test_published_recipes_are_valid(names, accepted):
    for number, command in enumerate(recipe(*names.split())[1:-1]):
        assert not re.search("--seed|fold=", command)
        accepted(str(number), shlex.split(command)[2:])


def test_driver_trains_resumes_and_records(tmp_path, monkeypatch, capsys):
    path = tmp_path / "small.json"
    path.write_text(json.dumps([{"name": "one", "command": f"unicornn train {helpers.__file__} --epochs 1"}]))
    monkeypatch.setattr(driver, "RESULTS", tmp_path)
    for _ in range(2):
        driver.main("small", runs=tmp_path, workers=1)
    assert capsys.readouterr().out.splitlines() == ["one: finished", "one: already finished"]
    (kept,) = json.loads(path.read_text())
    assert {"seed", "protocol", "training", "model_options", "environment"} <= set(kept)
    assert kept["command"].startswith("unicornn train")
    assert kept["result"]["epochs"] == kept["curve"]["epoch"][-1] == 1
