"""The measurements behind docs/theory.md run, on small sizes."""

import json

import pytest

from docs.build.theory import growth_tables, tables
from tests.benchmarks.run import run
from unicornn.theory.plots import Plot


@pytest.mark.slow
def test_the_script_runs(tmp_path):
    run("benchmarks.theory", "--quick", "--out", tmp_path)
    result = json.loads((tmp_path / "theory.json").read_text())
    assert {"command", "seed", "protocol", "date", "versions", "seconds"} <= set(result)
    drawn = json.loads((tmp_path / "theory_plots.json").read_text())
    assert set(drawn) == {"energy", "bounds", "contributions", "profile"}
    assert all(Plot.from_dict(values).draw().axes for values in drawn.values())
    assert {path.name for path in tmp_path.iterdir()} == {"theory.json", "theory_plots.json"}
    assert all(tables(result).values())


@pytest.mark.slow
def test_growth(tmp_path):
    run("benchmarks.theory", "growth", "--quick", "--out", tmp_path)
    result = json.loads((tmp_path / "growth.json").read_text())
    assert {"command", "seed", "protocol", "date", "versions", "seconds"} <= set(result)
    assert Plot.from_dict(result["plot"]).panels
    assert all(block for name, block in growth_tables(result).items() if name != "paper")
