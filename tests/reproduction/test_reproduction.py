"""Every planned run and every published recipe is a valid command; the driver trains, resumes and records."""

import json
import re
import shlex
import sys

import pytest
from typer.testing import CliRunner

from docs.build.pages import ROOT
from docs.build.reproduction import recipe
from reproduction import __main__ as driver
from reproduction import plans
from tests.lab.training import helpers
from unicornn.lab import cli
from unicornn.lab.training import resolve, train


@pytest.fixture
def accepted(monkeypatch, tmp_path):
    """Asserts that ``unicornn train`` accepts some arguments, without training."""
    monkeypatch.setattr("unicornn.lab.training.train", lambda config, folder, **_: driver.Run(folder))

    def check(name, arguments):
        outcome = CliRunner().invoke(cli.app, ["train", *arguments, "--out", str(tmp_path / name)])
        assert outcome.exit_code == 0, outcome.exception

    return check


@pytest.mark.parametrize("group", sorted(plans.GROUPS))
def test_planned_runs_are_valid(group, accepted):
    planned = plans.planned(group)
    assert len({plan.name for plan in planned}) == len(planned)
    for plan in planned:
        accepted(plan.name, plan.arguments)


@pytest.mark.parametrize("names", re.findall("<!-- recipe (.*) -->", (ROOT / "docs/reproduction.md").read_text()))
def test_published_recipes_are_valid(names, accepted):
    for number, command in enumerate(recipe(*names.split())[1:-1]):
        assert not re.search("--seed|fold=", command)
        accepted(str(number), shlex.split(command)[2:])


def test_driver_trains_resumes_and_records(tmp_path, monkeypatch, capsys):
    arguments = (helpers.__file__, "--epochs", "1")
    monkeypatch.setitem(driver.GROUPS, "small", lambda: iter([plans.Planned("one", arguments)]))
    monkeypatch.setattr(driver, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["reproduction", "small", "--workers", "1"])
    driver.main()
    driver.main()
    assert capsys.readouterr().out.splitlines() == ["one: finished", "one: already finished"]
    (kept,) = json.loads((tmp_path / "results/reproduction/small.json").read_text())
    assert {"seed", "protocol", "training", "model_options", "environment"} <= set(kept)
    assert kept["command"].startswith("unicornn train")
    assert kept["result"]["epochs"] == kept["curve"]["epoch"][-1] == 1


def test_records_of_other_and_finished_runs_are_kept(tmp_path):
    finished, stopped = (driver.Run(tmp_path / name) for name in ("a", "b"))
    for run in (finished, stopped):
        train(resolve(helpers.TASK, settings={"epochs": 1}), run.path, task=helpers.TASK)
    (stopped.path / "result.json").unlink()
    path = tmp_path / "group.json"
    path.write_text(json.dumps([{"name": "elsewhere", "result": {"test": 1}}, {"name": "b", "result": {"test": 2}}]))
    driver.update_records(path, [finished, stopped])
    kept = {record["name"]: record["result"] for record in json.loads(path.read_text())}
    assert kept == {"elsewhere": {"test": 1}, "b": {"test": 2}, "a": finished.result}
    driver.update_records(tmp_path / "new.json", [stopped])
    (begun,) = json.loads((tmp_path / "new.json").read_text())
    assert (begun["result"], begun["curve"]["epoch"]) == (None, [1])
