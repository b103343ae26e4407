"""The plan of the reproduction can be carried out: every run's settings are right, and the driver goes on."""

import json
import re
import sys

import pytest
from typer.testing import CliRunner

from docs.build.pages import ROOT, fill
from docs.build.reproduction import page, plots, results, tables
from reproduction import __main__ as driver
from reproduction import authors, plans, record
from tests.lab.training import helpers
from unicornn.lab import cli, tasks
from unicornn.lab.training import resolve, train


@pytest.mark.parametrize("group", sorted(plans.GROUPS))
def test_every_planned_run_is_understood(group, monkeypatch, tmp_path):
    asked = []

    def train(config, folder, **_):
        asked.append(config)
        return driver.Run(folder)

    monkeypatch.setattr("unicornn.lab.training.train", train)
    names = [plan.name for plan in plans.planned(group)]
    assert len(set(names)) == len(names)
    for plan in plans.planned(group):
        outcome = CliRunner().invoke(cli.app, ["train", *plan.arguments, "--out", str(tmp_path / plan.name)])
        assert outcome.exit_code == 0, outcome.exception
    assert len(asked) == len(names)


def test_the_driver_trains_keeps_and_goes_on(tmp_path, monkeypatch, capsys):
    arguments = (helpers.__file__, "--epochs", "1")
    monkeypatch.setitem(driver.GROUPS, "small", lambda: iter([plans.Planned("one", arguments)]))
    monkeypatch.setattr(driver, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["reproduction", "small", "--workers", "1"])
    driver.main()
    driver.main()
    assert capsys.readouterr().out.splitlines() == ["one: done", "one: done before"]
    (kept,) = json.loads((tmp_path / "results/reproduction/small.json").read_text())
    assert kept["command"].startswith("unicornn train")
    assert kept["result"]["epochs"] == 1


def test_what_was_measured_elsewhere_is_kept_and_unfinished_runs_replace_nothing(tmp_path):
    finished, stopped = (driver.Run(tmp_path / name) for name in ("a", "b"))
    for run in (finished, stopped):
        train(resolve(helpers.TASK, settings={"epochs": 1}), run.path, task=helpers.TASK)
    (stopped.path / "result.json").unlink()
    path = tmp_path / "group.json"
    path.write_text(json.dumps([{"name": "elsewhere", "result": {"test": 1}}, {"name": "b", "result": {"test": 2}}]))
    driver.keep(path, [finished, stopped])
    kept = {record["name"]: record["result"] for record in json.loads(path.read_text())}
    assert kept == {"elsewhere": {"test": 1}, "b": {"test": 2}, "a": finished.result}
    path.unlink()
    driver.keep(path, [stopped])
    (begun,) = json.loads(path.read_text())
    assert (begun["result"], begun["curve"]["epoch"]) == (None, [1])


def test_every_group_has_a_table_and_every_figure_a_place(tmp_path, monkeypatch):
    """From made-up runs of every group: all is drawn, and nothing of the page stays empty."""
    monkeypatch.setattr(results, "RUNS", tmp_path)
    curve = {"epoch": [1, 2], "valid": [0.5, 0.6], "train_loss": [2.0, 1.0], "seconds": [1.0, 2.0]}
    norms = {f"w_norm_{l}": [1.0, 1.5] for l in (1, 2, 3)}
    theirs = {"source": "", "curves": {name: {"epoch": [1, 2], "valid": [0.4, 0.7]} for name in tables.SHOWN}}
    (tmp_path / "authors.json").write_text(json.dumps(theirs))
    for group in plans.GROUPS:
        runs = []
        for plan in plans.planned(group):
            task, values = tasks.find(plan.arguments[0]), plan.arguments
            given = dict(zip(values[1::2], values[2::2], strict=True))
            changes = [
                value.partition("=")[::2]
                for name, value in zip(values[1::2], values[2::2], strict=True)
                if name == "--set"
            ]
            config = resolve(task, model=given.get("--model", "unicornn"), settings=dict(changes)).as_dict()
            runs.append(config | {
                "name": plan.name, "metric": task.metric.name, "more_is_better": task.metric.more_is_better,
                "parameters": 10, "budget": 60.0,
                "command": "unicornn train " + " ".join(values), "environment": {"threads": 1}, "test_sequences": 9,
                "time_steps": [[0.1, 0.2]], "curve": curve | norms,
                "result": {"test": 5 / 9, "valid": 0.6, "seconds": 90.0, "epochs": 2},
            })  # fmt: skip
        (tmp_path / f"{group}.json").write_text(json.dumps(runs))
    drawn = plots.plots()
    assert {name.partition("-")[0] for name in drawn} >= {
        "curve",
        "recipe",
        "imdb",
        "ablation",
        "subsampling",
        "weight",
    }
    text = fill((ROOT / page.PAGE).read_text(), page.blocks())
    for name in drawn:
        assert text.count(f"reproduction/{name}.png)") == 1
    assert "5 of 9 " not in text
    assert "25 of 45 | 56 %" in text  # five folds
    assert "--seed" not in text
    empty = re.findall(r"<!-- ([\w-]+) -->\n<!-- /", text)
    assert not empty


def test_time_steps_are_those_of_a_network_that_read_pixel_by_pixel(tmp_path, monkeypatch):
    """Once there is one, finished or not; until then those of one that read several pixels per step."""
    monkeypatch.setattr(results, "RUNS", tmp_path)
    assert tables.time_steps() == ["No network has been trained yet."]
    run = {
        "name": "psmnist",
        "training": {},
        "model_options": {"dt": 0.5, "init": "spread"},
        "task_options": {"patch": 8},
    }
    of = {"result": {"epochs": 3}, "time_steps": [[0.1, 0.4], [0.2, 0.3]]}
    (tmp_path / "recipes.json").write_text(json.dumps([run | of]))
    (tmp_path / "scales.json").write_text(json.dumps([run | {"result": None, "curve": {"epoch": [1]}}]))
    assert "8 pixels per step, and was trained for 3 epochs" in tables.time_steps()[0]
    assert "5.0 times smaller than Δt = 0.5" in tables.time_steps()[0]
    of = {"result": None, "curve": {"epoch": [1, 2]}, "time_steps": [[0.02, 0.4]]}
    (tmp_path / "scales.json").write_text(json.dumps([run | of]))
    assert "pixel by pixel, and was trained for 2 epochs, with time scales that were spread" in tables.time_steps()[0]
    assert "25.0 times smaller" in tables.time_steps()[0]
    assert "time-steps" in plots.plots()


def test_the_authors_curves_are_kept(tmp_path, monkeypatch):
    for name, file in authors.FILES.items():
        column = "valid_rmse" if name in ("rr", "hr") else "valid_accuracy_percent"
        (tmp_path / f"{file}.csv").write_text(f"epoch,{column}\n1,50\n2,75\n")
    monkeypatch.setattr(authors, "RESULTS", tmp_path)
    monkeypatch.setattr(results, "RUNS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["authors", str(tmp_path)])
    authors.main()
    assert results.authors("hr")["valid"].tolist() == [50, 75]
    assert results.authors("imdb")["valid"].tolist() == [0.5, 0.75]


def test_a_record_has_all_that_a_reader_needs(tmp_path, monkeypatch):
    config = resolve(helpers.TASK, settings={"epochs": 2})
    run = train(config, tmp_path / "runs" / "one", task=helpers.TASK)
    monkeypatch.setattr(sys, "argv", ["record", str(tmp_path / "runs"), "--out", str(tmp_path / "a.json")])
    record.main()
    (kept,) = json.loads((tmp_path / "a.json").read_text())
    assert {"command", "seed", "protocol", "training", "model_options", "environment", "result"} <= set(kept)
    assert kept["result"] == run.result
    assert kept["curve"]["epoch"] == [1, 2]
