"""The plan of the reproduction can be carried out: every run's settings are right, and the driver goes on."""

import json
import sys

import pytest
import torch
from typer.testing import CliRunner

from benchmarks.reproduction import __main__ as driver
from benchmarks.reproduction import plans
from tests.training import small
from unicornn import cli


@pytest.mark.parametrize("group", sorted(plans.GROUPS))
def test_every_planned_run_is_understood(group, monkeypatch, tmp_path):
    asked = []

    def train(config, folder, **_):
        asked.append(config)
        return driver.Run(folder)

    monkeypatch.setattr("unicornn.training.train", train)
    names = [plan.name for plan in plans.planned(group)]
    assert len(set(names)) == len(names)
    for plan in plans.planned(group):
        outcome = CliRunner().invoke(cli.app, ["train", *plan.arguments, "--out", str(tmp_path / plan.name)])
        assert outcome.exit_code == 0, outcome.exception
    torch.set_flush_denormal(False)  # the command had set it
    assert len(asked) == len(names)


def test_the_driver_trains_keeps_and_goes_on(tmp_path, monkeypatch, capsys):
    arguments = (small.__file__, "--epochs", "1")
    monkeypatch.setitem(driver.GROUPS, "small", lambda: iter([plans.Planned("one", arguments)]))
    monkeypatch.setattr(driver, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["reproduction", "small", "--workers", "1"])
    driver.main()
    driver.main()
    assert capsys.readouterr().out.splitlines() == ["one: done", "one: done before"]
    (kept,) = json.loads((tmp_path / "results/reproduction/small.json").read_text())
    assert kept["command"].startswith("unicornn train")
    assert kept["result"]["epochs"] == 1
